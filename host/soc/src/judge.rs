//! Decides which domain hangs, from the reports of domains that wait for it: a state machine
//! without I/O (docs/design/hangs.md).
//!
//! ```text
//!   a wait for a page: a trail
//!     at S: demand "what holds up the page?" --> S answers "X does" ----------> at X
//!                 |            |--> "nothing does": ask again later, from the beginning
//!                 |            '--> "I do", still so after S has executed HARD --> S hangs
//!                 '--> no answer while S executes HARD --> S hangs
//!   a wait for a lock: grips
//!     S blocks the lock, in the same attempt since S has executed SOFT --> S abandons its step
//!                                            since it has executed HARD --> S hangs
//!     unless a core of S that has the lock, or wants it, waits itself and says so
//! ```
//! Only time counts that a suspect has really executed, so a domain that its host does not run, or
//! that a debugger holds, is never accused. A wait counts while its core reports that it continues.
//!
//! If that time is not measured, the time counts for which the suspect had power, and UNMEASURED is
//! the bound instead of HARD. Then S only *seems* to hang: it is reported once in its life, it does
//! not abandon its step, and nothing counts from before a moment in which no core waited.

use abi::boot::{MAX_CORES, MAX_DOMAINS};
use abi::hang::{Blame, Item, Wait, pack_demand, unpack_answer, unpack_wait};
use abi::lock::{LOCKS, LockWord};
use std::collections::VecDeque;

/// Bounds, in ns; see the diagram.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub soft: u64,
    pub hard: u64,
    /// For a domain whose executed time is not measured.
    pub unmeasured: u64,
    /// Maximum number of verdicts within an hour.
    pub verdicts: usize,
}

/// First pause before a trail begins again, in ns of soc time. Each further one is twice as long.
const PAUSE: u64 = 10_000_000;
const MAX_PAUSE: u64 = 1_000_000_000;
const HOUR: u64 = 3_600_000_000_000;
/// A core whose domain's time is not measured waits no more if its report stays the same for the
/// bound, divided by this.
const SILENT: u64 = 10;

/// What the judge knows of a domain.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub epoch: u64,
    /// It is powered and not stopped.
    pub runs: bool,
    /// How long it has executed, in ns, from any beginning.
    pub executed: u64,
    /// Whether that was measured; otherwise it is how long the domain was powered.
    pub measured: bool,
    pub waits: [Wait; MAX_CORES],
    pub answer: u64,
    pub locks: [LockWord; LOCKS],
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Publish this demand to a domain, and ring it.
    Demand(usize, u64),
    /// This domain hangs: another one waits for this item.
    Hangs(usize, Item),
    /// It hangs, but there have been too many verdicts.
    Spared(usize, Item),
    /// It may hang: another one waits for this item. What it has executed is not measured.
    Seems(usize, Item),
}

/// The search for the domain that holds up a page.
#[derive(Clone, Copy, Debug)]
struct Trail {
    /// The present suspect; none yet if there is no such domain.
    at: usize,
    /// The demand that it has not answered or that it answered with "I do"; 0: none.
    asked: u32,
    /// What it had executed when it was first asked, and when it was last asked.
    since: u64,
    asked_at: u64,
    /// It is asked for the second time.
    again: bool,
    hops: usize,
    pause: u64,
    /// Not before this soc time.
    not_before: u64,
}

/// A trail that begins with the suspect that the waiting domain names.
const BEGIN: Trail = Trail {
    at: usize::MAX,
    asked: 0,
    since: 0,
    asked_at: 0,
    again: false,
    hops: 0,
    pause: 0,
    not_before: 0,
};

/// A core's report.
#[derive(Clone, Copy, Debug)]
struct Heard {
    wait: Wait,
    /// What the waiting domain had executed when the report last changed.
    executed: u64,
    fresh: bool,
    trail: Trail,
}

impl Default for Heard {
    fn default() -> Heard {
        Heard { wait: Wait::default(), executed: 0, fresh: false, trail: BEGIN }
    }
}

/// A domain's attempt at a lock that one waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Grip {
    word: LockWord,
    since: u64,
    warned: bool,
}

#[derive(Debug, Default)]
struct Suspect {
    epoch: u64,
    measured: bool,
    condemned: bool,
    /// It was reported that it seems to hang.
    reported: bool,
    heard: [Heard; MAX_CORES],
    grips: [Grip; LOCKS],
    /// The number of its last demand, and the core whose trail has made it and not ended with it.
    number: u32,
    asker: Option<(usize, usize)>,
}

