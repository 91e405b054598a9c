//! One service in one kernel: its state in an arena, and the lock that each step holds.
//!
//! Contract: the same code serves every mode. A shadowed service has its arena in memory that all
//! kernels map and a lock that excludes the steps of all of them; in the other modes both are
//! local. A step runs without preemption, allocates from its arena, and may call a step of another
//! service whose lock has a higher rank.
//!
//! ```text
//!   absent --start--> alive(n) --step--> alive(n)
//!                        |
//!                        | a kernel died in a step, or with the only copy of a page
//!                        v
//!                     alive(n + 1): handles from life n answer `Restarted`
//! ```
//! The next caller detects the loss (`crate::custody`) and starts the new life itself. A step that
//! touches a lost page is aborted and not retried: part of its effects may already be visible
//! elsewhere.

use crate::custody::Custody;
use crate::raw::{Arena, Current};
use crate::service::{Answer, Effects, Event, Service};
use crate::shareable::Shareable;
use abi::lock::Known;
use core::marker::PhantomData;
use zerocopy::FromZeros;

/// Why an event was not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The service was not started, or its memory holds something else.
    Absent,
    /// The arena has no room for the initial state.
    NoMemory,
    /// The state was lost during this step; the service has been restarted.
    Restarted,
}

/// Memory use of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of starts.
    pub lives: u32,
    pub used: u64,
    /// Size of the arena.
    pub bytes: u64,
}

/// Limit on consecutive restarts that fail because memory is lost again meanwhile.
const TRIES: usize = 8;

/// A service in this kernel. `X` provides exclusive access to its arena, `C` sets the core's
/// current heap.
pub struct Instance<S, X, C> {
    arena: X,
    types: PhantomData<fn() -> (S, C)>,
}

/// A step to execute.
struct Work<'a, S: Service> {
    now: u64,
    /// Taken when the step begins.
    event: Option<Event<'a, S::Request>>,
    effects: &'a mut dyn Effects,
    reply: &'a mut S::Reply,
    answer: Result<Answer<()>, StepError>,
}

/// Guard that restores the previous heap when dropped.
struct HeapGuard<C: Current>(usize, PhantomData<fn() -> C>);

impl<C: Current> HeapGuard<C> {
    fn new(arena: &Arena) -> Self {
        HeapGuard(C::set_heap(arena.base()), PhantomData)
    }
}

impl<C: Current> Drop for HeapGuard<C> {
    fn drop(&mut self) {
        C::set_heap(self.0);
    }
}

