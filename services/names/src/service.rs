//! The state machine of the name service.
//!
//! Contract: that of `share::Service`. Every request with any bulk gets an answer, an error if it
//! is malformed, and a failed request changes nothing. A kernel registers and removes names of its
//! own present life only, which is that of the request's token. For the tree and the process that
//! a request is for, kernels are trusted.
//!
//! ```text
//!   Watch(edition) --> another one already --> answered
//!                 \-> the same: parked -- the table changes --> repeated, answered
//! ```
//! A restarted table is empty, and kernels register again what they serve. They learn of the
//! restart by WatchLife. Its callers are parked without a record: no step of this life wakes them,
//! so changes of the table do not wake a kernel that rests. When a life is lost, the kernels let
//! all their parked callers ask again.

use crate::table::{Entry, Life, Table};
use abi::boot::MAX_DOMAINS;
use abi::names::{Errno, Listed, Name, Op, Reply, Request, TREE_WATCHES, WATCHES, lives};
use base::id::{DomainId, Epoch};
use share::{Answer, Effects, Event, Parked, Service, Shareable, Token};
use zerocopy::IntoBytes;

/// Size of the arena, which holds the table with every limit reached.
pub const ARENA: usize = match abi::service::NAMES.arena {
    abi::service::Arena::Bytes(bytes) => bytes as usize,
    abi::service::Arena::Rest => 0,
};

/// Why an operation returns no reply, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    Failed(Errno),
    /// The caller waits for a change.
    Park,
}

impl From<Errno> for Halt {
    fn from(error: Errno) -> Halt {
        Halt::Failed(error)
    }
}

type Result<T> = core::result::Result<T, Halt>;

/// The name service.
#[derive(Debug)]
pub struct Names {
    table: Table,
    /// Callers of Watch. They all wait for the next change.
    parked: Parked<()>,
    /// For each kernel, its newest life that is known to be over; 0 if none is.
    over: [u16; MAX_DOMAINS],
}

const _: () = {
    const fn may_lie_in_an_arena<S: Shareable>() {}
    may_lie_in_an_arena::<Names>();
};

impl Names {
    /// Returns the number of names and the number of parked callers.
    pub fn census(&self) -> (usize, usize) {
        (self.table.count(), self.parked.count())
    }

    fn perform(&mut self, token: Token, request: &Request, bulk: &mut [u8]) -> Result<Reply> {
        let op = Op::from_code(request.op).ok_or(Errno::Nosys)?;
        if request.reserved != [0; 3] {
            return Err(Errno::Inval.into());
        }
        self.note_life(Life::of(token))?;
        let (life, reply) = (Life::of(token), Reply::default());
        match op {
            Op::Register => self.table.register(request.name, entry(life, request))?,
            Op::Remove => self.table.remove(valid(request)?, life, request.door)?,
            Op::Find => return self.find(request),
            Op::Close => {
                let count = self.table.close(life, request.door) as u32;
                return Ok(Reply { count, ..reply });
            }
            Op::List => return self.list(request.name, bulk),
            Op::Watch => return self.watch(token, request),
            Op::WatchLife if lives(request.edition) == lives(self.table.edition()) => {
                return Err(Halt::Park);
            }
            Op::WatchLife => {}
        }
        Ok(reply)
    }

    /// Checks that the life of a caller is not over. A new life of a kernel ends its earlier ones.
    fn note_life(&mut self, life: Life) -> Result<()> {
        let over = self.over.get(usize::from(life.kernel)).ok_or(Errno::Inval)?;
        if life.epoch <= *over {
            return Err(Errno::Hostunreach.into());
        }
        self.end(Life { epoch: life.epoch - 1, ..life });
        Ok(())
    }

    /// This life of a kernel and its earlier ones are over: removes their names.
    fn end(&mut self, last: Life) {
        if let Some(over) = self.over.get_mut(usize::from(last.kernel))
            && *over < last.epoch
        {
            *over = last.epoch;
            self.table.end(last);
        }
    }

    fn find(&self, request: &Request) -> Result<Reply> {
        let Entry { life, door, contract, .. } =
            *self.table.find(valid(request)?).ok_or(Errno::Noent)?;
        let (kernel, epoch) = (life.kernel.into(), life.epoch);
        Ok(Reply { kernel, epoch, door, contract, ..Reply::default() })
    }

    /// Fills the bulk with names above `above`.
    fn list(&self, above: Name, bulk: &mut [u8]) -> Result<Reply> {
        let rooms = bulk.chunks_exact_mut(size_of::<Listed>());
        if rooms.len() == 0 || !above.is_empty() && !above.is_valid() {
            return Err(Errno::Inval.into());
        }
        let mut filled = 0;
        for (room, listed) in rooms.zip(self.table.above(above)) {
            room.copy_from_slice(listed.as_bytes());
            filled += size_of::<Listed>() as u32;
        }
        Ok(Reply { filled, ..Reply::default() })
    }

    fn watch(&mut self, token: Token, request: &Request) -> Result<Reply> {
        let tree = request.tree;
        if request.edition != self.table.edition() {
            return Ok(Reply::default());
        }
        if tree != 0 && self.parked.held_by(tree) >= TREE_WATCHES {
            return Err(Errno::Dquot.into());
        }
        self.parked.park_all(token, &mut [()], tree).ok_or(Errno::Again)?;
        Err(Halt::Park)
    }

    fn answer(&mut self, token: Token, request: &Request, bulk: &mut [u8]) -> Answer<Reply> {
        // A caller that asks again is no longer parked.
        self.parked.forget(token);
        let reply = match self.perform(token, request, bulk) {
            Ok(reply) => reply,
            Err(Halt::Failed(error)) => Reply::error(error),
            Err(Halt::Park) => return Answer::Parked,
        };
        Answer::Done(Reply { edition: self.table.edition(), ..reply })
    }

    /// A life of a kernel is over, and with it its callers.
    fn gone(&mut self, kernel: DomainId, epoch: Epoch) {
        self.parked.gone(kernel, epoch);
        self.end(Life { kernel: kernel.0, epoch: epoch.0 });
    }

    fn handle(&mut self, event: Event<'_, Request>) -> Answer<Reply> {
        match event {
            Event::Request { token, request, bulk } | Event::Again { token, request, bulk } => {
                return self.answer(token, request, bulk);
            }
            Event::Cancel(token) => self.parked.forget(token),
            Event::Gone(kernel, epoch) => self.gone(kernel, epoch),
            Event::Timer | Event::Device => {}
        }
        Answer::NoReply
    }
}

impl Service for Names {
    type Request = Request;
    type Reply = Reply;

    const NAME: &'static str = abi::service::NAMES.name;

    fn start(lives: u32) -> Names {
        let parked = Parked::new(WATCHES);
        Names { table: Table::new(lives), parked, over: [0; MAX_DOMAINS] }
    }

    /// No request sends bulk.
    fn sent(_: &Request, _: usize) -> usize {
        0
    }

    fn filled(reply: &Reply) -> usize {
        reply.filled as usize
    }

    fn step(
        &mut self,
        _now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        let before = self.table.edition();
        let answer = self.handle(event);
        if self.table.edition() != before {
            self.parked.wake((), effects);
        }
        answer
    }
}

/// Returns the entry that a request of `life` registers.
fn entry(life: Life, request: &Request) -> Entry {
    let &Request { door, contract, tree, pid, .. } = request;
    Entry { life, door, contract, tree, pid }
}

/// Returns the name of a request, if it is valid.
fn valid(request: &Request) -> Result<Name> {
    if request.name.is_valid() { Ok(request.name) } else { Err(Errno::Inval.into()) }
}
