//! Channels between programs: the driver of `kernel_channel` (docs/design/channels.md).
//!
//! Contract: one leaf lock around the table of all ends of this kernel. Under it nothing waits, no
//! memory is allocated (blocks are freed), and no memory of a program is accessed, so bytes come
//! from and go to buffers and blocks of the kernel. A thread that waits is queued under the lock.
//!
//! ```text
//!   Guest --send--> check by the contract --> cells --> table --> seats: wake the receivers
//!   Guest <--receive-- cells <-- table            table --> rings to other kernels (`remote`)
//! ```
//! - [`cells`]: memory for what is queued
//! - [`blocks`]: blocks of messages, here and on other kernels
//! - [`messages`]: a message is sent, received, or both in one step
//! - [`plain`]: the same for most messages, in fewer steps; [`direct`]: between kernels
//! - [`contracts`]: what the contract of a channel allows
//! - [`seats`]: the threads that wait for an end
//! - [`links`]: the lives of other kernels, and ends that are passed to children there
//! - [`remote`]: messages to and from other kernels; [`stream`]: the same as bytes
//! - [`doors`]: where new channels arrive for a program that serves a name
//! - [`list`]: what people see; [`ended`]: what they see of ends that were closed
//! - [`words`]: numbers in messages

mod blocks;
mod cells;
mod contracts;
mod direct;
mod doors;
mod ended;
mod links;
mod list;
mod messages;
mod plain;
mod remote;
mod seats;
mod stream;
mod words;

use crate::peers::Peers;
use arch::lock::{Guard, Lock};
use base::id::{DomainId, Epoch};
use blocks::{Blocks, NAME, fields_of};
pub use blocks::{Brought, LENT, place_in};
use cells::{Cells, Payload, cells_for};
pub use contracts::Find;
use contracts::{Terms, hash_of, side, terms};
use core::sync::atomic::AtomicU64;
use doors::Doors;
use ended::Log;
pub use ended::{Ended, Holder};
pub use kernel_channel::{BlockName, ContractId, EndId, Life, Listed as End, Place, Side};
use kernel_channel::{CreateError, Effects, Limits};
use kernel_contract::exchange::{About, Known};
use kernel_node::Node;
use kernel_node::bulk::Bulk;
use kernel_sched::{Scheduler, ThreadId, WaitQueue};
use links::Links;
pub use links::is_ticket;
pub use list::{Listed, Totals};
use seats::Seats;
use stream::Buffers;

/// Ends of a kernel, stand-ins included.
const ENDS: u16 = 128;
/// Slots that may be charged to one tree, for ends that its processes hold, have queued, or have
/// sent to another kernel a moment ago.
const ENDS_OF_TREE: usize = ENDS as usize / 2;
/// Places that are kept free for the ends that one other kernel sends.
const ARRIVALS: u16 = 8;
/// The most messages that a contract may allow to be unread.
const QUEUE: u16 = 16;
/// The most cells that they may take: as many as two of the longest messages.
const UNREAD: usize = 2 * LONGEST;
/// The cells of the longest message.
const LONGEST: usize = cells_for(NAME + kernel_contract::INLINE);
/// A handle's bits from here on are the number of its kernel, plus 1.
const KERNEL: u32 = 48;

/// Why a call failed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No end of this kernel has this handle.
    BadEnd,
    /// The process has not said by which contract it uses the end.
    NoContract,
    /// The contract does not allow this message now.
    Breach,
    /// The other side has closed the channel, as the contract allows.
    Closed,
    /// A kernel or a program died, or the channel was closed where the contract does not allow it.
    Broken,
    /// A carried end is no end, or named twice.
    BadCarried,
    /// A carried end has several descriptors.
    Shared,
    /// A carried end is not of a lower level.
    Level,
    /// The kernel of the receiver has no room for more ends now.
    NoRoom,
    /// This kernel, or the tree of the process, has as many ends as it may have.
    Full,
    /// The contract allows more to be unread than kernels have room for.
    Large,
    /// The kernel, or the tree of the process, has as many unread blocks as it may have.
    Blocks,
    /// The block of the next message is to be copied, and there is no memory for it.
    Copies,
    /// The next message has a window, for which the caller must reserve its room.
    Window,
    /// The next message has a block on another kernel, which the caller must fetch first; or in
    /// the message, for which it must bring memory.
    Far(BlockName),
    /// There is nothing to receive now.
    Empty,
    /// The message needs room for so many bytes, for so many of its block, and for so many ends.
    Unfit { bytes: usize, block: usize, ends: usize },
    /// Too many threads wait for the end.
    Crowded,
}

