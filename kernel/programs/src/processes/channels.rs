//! Channels of programs, as parts of [`Guest`]: waiting, limits and error numbers. What happens to
//! ends and messages is in `kernel_platform::channels`.
//!
//! Contract: as in [`super::guest`]. A thread that waits is queued under the lock of the channels,
//! and is woken by a message, a close, or the end of its process.

use super::guest::Guest;
use crate::programs::passing;
use ::names::client::Registration;
use abi::channel::{FetchBlock, LendBlock, LentAt};
use abi::msg::MAX_PAYLOAD;
use abi::names::Name;
use abi::net::{Poll, ready};
use base::id::{DomainId, Epoch};
use kernel_contract::Block;
use kernel_contract::exchange::{About, Arrived, Called, Known, Outgoing, Room};
use kernel_msg::Refusal;
use kernel_node::Node;
use kernel_platform::channels::{BlockName, Failure, Fetched, Holder, is_ticket, place_in};
use kernel_platform::peers::{CallFailure, Peers, Procedure, with_room};
use kernel_process::ends::{Contracts, Ends, Unreceived};
use kernel_process::polls::Polls;
use kernel_process::{Errno, Interrupted, System, Wait};
use kernel_sched::Handoff;
use kernel_services::kernel::Kernel;
use kernel_services::services::Patience;
use kernel_services::{idle, names};
use zerocopy::IntoBytes;

/// Returns the number by which programs know a failure.
fn errno(failure: Failure) -> Errno {
    match failure {
        Failure::BadEnd | Failure::BadCarried => Errno::BADF,
        Failure::NoContract => Errno::NOTCONN,
        Failure::Breach => Errno::PROTO,
        Failure::Closed => Errno::PIPE,
        Failure::Broken => Errno::CONNRESET,
        Failure::Shared => Errno::MLINK,
        Failure::Level => Errno::LOOP,
        Failure::NoRoom | Failure::Blocks => Errno::NOBUFS,
        Failure::Full => Errno::NFILE,
        Failure::Large => Errno::NOTSUP,
        Failure::Empty => Errno::AGAIN,
        // No program sees these: the block is fetched, or gets memory.
        Failure::Far(_) | Failure::Copies => Errno::IO,
        Failure::Unfit { .. } => Errno::MSGSIZE,
        Failure::Crowded => Errno::NOMEM,
    }
}

fn unreceived(failure: Failure) -> Unreceived {
    match failure {
        Failure::Unfit { bytes, block, ends } => Unreceived::Unfit { bytes, block, ends },
        Failure::Copies => Unreceived::Copies,
        failure => errno(failure).into(),
    }
}

/// Why there is no copy of a block.
enum Unfetched {
    /// Its kernel died, or has freed it.
    Lost,
    /// It can be tried again.
    Failed(Errno),
    Stopped,
}

impl From<Errno> for Unfetched {
    fn from(why: Errno) -> Unfetched {
        Unfetched::Failed(why)
    }
}

impl Guest {
    /// Fails for a process whose threads run on two kernels in turn: its ends would have to move
    /// with each turn.
    fn may_use_channels(&self) -> Result<(), Errno> {
        if self.is_shared() { Err(Errno::NOTSUP) } else { Ok(()) }
    }

    /// Copies a block from the kernel that has it: from the memory that it lends, or part by part.
    fn fetch(&self, name: BlockName) -> Result<Result<Fetched, Errno>, Interrupted> {
        let block = match self.read_lent(&name) {
            Ok(Some(block)) => Ok(block),
            Ok(None) => self.fetch_parts(&name),
            Err(why) => Err(why),
        };
        match block {
            Ok(block) => Ok(Ok(Fetched { name, block: Some(block) })),
            Err(Unfetched::Lost) => Ok(Ok(Fetched { name, block: None })),
            Err(Unfetched::Failed(why)) => Ok(Err(why)),
            Err(Unfetched::Stopped) => Err(Interrupted),
        }
    }

    /// Copies a block that its kernel lends. `None`: it does not lend it.
    fn read_lent(&self, name: &BlockName) -> Result<Option<Block>, Unfetched> {
        if name.length as usize <= MAX_PAYLOAD {
            return Ok(None);
        }
        let BlockName { id, secret, .. } = *name;
        let mut at = place_in(name).unwrap_or_default();
        let (lend, is_known) = (LendBlock { id, secret }, at != LentAt::default());
        if !is_known
            && self.ask(name, Procedure::LendBlock, lend.as_bytes(), at.as_mut_bytes())? == 0
        {
            return Ok(None);
        }
        if at.length != u64::from(name.length) {
            return Err(Unfetched::Lost);
        }
        let Some(block) = self.kernel().channels.read_lent(name.home.kernel, at) else {
            return Ok(None);
        };
        // It was there all the time if it is there now.
        let end = FetchBlock { id, secret, at: at.length };
        self.ask(name, Procedure::FetchBlock, end.as_bytes(), &mut [])?;
        Ok(Some(block))
    }