/// Returns the FNV-1a hash of a service's name, which identifies the service in its arena.
const fn tag(name: &str) -> u64 {
    let (bytes, mut hash, mut at) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

impl<S, X, C> Instance<S, X, C>
where
    S: Service + Shareable,
    X: Custody,
    C: Current,
{
    const TAG: u64 = tag(S::NAME);

    /// Wraps an arena. The service starts with [`Instance::start`], or with the first step if
    /// kernels share the arena.
    pub const fn new(arena: X) -> Self {
        Instance { arena, types: PhantomData }
    }

    pub const fn custody(&self) -> &X {
        &self.arena
    }

    /// Starts or restarts the service, discarding what the arena held. Returns the new life.
    pub fn start(&self) -> Result<u32, StepError> {
        self.arena.exclusively(|arena| {
            let before = match self.arena.enter() {
                Some(known) => known.life,
                None => arena.lives(Self::TAG).unwrap_or(0).max(self.arena.before()),
            };
            self.restart(arena, before)
        })
    }

    /// Handles one event. `effects` must not lie in the arena.
    pub fn step(
        &self,
        now: u64,
        event: Event<'_, S::Request>,
        effects: &mut dyn Effects,
    ) -> Result<Answer<S::Reply>, StepError> {
        let mut reply = S::Reply::new_zeroed();
        let answer = self.step_into(now, event, effects, &mut reply)?;
        Ok(answer.map(|()| reply))
    }

    /// The same with a place for the reply, which must not lie in the arena either: a reply is
    /// large, and each layer that returns one copies it.
    #[inline]
    pub fn step_into(
        &self,
        now: u64,
        event: Event<'_, S::Request>,
        effects: &mut dyn Effects,
        reply: &mut S::Reply,
    ) -> Result<Answer<()>, StepError> {
        let answer = Err(StepError::Absent);
        let mut work = Work { now, event: Some(event), effects, reply, answer };
        self.arena.exclusively(|arena| self.step_in(arena, &mut work))?;
        work.answer
    }

    #[inline]
    fn step_in(&self, arena: &mut Arena, work: &mut Work<'_, S>) -> Result<(), StepError> {
        if !arena.knows(Self::TAG, self.arena.holding()) || !self.arena.is_whole() {
            return self.look_and_step(arena, work);
        }
        match self.attempt(arena, Arena::known_state, work) {
            true => Ok(()),
            false => self.lose(arena, self.arena.enter().map(|known| known.life), work),
        }
    }

    /// Does the same, but first looks what the arena contains.
    #[inline(never)]
    fn look_and_step(&self, arena: &mut Arena, work: &mut Work<'_, S>) -> Result<(), StepError> {
        let known = self.arena.enter();
        let is_good = known.is_none_or(|known| known.broken < known.life) && self.arena.is_whole();
        let mut lives = known.map(|known| known.life);
        let mut whole = is_good && self.attempt(arena, self.find(lives), work);
        if work.event.is_some() {
            // The step has not begun: its state is missing, broken or lost.
            lives = Some(self.revive(arena, known.ok_or(StepError::Absent)?, work.effects)?);
            whole = self.attempt(arena, self.find(lives), work);
        }
        if whole { Ok(()) } else { self.lose(arena, lives, work) }
    }

    /// Restarts the service because a step has touched lost memory.
    #[cold]
    fn lose(
        &self,
        arena: &mut Arena,
        life: Option<u32>,
        work: &mut Work<'_, S>,
    ) -> Result<(), StepError> {
        arena.forget();
        work.effects.wake_all();
        self.restart(arena, life.unwrap_or(0))?;
        Err(StepError::Restarted)
    }

    /// Returns what finds the service's state, in life `lives` if that is given.
    #[inline]
    fn find(&self, lives: Option<u32>) -> impl FnOnce(&mut Arena) -> Option<&mut S> + use<S, X, C> {
        let holding = self.arena.holding();
        move |arena| {
            let is_alive = lives.is_none() || arena.living(Self::TAG) == lives;
            if is_alive { arena.state(Self::TAG, holding) } else { None }
        }
    }

    /// Does the work if `find` finds a state. Returns false if memory was lost.
    #[inline]
    fn attempt(
        &self,
        arena: &mut Arena,
        find: impl FnOnce(&mut Arena) -> Option<&mut S>,
        work: &mut Work<'_, S>,
    ) -> bool {
        let _within = HeapGuard::<C>::new(arena);
        self.arena.attempt(|| {
            if let Some(state) = find(arena)
                && let Some(event) = work.event.take()
            {
                work.answer = Ok(state.step_into(work.now, event, work.effects, work.reply));
            }
        })
    }

    /// Restarts the service because its state is missing or broken.
    #[cold]
    fn revive(
        &self,
        arena: &mut Arena,
        known: Known,
        effects: &mut dyn Effects,
    ) -> Result<u32, StepError> {
        if known.life != 0 {
            // The callers that wait for the former life. Before the first one there are none, and
            // a needless wake ends the rest of other kernels.
            effects.wake_all();
        }
        self.restart(arena, known.life)
    }

    /// Starts the life after `before`.
    fn restart(&self, arena: &mut Arena, before: u32) -> Result<u32, StepError> {
        let mut lives = before;
        for _ in 0..TRIES {
            lives = lives.wrapping_add(1).max(1);
            self.arena.renew(lives);
            self.arena.mend();
            let mut has_room = false;
            let within = HeapGuard::<C>::new(arena);
            let whole = self.arena.attempt(|| {
                arena.format(Self::TAG, lives);
                has_room = arena.set_state::<S>(lives);
            });
            drop(within);
            if whole {
                return if has_room { Ok(lives) } else { Err(StepError::NoMemory) };
            }
        }
        Err(StepError::Absent)
    }

    /// Returns the memory use, zero if the arena cannot be read.
    pub fn usage(&self) -> Usage {
        let read = |arena: &Arena| match arena.lives(Self::TAG) {
            Some(lives) => Usage { lives, used: arena.used(), bytes: arena.bytes() as u64 },
            None => Usage { bytes: arena.bytes() as u64, ..Usage::default() },
        };
        self.arena.exclusively(|arena| {
            let mut found = Usage { bytes: arena.bytes() as u64, ..Usage::default() };
            self.arena.attempt(|| found = read(arena));
            found
        })
    }
}

#[cfg(test)]
mod tests;
