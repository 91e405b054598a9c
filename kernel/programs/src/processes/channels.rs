//! Channels of programs, as parts of [`Guest`]: names, limits and error numbers. How a thread sends
//! and waits is in `kernel_services::channels`, what happens to ends and messages in
//! `kernel_platform::channels`.
//!
//! Contract: as in [`super::guest`]. The end of its process wakes a thread that waits.

use super::guest::Guest;
use crate::programs::windows::Lacking;
use crate::programs::{passing, windows};
use ::names::client::Registration;
use abi::names::Name;
use abi::net::{Poll, ready};
use alloc::sync::Arc;
use base::id::{DomainId, Epoch};
use core::ops::Range;
use kernel_contract::exchange::{About, Arrived, Brief, Called, Known, Outgoing, Room, WindowName};
use kernel_contract::{Block, Shared};
use kernel_mem::spaces::SpaceError;
use kernel_node::Node;
use kernel_platform::channels::{BlockName, Failure, Holder, is_ticket};
use kernel_platform::peers::Peers;
use kernel_process::ends::{Contracts, Ends, Unreceived};
use kernel_process::polls::Polls;
use kernel_process::{Errno, Interrupted, System, Wait};
use kernel_services::channels::{Failed, User};
use kernel_services::kernel::Kernel;
use kernel_services::services::Patience;
use kernel_services::{idle, names};

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
        // No program sees these: the block is fetched, or gets memory, or its room is reserved.
        Failure::Far(_) | Failure::Copies | Failure::Window => Errno::IO,
        Failure::Unfit { .. } => Errno::MSGSIZE,
        Failure::Crowded => Errno::NOMEM,
    }
}

fn unreceived(failure: Failure) -> Unreceived {
    match failure {
        Failure::Unfit { bytes, block, ends } => Unreceived::Unfit { bytes, block, ends },
        Failure::Copies => Unreceived::Copies,
        Failure::Window => Unreceived::Window,
        failure => errno(failure).into(),
    }
}

/// Returns the number for what has failed beside the channel itself.
fn failed(why: Failed) -> Result<Errno, Interrupted> {
    match why {
        Failed::Stopped => Err(Interrupted),
        Failed::Channel(why) => Ok(errno(why)),
        Failed::NoMemory => Ok(Errno::NOMEM),
        Failed::Silent => Ok(Errno::IO),
    }
}

impl Guest {
    /// Fails for a process whose threads run on two kernels in turn: its ends would have to move
    /// with each turn.
    fn may_use_channels(&self) -> Result<(), Errno> {
        if self.is_shared() { Err(Errno::NOTSUP) } else { Ok(()) }
    }

    /// Its thread, as a user of ends.
    #[inline]
    fn user(&self) -> User<'_, impl Fn() -> bool> {
        User { session: self.session(), tree: self.tree(), is_stopped: || self.is_stopped() }
    }

    /// Its process, for what is kept of an end that it closes.
    fn holder(&self) -> Holder<'_> {
        Holder { pid: self.life().pid, name: self.life().name() }
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
        parts: (Option<Outgoing<'_>>, &mut Room<'_>),
        waits: bool,
    ) -> Result<Result<Arrived, Unreceived>, Interrupted> {
        if let Err(why) = self.may_use_channels() {
            return Ok(Err(why.into()));
        }
        let find = |name: &_| contracts.find(name);
        match self.user().exchange(end, parts, (&find, waits)) {
            Ok(arrived) => Ok(Ok(arrived)),
            Err(Failed::Channel(why)) => Ok(Err(unreceived(why))),
            Err(why) => Ok(Err(failed(why)?.into())),
        }
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

    fn window(&mut self, length: usize) -> Result<Arc<dyn Shared>, Errno> {
        windows::make(&self.kernel().channels, self.tree(), length).map_err(|why| match why {
            Lacking::Charge => Errno::NOBUFS,
            Lacking::Memory => Errno::NOMEM,
        })
    }

    fn reserve_window(&mut self, at: u64, length: u64) -> Result<u64, Errno> {
        self.may_use_channels()?;
        windows::reserve(at, length, self.tree()).map_err(|why| match why {
            // It overlaps another one.
            SpaceError::Range => Errno::BUSY,
            SpaceError::TooMany => Errno::NOBUFS,
            SpaceError::NotOpen => Errno::FAULT,
            SpaceError::NoMemory => Errno::NOMEM,
        })
    }

    fn end_window(&mut self, reserved: u64) {
        windows::end(reserved);
    }

    fn release_window(&mut self, name: &WindowName) {
        let kernel = self.kernel();
        kernel.channels.release_window((kernel, &kernel.peers), &BlockName::of_words(name.0));
        idle::to_program(kernel);
    }

    fn copy_window(
        &mut self,
        name: &WindowName,
        range: Range<usize>,
    ) -> Result<Result<Block, Errno>, Interrupted> {
        match self.user().copy_window(&BlockName::of_words(name.0), range) {
            Ok(Some(block)) => Ok(Ok(block)),
            Ok(None) => Ok(Err(Errno::CONNRESET)),
            Err(why) => Ok(Err(failed(why)?)),
        }
    }

    fn send(
        &mut self,
        end: u64,
        contracts: &Contracts,
        message: Outgoing<'_>,
    ) -> Result<(), Errno> {
        self.may_use_channels()?;
        let sent = self.user().send(end, message, &|name| contracts.find(name));
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
        call: &mut Brief<'_>,
    ) -> Result<Called, Interrupted> {
        if self.is_shared() {
            return Ok(Called::Refused);
        }
        let called = self.user().call_plain(end, call, |name| contracts.find(name));
        // Nothing else fails.
        called.map_err(|_| Interrupted)
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