/// What a poll finds about an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Bytes of the next message.
    pub bytes: usize,
    pub is_closed: bool,
}

struct State {
    table: kernel_channel::Channels<Payload>,
    rest: Rest,
}

/// What the table does not have.
struct Rest {
    cells: Cells,
    blocks: Blocks,
    seats: Seats,
    links: Links,
    doors: Doors,
    buffers: Buffers,
    ended: Log,
    /// Messages that programs have sent since boot.
    sent: u64,
}

impl State {
    /// Makes a channel, whose ends are charged to `tree`.
    fn make(
        &mut self,
        tree: u32,
        (contract, start, bounds): Terms,
        secret: u64,
    ) -> Result<[EndId; 2], Failure> {
        if self.table.charged_to(tree) + 2 > ENDS_OF_TREE {
            return Err(Failure::Full);
        }
        let made = self.table.create(contract, start, bounds, secret);
        let ends = made.map_err(|why| match why {
            CreateError::Full => Failure::Full,
            CreateError::Bounds => Failure::Large,
        })?;
        ends.iter().for_each(|end| self.table.charge(*end, tree));
        Ok(ends)
    }

    /// A thread does not wait for an end any more. What was delivered to it is lost.
    fn stand_up(&mut self, id: EndId, thread: u64) {
        if self.rest.seats.remove(id, thread) {
            // The end may be gone.
            let _ = self.table.finish_poll(id);
        }
    }

    /// Closes an end that no program has a descriptor of.
    fn drop_end(&mut self, node: &Node, end: EndId) {
        let State { table, rest } = self;
        // It is there: nothing else has it.
        let _ = table.close(end, &mut rest.follow(&node.scheduler));
    }
}

impl Rest {
    fn follow<'a>(&'a mut self, scheduler: &'a Scheduler) -> Follow<'a, impl FnMut(ThreadId)> {
        Follow { rest: self, wake: |thread| scheduler.wake(thread) }
    }
}

/// The effects of a call of the table, which wakes threads by `wake`.
struct Follow<'a, W> {
    rest: &'a mut Rest,
    wake: W,
}

impl<W: FnMut(ThreadId)> Effects<Payload> for Follow<'_, W> {
    fn wake(&mut self, end: EndId) {
        if !self.rest.seats.wake(end, &mut self.wake) {
            self.rest.doors.woken(end);
        }
    }

    fn arrived(&mut self, ticket: u64, end: EndId) {
        self.rest.links.arrive(ticket, end);
    }

    fn free(&mut self, payload: Payload) {
        self.rest.free(payload);
    }
}

/// The ends of this kernel.
pub struct Channels {
    me: DomainId,
    state: Lock<State>,
    /// What kernels lend each other, if the board has memory for it.
    bulk: Option<Bulk>,
    /// Processes that wait for ends that were passed to them.
    passed: WaitQueue,
    /// Kernels that the keeper has to wake if they rest, one bit each.
    owed: AtomicU64,
    /// The token of the thread that keeps the channels, and where it waits.
    keeper: AtomicU64,
    changed: WaitQueue,
}

impl Channels {
    /// Takes all memory that channels will ever use, without that of blocks. There are so many
    /// other kernels.
    pub fn new(me: DomainId, epoch: Epoch, peers: usize, bulk: Option<Bulk>) -> Channels {
        let me_now = Life { kernel: me, epoch };
        let limits = Limits { ends: ENDS, queue: QUEUE, arrivals: ARRIVALS };
        let table = kernel_channel::Channels::new(me_now, limits);
        let blocks = Blocks::new(me_now, blocks::limits(peers));
        // Each slot may have as much unread in both directions, and a message has its cells before
        // the table says whether there is a place for it.
        let cells = Cells::new(usize::from(ENDS) * 2 * UNREAD + LONGEST);
        let (seats, links) = (Seats::new(ENDS.into()), Links::new(ENDS.into()));
        let (buffers, doors) = (Buffers::new(), Doors::new());
        let ended = Log::new();
        let rest = Rest { cells, blocks, seats, links, buffers, doors, ended, sent: 0 };
        Channels {
            me,
            state: Lock::new(kernel_node::ranks::CHANNELS, State { table, rest }),
            bulk,
            passed: WaitQueue::new(),
            owed: AtomicU64::new(0),
            keeper: AtomicU64::new(0),
            changed: WaitQueue::new(),
        }
    }

