//! The cores of a seat that has several: where each is, who leads, how far each may run. Pure.
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
//! Cores are *gathered* when none is running or summoned. Only then one of them may lead, or the
//! helper where none is parked. A leader works with the roll unlocked, so a parked core may go on
//! meanwhile (QEMU wants every core out of its block now and then); what a leader has decided takes
//! effect on gathered cores only, so it looks again.

use lab::Ps;
use lab::seats::Phase;

/// Where a core is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// It has not run since the seat got power, or waits for QEMU's own sake.
    #[default]
    Away,
    /// It waits for the guest's sake.
    Idle,
    /// It was idle and has something to do: it arrives soon.
    Summoned,
    /// It stands at the start of a block.
    Parked,
    /// It executes.
    Running,
}

/// From when to when a core may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its clock stands there, or later.
    pub from: Ps,
    /// It reports when its clock gets there, one block later at most.
    pub until: Ps,
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    at: At,
    /// Its next block reaches across domains.
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
    /// `cores` that have not run.
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

    /// A core stands at the start of a block; its own clock says `time`.
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

    /// A parked core goes on unasked, for one block. Its clock stands there, or later.
    pub fn overrun(&mut self, core: usize) -> Ps {
        self.cores[core].at = At::Running;
        self.cores[core].time
    }

    /// An idle core has something to do: nobody goes on before it has arrived.
    pub fn summon(&mut self, core: usize) {
        if self.cores[core].at == At::Idle {
            self.cores[core].at = At::Summoned;
        }
    }

    /// Where `core` is.
    pub fn at(&self, core: usize) -> At {
        self.cores[core].at
    }

    /// None is under way.
    pub fn gathered(&self) -> bool {
        self.all(|at| !matches!(at, At::Running | At::Summoned))
    }

    /// No core has anything to do.
    pub fn rests(&self) -> bool {
        self.all(|at| matches!(at, At::Idle | At::Away))
    }

    /// May a parked core lead, while the seat is in `phase`?
    pub fn core_may_lead(&self, phase: Phase) -> bool {
        !self.leading && phase != Phase::Idle && self.gathered() && !self.rests()
    }

    /// May the helper lead?
    pub fn helper_may_lead(&self, phase: Phase) -> bool {
        let due = match phase {
            Phase::Idle => true,
            Phase::Running => self.rests() && !self.all(|at| at == At::Away),
            Phase::Absent | Phase::Stopped => false,
        };
        !self.leading && due && self.gathered()
    }

    /// Somebody leads from now on, or no longer.
    pub fn set_leading(&mut self, leading: bool) {
        self.leading = leading;
    }

    /// Does somebody lead?
    pub fn is_led(&self) -> bool {
        self.leading
    }

    /// The seat has had power `lives` times: who was idle before has not run since.
    pub fn live(&mut self, lives: u64) {
        if self.lives != lives {
            self.lives = lives;
            let idle = self.cores.iter_mut().filter(|core| core.at == At::Idle);
            idle.for_each(|core| core.at = At::Away);
        }
    }

    /// Gathered cores are brought to the seat's time `from`, and accounted for; somebody else has
    /// accounted for all of them until `seen`. The seat's new time: that of the core that is
    /// furthest behind, or where all wait, of the last one.
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

    /// Core-time since the last look: active and waiting.
    pub fn take_spent(&mut self) -> (Ps, Ps) {
        (std::mem::take(&mut self.active), std::mem::take(&mut self.waiting))
    }

    /// Ends the lead: parked cores go on until `horizon`. One whose next block reaches across
    /// domains goes on when no fellow is behind, and is not run past. Who is furthest behind always
    /// goes on.
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

    /// What `core` was granted.
    pub fn take_grant(&mut self, core: usize) -> Option<Grant> {
        self.cores[core].grant.take()
    }
}

#[cfg(test)]
#[path = "roll_tests.rs"]
mod tests;
