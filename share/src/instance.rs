//! One service in one kernel: its state in an arena, and the lock that a step holds.
//!
//! Contract: the same for every mode. Where the arena lies in memory that kernels share, and the
//! lock excludes the steps of all of them, the service is shadowed; where both are a kernel's own,
//! it is private, independent, or at home. A step runs unpreempted, allocates from its arena, and
//! may step into another service, of a lock with a higher rank.
//!
//! ```text
//!   absent --start--> alive --step--> alive
//!                       |  a kernel died in a step, or with pages that only it had
//!                       +--> alive, a life later: handles of before answer `Restarted`
//! ```
//! Who comes next notices (`crate::custody`) and begins the new life itself; a step that met a lost
//! page is given up, and not tried again: nobody knows how much of it others have seen.

use crate::custody::Custody;
use crate::form::{Answer, Effects, Event, Service};
use crate::raw::{Arena, Current};
use crate::shareable::Shareable;
use core::marker::PhantomData;

/// Why there was no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The service was not started, or its memory holds something else.
    Absent,
    /// No room in the arena for its state.
    NoMemory,
    /// Its state was lost within the step, and it began anew.
    Restarted,
}

/// What a service has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Its starts.
    pub lives: u32,
    /// Bytes of the arena in use.
    pub used: u64,
    /// Bytes of the arena.
    pub bytes: u64,
}

/// Begins of a life that may fail one behind the other, because one more kernel dies.
const TRIES: usize = 8;

/// A service in this kernel: `X` gives its arena to one step at a time, `C` is how the core's
/// current heap is reached.
pub struct Instance<S, X, C> {
    arena: X,
    types: PhantomData<fn() -> (S, C)>,
}

/// Sets the current heap back.
struct Within<C: Current>(usize, PhantomData<fn() -> C>);

impl<C: Current> Within<C> {
    fn new(arena: &Arena) -> Self {
        Within(C::set_heap(arena.base()), PhantomData)
    }
}

impl<C: Current> Drop for Within<C> {
    fn drop(&mut self) {
        C::set_heap(self.0);
    }
}

/// Names a service in its arena: FNV-1a of its name.
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

    /// With its memory; nothing runs yet.
    pub const fn new(arena: X) -> Self {
        Instance { arena, types: PhantomData }
    }

    /// Who has its arena.
    pub const fn custody(&self) -> &X {
        &self.arena
    }

    fn with<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> Option<R> {
        let (mut work, mut result) = (Some(work), None);
        self.arena.exclusively(&mut |arena| result = work.take().map(|work| work(arena)));
        result
    }

    /// Starts it, or starts it anew: what the arena held is forgotten. Returns how manieth life
    /// this is.
    pub fn start(&self) -> Result<u32, StepError> {
        let started = self.with(|arena| {
            let before = match self.arena.enter() {
                Some(marks) => marks.lives,
                None => arena.lives(Self::TAG).unwrap_or(0),
            };
            self.begin(arena, before)
        });
        started.unwrap_or(Err(StepError::Absent))
    }

    /// One step. `effects` is the caller's memory, not the arena's.
    pub fn step(
        &self,
        now: u64,
        event: Event<'_, S::Request>,
        effects: &mut dyn Effects,
    ) -> Result<Answer<S::Reply>, StepError> {
        let mut event = Some(event);
        let stepped = self.with(|arena| {
            let lives = self.alive(arena, effects)?;
            let mut answer = Err(StepError::Absent);
            let within = Within::<C>::new(arena);
            let whole = self.arena.attempt(&mut || {
                if let (Some(state), Some(event)) = (arena.state::<S>(Self::TAG), event.take()) {
                    answer = Ok(state.step(now, event, effects));
                }
            });
            drop(within);
            if !whole {
                effects.wake_all();
                self.begin(arena, lives)?;
                return Err(StepError::Restarted);
            }
            self.arena.leave(lives);
            answer
        });
        stepped.unwrap_or(Err(StepError::Absent))
    }

    /// Is it alive? Begins a new life if it should be and is not. The life; work has begun.
    fn alive(&self, arena: &mut Arena, effects: &mut dyn Effects) -> Result<u32, StepError> {
        let Some(marks) = self.arena.enter() else {
            return arena.lives(Self::TAG).ok_or(StepError::Absent);
        };
        let mut found = None;
        let whole = self.arena.is_whole()
            && self.arena.attempt(&mut || found = arena.living(Self::TAG))
            && marks.broken < marks.lives;
        if whole && found == Some(marks.lives) {
            return Ok(marks.lives);
        }
        effects.wake_all();
        let lives = self.begin(arena, marks.lives)?;
        self.arena.renew(lives);
        Ok(lives)
    }

    /// Begins the life behind `before`.
    fn begin(&self, arena: &mut Arena, before: u32) -> Result<u32, StepError> {
        let mut lives = before;
        for _ in 0..TRIES {
            lives = lives.wrapping_add(1).max(1);
            self.arena.renew(lives);
            self.arena.mend();
            let mut has_room = false;
            let within = Within::<C>::new(arena);
            let whole = self.arena.attempt(&mut || {
                arena.format(Self::TAG, lives);
                has_room = arena.set_state::<S>(lives);
            });
            drop(within);
            if whole {
                self.arena.leave(lives);
                return if has_room { Ok(lives) } else { Err(StepError::NoMemory) };
            }
        }
        self.arena.leave(lives);
        Err(StepError::Absent)
    }

    /// What it has.
    pub fn usage(&self) -> Use {
        let read = |arena: &Arena| match arena.lives(Self::TAG) {
            Some(lives) => Use { lives, used: arena.used(), bytes: arena.bytes() as u64 },
            None => Use { bytes: arena.bytes() as u64, ..Use::default() },
        };
        let look = |arena: &mut Arena| {
            let mut found = Use { bytes: arena.bytes() as u64, ..Use::default() };
            self.arena.attempt(&mut || found = read(arena));
            found
        };
        self.with(look).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
