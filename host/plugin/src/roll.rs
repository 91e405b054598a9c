//! The cores of a seat with several: their states, which one leads, how far each may run. Pure.
//!
//! ```text
//!            first block                      granted
//!   Away ───────────────────┐      ┌────────────────────────────┐
//!                           v      │                            v
//!   Idle ─── has work ─> Summoned ─┴─> Parked ── waited too ─> Running
//!    ^  └── first block ───────────────> ^         long          │  │
//!    │                                   └── reaches its limit ──┘  │
//!    └────────────────────────── waits ─────────────────────────────┘
//! ```
//!
//! Cores are *gathered* when none is running or summoned. Only then may one of them lead, or the
//! helper if none is parked. A leader works with the roll unlocked, so a parked core may continue
//! meanwhile (QEMU sometimes requires every core to leave its block). A leader's decisions take
//! effect on gathered cores only, so it checks again.

use lab::Ps;
use lab::seats::Phase;

/// State of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// Has not run since the seat got power, or waits for reasons of QEMU's own.
    #[default]
    Away,
    /// Waits on behalf of the guest.
    Idle,
    /// Was idle and has work: it will park soon.
    Summoned,
    /// Waits at the start of a block.
    Parked,
    /// Executes.
    Running,
}

/// The interval in which a core may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its clock starts at this time or later.
    pub from: Ps,
    /// It reports when its clock gets there, at most one block later.
    pub until: Ps,
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    at: At,
    /// Its next block accesses memory between domains.
    sync: bool,
    time: Ps,
    accounted: Ps,
    grant: Option<Grant>,
}

/// All cores of a seat.
#[derive(Clone, Debug)]
pub struct Roll {
    cores: Vec<Core>,
    leading: bool,
    lives: u64,
    active: Ps,
    waiting: Ps,
}

impl Roll {
    /// Creates a roll of `cores` that have not run.
    pub fn new(cores: usize) -> Roll {
        let cores = vec![Core::default(); cores];
        Roll { cores, leading: false, lives: 0, active: 0, waiting: 0 }
    }

    fn all(&self, what: impl Fn(At) -> bool) -> bool {
        self.cores.iter().all(|core| what(core.at))
    }

    fn arrive(&mut self, core: usize, time: Ps) -> &mut Core {
        let core = &mut self.cores[core];
        core.time = core.time.max(time);
        self.active += core.time.saturating_sub(core.accounted);
        core.accounted = core.accounted.max(core.time);
        core
    }

    /// A core parks at the start of a block at the time `time` of its own clock.
    pub fn park(&mut self, core: usize, time: Ps, sync: bool) {
        let core = self.arrive(core, time);
        (core.at, core.sync, core.grant) = (At::Parked, sync, None);
    }

    /// A core waits for an interrupt, or is off.
    pub fn idle(&mut self, core: usize, time: Ps) {
        let core = self.arrive(core, time);
        if core.at != At::Away {
            core.at = At::Idle;
        }
    }

    /// A parked core continues without a grant, for one block. Returns the time at which its clock
    /// starts at the earliest.
    pub fn overrun(&mut self, core: usize) -> Ps {
        self.cores[core].at = At::Running;
        self.cores[core].time
    }

    /// An idle core has work: no core continues before it has parked.
    pub fn summon(&mut self, core: usize) {
        if self.cores[core].at == At::Idle {
            self.cores[core].at = At::Summoned;
        }
    }

    /// Returns the state of `core`.
    pub fn at(&self, core: usize) -> At {
        self.cores[core].at
    }

    /// Returns whether no core is running or summoned.
    pub fn gathered(&self) -> bool {
        self.all(|at| !matches!(at, At::Running | At::Summoned))
    }

    /// Returns whether no core has work.
    pub fn rests(&self) -> bool {
        self.all(|at| matches!(at, At::Idle | At::Away))
    }

    /// Returns whether a parked core may lead while the seat is in `phase`.
    pub fn core_may_lead(&self, phase: Phase) -> bool {
        !self.leading && phase != Phase::Idle && self.gathered() && !self.rests()
    }

    /// Returns whether the helper may lead.
    pub fn helper_may_lead(&self, phase: Phase) -> bool {
        let due = match phase {
            Phase::Idle => true,
            Phase::Running => self.rests() && !self.all(|at| at == At::Away),
            Phase::Absent | Phase::Stopped => false,
        };
        !self.leading && due && self.gathered()
    }

    /// Sets whether a lead is in progress.
    pub fn set_leading(&mut self, leading: bool) {
        self.leading = leading;
    }

    /// Returns whether a lead is in progress.
    pub fn is_led(&self) -> bool {
        self.leading
    }

    /// The seat has had power `lives` times: a core that was idle in an earlier life has not run
    /// since.
    pub fn live(&mut self, lives: u64) {
        if self.lives != lives {
            self.lives = lives;
            let idle = self.cores.iter_mut().filter(|core| core.at == At::Idle);
            idle.for_each(|core| core.at = At::Away);
        }
    }

    /// Brings gathered cores to the seat's time `from` and accounts for them; until `seen`, all of
    /// them were already accounted for elsewhere. Returns the seat's new time: that of the slowest
    /// core or, if all wait, of the fastest.
    pub fn settle(&mut self, from: Ps, seen: Ps) -> Ps {
        let parked = |core: &&mut Core| core.at == At::Parked;
        for core in &mut self.cores {
            core.accounted = core.accounted.max(seen);
        }
        for core in self.cores.iter_mut().filter(parked).filter(|core| core.time < from) {
            self.waiting += from.saturating_sub(core.accounted);
            (core.time, core.accounted) = (from, core.accounted.max(from));
        }
        let times = |at| self.cores.iter().filter(move |core| core.at == at).map(|core| core.time);
        let last = times(At::Idle).max().unwrap_or(0).max(from);
        let now = times(At::Parked).min().unwrap_or(last);
        for core in self.cores.iter_mut().filter(|core| core.at != At::Parked) {
            self.waiting += now.saturating_sub(core.accounted);
            (core.time, core.accounted) = (core.time.max(now), core.accounted.max(now));
        }
        now
    }

    /// Returns the core-time since the last call: active and waiting.
    pub fn take_spent(&mut self) -> (Ps, Ps) {
        (std::mem::take(&mut self.active), std::mem::take(&mut self.waiting))
    }

    /// Ends the lead: parked cores continue until `horizon`. A core whose next block accesses
    /// memory between domains continues when no other core is earlier, and no core runs past it.
    /// The slowest core always continues.
    pub fn grant(&mut self, now: Ps, horizon: Ps) {
        self.leading = false;
        let ahead = |core: &&Core| core.at == At::Parked && core.sync && core.time > now;
        let until = self.cores.iter().filter(ahead).map(|core| core.time).fold(horizon, Ps::min);
        for core in self.cores.iter_mut().filter(|core| core.at == At::Parked) {
            if core.time <= now || !core.sync && core.time < until {
                core.at = At::Running;
                core.grant = Some(Grant { from: core.time, until });
            }
        }
    }

    /// Returns and clears the grant of `core`.
    pub fn take_grant(&mut self, core: usize) -> Option<Grant> {
        self.cores[core].grant.take()
    }
}

#[cfg(test)]
#[path = "roll_tests.rs"]
mod tests;
