//! `poll_oneoff`: waits for times and for descriptors.
//!
//! ```text
//!   subscriptions --read--> Wait: deadline | object | error
//!   an error, or a time has passed?  --> the descriptors are checked without waiting
//!   else: only times --> sleep_until; else --> System::poll, over all services at once
//! ```
//! Returns at least one event, and none that has not occurred. An error of one subscription is
//! reported in its event. All subscriptions are read before any event is written.

use crate::errno::{Done, Errno, Halt};
use crate::memory::{GuestMemory, entry};
use crate::object::Object;
use crate::polls::{Polled, Polls};
use crate::process::Process;
use crate::system::{self, System};
use crate::wasi::{clock, event, rights};
use abi::net::{Poll, ready};
use alloc::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum subscriptions to descriptors: to read and to write, 1,024 of them.
pub const DESCRIPTORS: usize = 2 * 1024;
/// Maximum subscriptions.
pub const SUBSCRIPTIONS: u32 = DESCRIPTORS as u32 + 64;

/// WASI's `subscription`, with the fields of one to a clock. In one to a descriptor, `id` is the
/// descriptor's number.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
struct Subscription {
    userdata: u64,
    kind: u8,
    reserved: [u8; 7],
    id: u32,
    reserved_2: u32,
    timeout: u64,
    precision: u64,
    flags: u16,
    reserved_3: [u8; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, Immutable, KnownLayout)]
struct Event {
    userdata: u64,
    error: u16,
    kind: u8,
    reserved: [u8; 5],
    bytes: u64,
    flags: u16,
    reserved_2: [u8; 6],
}

const _: () = assert!(size_of::<Subscription>() == event::SUBSCRIPTION as usize);
const _: () = assert!(size_of::<Event>() == event::EVENT as usize);

/// What a subscription waits for.
#[derive(Clone, Copy)]
enum Wait {
    /// A time of the monotonic clock.
    Until(u64),
    /// A file, a socket or an end.
    Object(Polled),
    /// What never happens.
    Never,
    /// The subscription is invalid.
    Failed(Errno),
}

struct Waiter {
    userdata: u64,
    kind: u8,
    wait: Wait,
}

#[derive(Default)]
struct Waiters {
    all: Vec<Waiter>,
    polls: Polls,
    deadline: Option<u64>,
    failed: bool,
}

impl Waiters {
    fn add(&mut self, userdata: u64, kind: u8, wait: Wait) {
        match wait {
            Wait::Until(time) => {
                self.deadline = Some(self.deadline.map_or(time, |earliest| earliest.min(time)));
            }
            Wait::Failed(_) => self.failed = true,
            Wait::Object(_) | Wait::Never => {}
        }
        self.all.push(Waiter { userdata, kind, wait });
    }

    /// Waits, or only checks. Stores the services' results in `polls`, if it contains any.
    /// Returns false if nothing has occurred yet.
    fn wait(&mut self, system: &mut dyn System) -> Result<bool, Halt> {
        let now = self.deadline.map_or(0, |_| system.monotonic());
        let over = self.deadline.is_some_and(|deadline| deadline <= now);
        let waits = !over && !self.failed;
        if self.polls.is_empty() {
            if !waits {
                return Ok(true);
            }
            let deadline = self.deadline.unwrap_or(u64::MAX);
            system.sleep_until(deadline)?;
            return Ok(deadline <= system.monotonic());
        }
        let wait = match self.deadline {
            _ if !waits => system::Wait::Not,
            Some(deadline) => system::Wait::Until(deadline),
            None => system::Wait::Endless,
        };
        let found = system.poll(&mut self.polls, wait)??;
        let mut is_late = || self.deadline.is_some_and(|deadline| deadline <= system.monotonic());
        Ok(found != 0 || !waits || is_late())
    }

    /// Iterates over the events that have occurred.
    fn events(&self, now: u64) -> impl Iterator<Item = Event> + '_ {
        self.all.iter().filter_map(move |waiter| {
            let Waiter { userdata, kind, .. } = *waiter;
            let event = Event { userdata, kind, ..Event::default() };
            match waiter.wait {
                Wait::Failed(error) => Some(Event { error: error.0, ..event }),
                Wait::Until(deadline) => (deadline <= now).then_some(event),
                Wait::Never => None,
                Wait::Object(at) => found(self.polls.found(at), event),
            }
        })
    }
}