    /// Copies a block by calls, a part by each.
    fn fetch_parts(&self, name: &BlockName) -> Result<Block, Unfetched> {
        let mut block = Block::zeroed(name.length as usize).ok_or(Errno::NOMEM)?;
        let mut part = with_room(MAX_PAYLOAD).map_err(|_| Errno::NOMEM)?;
        part.resize(MAX_PAYLOAD, 0);
        let mut at = 0;
        while at < block.len() {
            let fetch = FetchBlock { id: name.id, secret: name.secret, at: at as u64 };
            let length = self.ask(name, Procedure::FetchBlock, fetch.as_bytes(), &mut part)?;
            if length == 0 || !block.write(at, &part[..length]) {
                return Err(Unfetched::Lost);
            }
            at += length;
        }
        Ok(block)
    }

    /// Calls the home of a block.
    fn ask(
        &self,
        name: &BlockName,
        procedure: Procedure,
        request: &[u8],
        answer: &mut [u8],
    ) -> Result<usize, Unfetched> {
        if self.is_stopped() {
            return Err(Unfetched::Stopped);
        }
        let called = self.session().call(name.home.kernel, procedure, request, answer);
        called.map_err(|why| match why {
            CallFailure::Refused(Refusal::NoMemory) => Errno::NOMEM.into(),
            // It can be tried again.
            CallFailure::Silent | CallFailure::Limits => Errno::IO.into(),
            _ => Unfetched::Lost,
        })
    }

    /// Its process, for what is kept of an end that it closes.
    fn holder(&self) -> Holder<'_> {
        Holder { pid: self.life().pid, name: &self.life().name }
    }

    fn secret(&mut self) -> u64 {
        let mut secret = [0; 8];
        self.random(&mut secret);
        u64::from_le_bytes(secret)
    }

    /// Sends a message, if there is one, and receives the next one.
    fn exchange(
        &mut self,
        end: u64,
        contracts: &Contracts,
        (mut message, room): (Option<Outgoing<'_>>, &mut Room<'_>),
        waits: bool,
    ) -> Result<Result<Arrived, Unreceived>, Interrupted> {
        if let Err(why) = self.may_use_channels() {
            return Ok(Err(why.into()));
        }
        let (kernel, from) = (self.kernel(), (end, self.tree()));
        let around: (&Node, &Peers) = (kernel, &kernel.peers);
        let channels = &kernel.channels;
        let find = |name: &_| contracts.find(name);
        let mut fetched = None;
        loop {
            let mut handoff = Handoff::begin(&kernel.scheduler);
            let into = (&mut *room, &mut fetched);
            let received = match message.take() {
                Some(message) => channels.call(around, from, message, into, &find, &mut handoff),
                None => channels.receive(around, from, into, (&find, waits), &mut handoff),
            };
            if received == Err(Failure::Empty) && waits {
                if !self.watch(end, &mut handoff) {
                    self.wait_for(end, handoff)?;
                }
                continue;
            }
            drop(handoff);
            if let Err(Failure::Far(name)) = received {
                // That takes long, and does not look at what peers send.
                idle::to_program(kernel);
                let got = self.fetch(name);
                idle::to_program(kernel);
                match got? {
                    Ok(block) => fetched = Some(block),
                    Err(why) => return Ok(Err(why.into())),
                }
                continue;
            }
            idle::to_program(kernel);
            return Ok(received.map_err(unreceived));
        }
    }

    /// Waits for an end without sleep, for a short time. Returns whether something has happened to
    /// it.
    fn watch(&self, end: u64, handoff: &mut Handoff<'_>) -> bool {
        let kernel = self.kernel();
        !self.is_stopped() && kernel.channels.watch((kernel, &kernel.peers), end, handoff)
    }

    /// Waits for an end, at which the calling thread has a seat, until it is woken.
    #[inline(always)]
    fn wait_for(&self, end: u64, handoff: Handoff<'_>) -> Result<(), Interrupted> {
        // A process with ends does not move, and a call that has sent is not made again.
        match self.is_stopped() {
            true => drop(handoff),
            false => handoff.block(),
        }
        if self.is_stopped() {
            let kernel = self.kernel();
            kernel.channels.end_wait(kernel, end);
            idle::to_program(kernel);
            return Err(Interrupted);
        }
        Ok(())
    }

    /// Waits for objects, ends among them.
    pub(super) fn poll_with_ends(
        &mut self,
        Polls { files, sockets, ends }: &mut Polls,
        wait: Wait,
    ) -> Result<Result<u64, Errno>, Interrupted> {
        let kernel = self.kernel();
        let waits = wait != Wait::Not;
        let ready = look_at_all(kernel, ends, waits);
        // If an end is ready, the services are asked for what they know.
        let wait = if ready == 0 { wait } else { Wait::Not };
        // Each wake of an end forgets the threads that waited. Another one may take what had come.
        let is_ready = || ends.iter().any(|end| look(kernel, end, waits) != Ok(None));
        let found = self.poll_services((files, sockets), wait, &is_ready);
        if waits {
            ends.iter().for_each(|end| kernel.channels.end_wait(kernel, end.handle));
        }
        Ok(found?.map(|count| count + look_at_all(kernel, ends, false)))
    }
}