    fn handle(&self, end: EndId) -> u64 {
        (u64::from(self.me.0) + 1) << KERNEL | end.word()
    }

    fn id(&self, handle: u64) -> Result<EndId, Failure> {
        let is_here = handle >> KERNEL == u64::from(self.me.0) + 1;
        is_here.then_some(EndId::of_word(handle)).ok_or(Failure::BadEnd)
    }

    /// Makes a channel for a process of this tree. Returns the client's and the server's end.
    /// `secret` is a random number.
    pub fn create(&self, contract: &Known, tree: u32, secret: u64) -> Result<[u64; 2], Failure> {
        let terms = terms(contract)?;
        let ends = self.state.lock().make(tree, terms, secret)?;
        Ok(ends.map(|end| self.handle(end)))
    }

    /// Returns what an end is.
    pub fn about(&self, end: u64) -> Result<About, Failure> {
        let about = self.state.lock().table.about(self.id(end)?).map_err(|_| Failure::BadEnd)?;
        Ok(About { contract: hash_of(about.contract), side: side(about.side) })
    }

    /// Returns whether the peer of an end is on this kernel, as far as is known.
    pub fn is_near(&self, end: u64) -> bool {
        self.id(end).is_ok_and(|id| !self.state.lock().table.is_far(id))
    }

    /// Counts one more descriptor of an end.
    pub fn dup(&self, end: u64) -> Result<(), Failure> {
        self.state.lock().table.dup(self.id(end)?).map_err(|_| Failure::BadEnd)
    }

    /// Closes a descriptor of an end, for a process.
    pub fn close(
        &self,
        (node, peers): (&Node, &Peers),
        end: u64,
        holder: Holder<'_>,
    ) -> Result<(), Failure> {
        let id = self.id(end)?;
        let mut state = self.state.lock();
        let State { table, rest } = &mut *state;
        rest.ended.note(table.listed_end(id), holder);
        let closed = table.close(id, &mut rest.follow(&node.scheduler));
        closed.map_err(|_| Failure::BadEnd)?;
        self.leave(node, peers, state);
        Ok(())
    }

    /// Sends what followed from a call of a thread, and wakes kernels for it.
    #[inline]
    fn leave(&self, node: &Node, peers: &Peers, mut state: Guard<'_, State>) {
        let sent = state.pump(node, peers);
        let has_closed = state.rest.doors.any_closed();
        drop(state);
        self.wake_others(node, peers, (sent, has_closed));
    }

    /// Wakes the kernels that something was sent to, and the thread that removes doors. May wait.
    fn wake_others(&self, node: &Node, peers: &Peers, (sent, has_closed): (u64, bool)) {
        self.wake_peers(node, peers, sent);
        if has_closed {
            self.call_keeper(node);
        }
    }

    /// Ends a wait of the calling thread for an end.
    pub fn end_wait(&self, node: &Node, end: u64) {
        let Ok(id) = self.id(end) else { return };
        self.state.lock().stand_up(id, node.scheduler.current().token());
    }

    /// Returns what can be received from an end; `None`: nothing now. With `waits`, the calling
    /// thread is woken when that changes, until [`Channels::end_wait`].
    pub fn poll(&self, node: &Node, end: u64, waits: bool) -> Result<Option<Readable>, Failure> {
        let id = self.id(end)?;
        let mut state = self.state.lock();
        let is_ready = state.table.begin_poll(id).map_err(|_| Failure::BadEnd)?;
        if is_ready {
            let bytes = state.table.front(id).map(|(payload, _)| fields_of(payload));
            return Ok(Some(Readable { bytes: bytes.unwrap_or(0), is_closed: bytes.is_none() }));
        }
        let thread = node.scheduler.current().token();
        if waits && !state.rest.seats.add(id, thread) {
            return Err(Failure::Crowded);
        }
        Ok(None)
    }
}