/// Returns a descriptor's event, given the service's answer; `None` if none has occurred.
fn found(poll: Result<Poll, Errno>, event: Event) -> Option<Event> {
    let poll = match poll {
        Err(error) => return Some(Event { error: error.0, ..event }),
        Ok(Poll { got: 0, .. }) => return None,
        Ok(poll) => poll,
    };
    let flags = if poll.got & ready::HANGUP != 0 { event::HANGUP } else { 0 };
    Some(Event { bytes: poll.bytes, flags, ..event })
}

/// Returns the deadline of a subscription on the monotonic clock, given when the call began, and
/// the current times.
fn deadline(
    one: &Subscription,
    begun: u64,
    (monotonic, realtime): (u64, u64),
) -> Result<u64, Errno> {
    if one.flags & !event::ABSTIME != 0 || one.id > clock::THREAD {
        return Err(Errno::INVAL);
    }
    let absolute = one.flags & event::ABSTIME != 0;
    match (one.id, absolute) {
        (clock::MONOTONIC, true) => Ok(one.timeout),
        (clock::REALTIME | clock::MONOTONIC, false) => Ok(begun.saturating_add(one.timeout)),
        (clock::REALTIME, true) => {
            Ok(monotonic.saturating_add(one.timeout.saturating_sub(realtime)))
        }
        // CPU time does not pass while a process waits.
        _ => Err(Errno::NOTSUP),
    }
}

impl Process {
    /// Adds a descriptor to what is waited for.
    fn poll(&self, fd: u32, kind: u8, polls: &mut Polls) -> Result<Wait, Errno> {
        let (right, want) = match kind {
            event::FD_READ => (rights::FD_READ, ready::READ),
            event::FD_WRITE => (rights::FD_WRITE, ready::WRITE),
            _ => (0, 0),
        };
        let descriptor = self.table.get(fd)?.with(rights::POLL_FD_READWRITE | right)?;
        match descriptor.object {
            Object::File(_) if want == 0 => Ok(Wait::Never),
            object => polls.add(object.parts(), want).map(Wait::Object),
        }
    }

    fn subscribe(
        &self,
        memory: &GuestMemory<'_>,
        system: &mut dyn System,
        (list, count): (u32, u32),
    ) -> Result<Waiters, Errno> {
        let mut waiters = Waiters::default();
        waiters.all.try_reserve_exact(count as usize).map_err(|_| Errno::NOMEM)?;
        let begun = system.begun();
        let now = (system.monotonic(), system.realtime());
        for index in 0..count {
            let bytes: [u8; event::SUBSCRIPTION as usize] =
                memory.load(entry(list, index, event::SUBSCRIPTION)?)?;
            let one = Subscription::read_from_bytes(&bytes).map_err(|_| Errno::FAULT)?;
            let wait = match one.kind {
                event::CLOCK => deadline(&one, begun, now).map(Wait::Until),
                event::FD_READ | event::FD_WRITE | event::FD_HANGUP => {
                    self.poll(one.id, one.kind, &mut waiters.polls)
                }
                _ => return Err(Errno::INVAL),
            };
            if waiters.polls.len() > DESCRIPTORS {
                return Err(Errno::INVAL);
            }
            waiters.add(one.userdata, one.kind, wait.unwrap_or_else(Wait::Failed));
        }
        Ok(waiters)
    }

    pub fn poll_oneoff(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        subscriptions: u32,
        events: u32,
        count: u32,
        found: u32,
    ) -> Done {
        if count == 0 || count > SUBSCRIPTIONS {
            return Err(Errno::INVAL.into());
        }
        memory.check(events, entry(0, count, event::EVENT)?)?;
        memory.check(found, 4)?;
        let mut waiters = self.subscribe(memory, system, (subscriptions, count))?;
        while !waiters.wait(system)? {}
        let now = waiters.deadline.map_or(0, |_| system.monotonic());
        let mut written = 0;
        for event in waiters.events(now) {
            memory.store(entry(events, written, event::EVENT)?, event.as_bytes())?;
            written += 1;
        }
        memory.store_u32(found, written)?;
        Ok(())
    }
}