impl Ends for Guest {
    fn channel(&mut self, contract: &Known) -> Result<[u64; 2], Errno> {
        self.may_use_channels()?;
        let secret = self.secret();
        self.kernel().channels.create(contract, self.tree(), secret).map_err(errno)
    }

    fn about_end(&mut self, end: u64) -> Result<About, Errno> {
        self.kernel().channels.about(end).map_err(errno)
    }

    fn close_end(&mut self, end: u64) -> Result<(), Errno> {
        let kernel = self.kernel();
        kernel.channels.close((kernel, &kernel.peers), end, self.holder()).map_err(errno)
    }

    fn serve(&mut self, name: &Name, contract: &Known) -> Result<Result<u64, Errno>, Interrupted> {
        if let Err(why) = self.may_use_channels() {
            return Ok(Err(why));
        }
        let (kernel, tree, secret) = (self.kernel(), self.tree(), self.secret());
        let (end, door) = match kernel.channels.open_door(tree, secret) {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(errno(why))),
        };
        let contract = contract.hash().0;
        let registration = Registration { name: *name, contract, door, tree, pid: self.pid() };
        let is_stopped = || self.is_stopped();
        let served = names::serve(self.session(), &Patience::unless(&is_stopped), registration);
        idle::to_program(kernel);
        if served.is_err() {
            // It is there, and closes the door.
            let _ = kernel.channels.close((kernel, &kernel.peers), end, self.holder());
        }
        match served {
            Err(_) if is_stopped() => Err(Interrupted),
            // The caller closes the end, whatever has happened since.
            served => Ok(served.map(|()| end).map_err(Errno::from)),
        }
    }

    fn connect(
        &mut self,
        name: &Name,
        contract: &Known,
        waits: bool,
    ) -> Result<Result<u64, Errno>, Interrupted> {
        if let Err(why) = self.may_use_channels() {
            return Ok(Err(why));
        }
        if name.is_of_system() {
            return Ok(Err(Errno::NXIO));
        }
        let (kernel, tree, secret) = (self.kernel(), self.tree(), self.secret());
        let is_over = || self.must_end_wait();
        let found = names::with_names(self.session(), &Patience::unless(&is_over), |names| {
            if waits { names.wait_for(*name, tree) } else { names.find(*name) }
        });
        idle::to_program(kernel);
        let found = match found {
            Ok(found) => found,
            Err(_) if is_over() => return Err(Interrupted),
            Err(why) => return Ok(Err(why.into())),
        };
        if found.contract != contract.hash().0 {
            return Ok(Err(Errno::PROTOTYPE));
        }
        let to = (DomainId(found.kernel as u8), Epoch(found.epoch), found.door);
        let around: (&Node, &Peers) = (kernel, &kernel.peers);
        let made = kernel.channels.connect(around, contract, (tree, secret), to);
        idle::to_program(kernel);
        Ok(made.map_err(errno))
    }

    fn block(&mut self, end: u64, bytes: &[u8]) -> Option<Block> {
        self.kernel().channels.block(end, bytes)
    }

    fn take_block(&mut self, end: u64, bytes: &mut [u8]) -> Option<Block> {
        // Another kernel reads a block faster in bulk memory.
        self.kernel().channels.is_near(end).then(|| passing::take(bytes))?
    }

    fn reserve_block(&mut self, room: &mut [u8]) -> bool {
        passing::reserve(room)
    }

    fn send(
        &mut self,
        end: u64,
        contracts: &Contracts,
        message: Outgoing<'_>,
    ) -> Result<(), Errno> {
        self.may_use_channels()?;
        let (kernel, from) = (self.kernel(), (end, self.tree()));
        let around: (&Node, &Peers) = (kernel, &kernel.peers);
        let sent = kernel.channels.send(around, from, message, &|name| contracts.find(name));
        idle::to_program(kernel);
        sent.map_err(errno)
    }

    fn receive(
        &mut self,
        end: u64,
        contracts: &Contracts,
        room: &mut Room<'_>,
        waits: bool,
    ) -> Result<Result<Arrived, Unreceived>, Interrupted> {
        self.exchange(end, contracts, (None, room), waits)
    }

    fn call(
        &mut self,
        end: u64,
        contracts: &Contracts,
        message: Outgoing<'_>,
        room: &mut Room<'_>,
    ) -> Result<Result<Arrived, Unreceived>, Interrupted> {
        self.exchange(end, contracts, (Some(message), room), true)
    }

    fn call_plain(
        &mut self,
        end: u64,
        contracts: &Contracts,
        message: (u16, &[u8]),
        into: &mut [u8],
    ) -> Result<Called, Interrupted> {
        if self.is_shared() {
            return Ok(Called::Refused);
        }
        let kernel = self.kernel();
        let channels = &kernel.channels;
        let find = |name: &_| contracts.find(name);
        let mut handoff = Handoff::begin(&kernel.scheduler);
        let around: (&Node, &Peers) = (kernel, &kernel.peers);
        let called = channels.call_plain(around, end, (message, into), find, &mut handoff);
        let called = match called {
            Some(called) => called,
            None => {
                self.wait_for(end, handoff)?;
                handoff = Handoff::begin(&kernel.scheduler);
                channels.take_plain(kernel, end, into, &mut handoff)
            }
        };
        drop(handoff);
        idle::to_program(kernel);
        Ok(called)
    }

    fn dup_end(&mut self, end: u64) -> Result<Result<u64, Errno>, Interrupted> {
        let (kernel, tree) = (self.kernel(), self.tree());
        if !is_ticket(end) {
            return Ok(kernel.channels.dup(end).map(|()| end).map_err(errno));
        }
        match kernel.channels.take_passed(kernel, end, tree, &|| self.is_stopped()) {
            // An end that was taken is the caller's to close, whatever has happened since.
            Err(_) if self.is_stopped() => Err(Interrupted),
            taken => Ok(taken.map_err(errno)),
        }
    }

    fn end_at(&mut self, to: u16, end: u64) -> Result<u64, Errno> {
        let kernel = self.kernel();
        if usize::from(to) == kernel.me.index() {
            return Ok(end);
        }
        self.may_use_channels()?;
        let to = u8::try_from(to).map_err(|_| Errno::INVAL)?;
        kernel.channels.pass(kernel, &kernel.peers, end, DomainId(to)).map_err(errno)
    }

    fn call_end_back(&mut self, to: u16, ticket: u64) {
        let kernel = self.kernel();
        if let (true, Ok(to)) = (is_ticket(ticket), u8::try_from(to)) {
            kernel.channels.call_back(kernel, &kernel.peers, DomainId(to), ticket);
        }
    }
}