impl Suspect {
    /// Returns whether nothing more can follow from what is found out about it.
    fn is_judged(&self) -> bool {
        self.condemned || !self.measured && self.reported
    }
}

/// The judge of a board.
#[derive(Debug)]
pub struct Judge {
    limits: Limits,
    domains: Vec<Suspect>,
    verdicts: VecDeque<u64>,
    actions: Vec<Action>,
}

impl Judge {
    pub fn new(domains: usize, limits: Limits) -> Judge {
        let domains = (0..domains.min(MAX_DOMAINS)).map(|_| Suspect::default()).collect();
        Judge { limits, domains, verdicts: VecDeque::new(), actions: vec![] }
    }

    /// Returns whether a domain waits, so that [`Judge::look`] must be called again soon.
    pub fn is_busy(&self) -> bool {
        let waits = |heard: &Heard| heard.wait.what != 0;
        self.domains.iter().any(|domain| domain.heard.iter().any(waits))
    }

    /// Considers the present facts of all domains. `now` is soc time in ns.
    pub fn look(&mut self, now: u64, facts: &[Facts]) -> Vec<Action> {
        self.hear(facts);
        for waiter in 0..self.domains.len() {
            for core in 0..MAX_CORES {
                let heard = self.domains[waiter].heard[core];
                if let Some((Item::Page(page), first)) = unpack_wait(heard.wait.what)
                    && heard.fresh
                {
                    self.follow((waiter, core), (page, first.into()), now, facts);
                }
            }
        }
        for lock in 0..LOCKS {
            self.weigh(lock, now, facts);
        }
        std::mem::take(&mut self.actions)
    }

    /// Forgets the earlier lives of domains, times on another clock, and what trails have found out
    /// about them.
    fn forget_lives(&mut self, facts: &[Facts]) {
        for (at, facts) in facts.iter().enumerate().take(self.domains.len()) {
            let Suspect { epoch, measured, number, condemned, reported, .. } = self.domains[at];
            let same_life = epoch == facts.epoch;
            if same_life && measured == facts.measured {
                continue;
            }
            self.domains[at] = Suspect {
                epoch: facts.epoch,
                measured: facts.measured,
                condemned: same_life && condemned,
                reported: same_life && reported,
                number,
                ..Suspect::default()
            };
            let heard = self.domains.iter_mut().flat_map(|domain| &mut domain.heard);
            heard.filter(|heard| heard.trail.at == at).for_each(|heard| heard.trail = BEGIN);
        }
    }

    /// Takes in the reports.
    fn hear(&mut self, facts: &[Facts]) {
        self.forget_lives(facts);
        for (suspect, now) in self.domains.iter_mut().zip(facts) {
            let Limits { hard, unmeasured, .. } = self.limits;
            let most = if now.measured { hard } else { unmeasured / SILENT };
            for (heard, &wait) in suspect.heard.iter_mut().zip(&now.waits) {
                if heard.wait.what != wait.what {
                    heard.trail = BEGIN;
                }
                if heard.wait != wait {
                    (heard.wait, heard.executed) = (wait, now.executed);
                }
                let age = now.executed - heard.executed.min(now.executed);
                heard.fresh = wait.what != 0 && now.runs && age < most;
                let measured = facts.get(heard.trail.at).is_none_or(|suspect| suspect.measured);
                if !heard.fresh && !measured {
                    heard.trail = BEGIN;
                }
            }
        }
        // The answer to a demand is not awaited any more if the wait is over.
        for suspect in 0..self.domains.len() {
            if let Some((waiter, core)) = self.domains[suspect].asker {
                let trail = &self.domains[waiter].heard[core].trail;
                if trail.at != suspect || trail.asked == 0 {
                    self.domains[suspect].asker = None;
                }
            }
        }
    }

    /// Continues the trail of a core that waits for a page.
    fn follow(
        &mut self,
        from: (usize, usize),
        (page, first): (u32, usize),
        now: u64,
        facts: &[Facts],
    ) {
        let mut trail = self.domains[from.0].heard[from.1].trail;
        if trail.at == BEGIN.at {
            trail.at = first;
        }
        let at = trail.at;
        if at >= facts.len() {
            trail = self.restart(trail, now);
        } else if facts[at].runs && now >= trail.not_before && !self.domains[at].is_judged() {
            trail = match trail.asked {
                0 => self.ask(trail, from, page, &facts[at]),
                _ => self.consider(trail, page, now, &facts[at]),
            };
        }
        self.domains[from.0].heard[from.1].trail = trail;
    }

    fn ask(&mut self, trail: Trail, from: (usize, usize), page: u32, facts: &Facts) -> Trail {
        let Some(number) = self.demand(trail.at, Item::Page(page)) else { return trail };
        self.domains[trail.at].asker = Some(from);
        let since = if trail.again { trail.since } else { facts.executed };
        Trail { asked: number, since, asked_at: facts.executed, ..trail }
    }

    /// Makes a demand, unless a trail waits for the answer to another one.
    fn demand(&mut self, to: usize, item: Item) -> Option<u32> {
        let suspect = &mut self.domains[to];
        if suspect.asker.is_some() {
            return None;
        }
        suspect.number = suspect.number.wrapping_add(1).max(1);
        self.actions.push(Action::Demand(to, pack_demand(suspect.number, item)));
        Some(suspect.number)
    }

    fn consider(&mut self, trail: Trail, page: u32, now: u64, facts: &Facts) -> Trail {
        let (number, blame) = unpack_answer(facts.answer);
        let bound = self.bound(facts);
        let executed = |since: u64| facts.executed.saturating_sub(since) >= bound;
        if number != trail.asked {
            if executed(trail.asked_at) {
                self.convict(trail.at, Item::Page(page), now);
            }
            return trail;
        }
        match blame {
            Blame::Here if !executed(trail.since) => trail,
            Blame::Here if trail.again => {
                self.convict(trail.at, Item::Page(page), now);
                trail
            }
            Blame::Here => {
                self.domains[trail.at].asker = None;
                Trail { asked: 0, again: true, ..trail }
            }
            Blame::Peer(next) if usize::from(next) != trail.at && trail.hops < MAX_DOMAINS => {
                self.domains[trail.at].asker = None;
                let (at, hops) = (next.into(), trail.hops + 1);
                Trail { at, hops, pause: trail.pause, ..BEGIN }
            }
            Blame::Peer(_) | Blame::Nothing => {
                self.domains[trail.at].asker = None;
                self.restart(trail, now)
            }
        }
    }

    /// Begins a trail again after a pause: the answers lead nowhere, as something is under way.
    fn restart(&self, trail: Trail, now: u64) -> Trail {
        let pause = (trail.pause * 2).clamp(PAUSE, MAX_PAUSE);
        Trail { pause, not_before: now + pause, ..BEGIN }
    }

    /// Looks at the domains that block a lock that others wait for.
    fn weigh(&mut self, lock: usize, now: u64, facts: &[Facts]) {
        for (at, facts) in facts.iter().enumerate().take(self.domains.len()) {
            let wants = |heard: &Heard| {
                let what = unpack_wait(heard.wait.what);
                heard.fresh && what.is_some_and(|(item, _)| item == Item::Lock(lock as u8))
            };
            let wanted = self.domains.iter().any(|domain| domain.heard.iter().any(wants));
            let has = |heard: &Heard| heard.fresh && heard.wait.locks >> lock & 1 != 0;
            let excused = self.domains[at].heard.iter().any(|heard| has(heard) || wants(heard));
            let Facts { runs, executed, locks, .. } = facts;
            let word = locks[lock];
            let grip = &mut self.domains[at].grips[lock];
            if !wanted || excused || !runs || !word.blocks() || word != grip.word {
                *grip = Grip { word, since: *executed, warned: false };
                continue;
            }
            let (spent, warned) = (executed.saturating_sub(grip.since), grip.warned);
            let item = Item::Lock(lock as u8);
            if spent >= self.bound(facts) {
                self.convict(at, item, now);
            } else if spent >= self.limits.soft
                && !(warned || word.wants() || !facts.measured)
                && self.demand(at, item).is_some()
            {
                self.domains[at].grips[lock].warned = true;
            }
        }
    }

    /// Returns after how much time a domain hangs.
    fn bound(&self, facts: &Facts) -> u64 {
        if facts.measured { self.limits.hard } else { self.limits.unmeasured }
    }

    fn convict(&mut self, at: usize, item: Item, now: u64) {
        if self.domains[at].is_judged() {
            return;
        }
        if !self.domains[at].measured {
            self.domains[at].reported = true;
            return self.actions.push(Action::Seems(at, item));
        }
        self.domains[at].condemned = true;
        while self.verdicts.front().is_some_and(|&then| now.saturating_sub(then) > HOUR) {
            self.verdicts.pop_front();
        }
        if self.verdicts.len() >= self.limits.verdicts {
            return self.actions.push(Action::Spared(at, item));
        }
        self.verdicts.push_back(now);
        self.actions.push(Action::Hangs(at, item));
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