/// Returns what is ready of an end, and how many bytes of the next message; `None`: nothing. With
/// `waits`, the calling thread is woken when that may have changed.
fn look(kernel: &Kernel, end: &Poll, waits: bool) -> Result<Option<(u16, u64)>, Errno> {
    // A send never waits.
    if end.want & ready::WRITE != 0 {
        return Ok(Some((ready::WRITE, 0)));
    }
    let found = kernel.channels.poll(kernel, end.handle, waits).map_err(errno)?;
    Ok(found.and_then(|found| match (found.is_closed, end.want) {
        (true, _) => Some((ready::READ | ready::HANGUP, 0)),
        (false, 0) => None,
        (false, _) => Some((ready::READ, found.bytes as u64)),
    }))
}

/// Fills in what is known of all ends. Returns how many are ready or have an error.
fn look_at_all(kernel: &Kernel, ends: &mut [Poll], waits: bool) -> u64 {
    let mut ready = 0;
    for end in ends {
        let found = look(kernel, end, waits);
        (end.error, end.got, end.bytes) = match found {
            Ok(None) => (0, 0, 0),
            Ok(Some((got, bytes))) => (0, got, bytes),
            Err(why) => (why.0, 0, 0),
        };
        ready += u64::from(found != Ok(None));
    }
    ready
}
