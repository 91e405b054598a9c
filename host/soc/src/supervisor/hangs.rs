//! Collects the facts for [`crate::judge`], and carries out its verdicts.

use super::Supervisor;
use crate::config::Config;
use crate::executed::Executed;
use crate::judge::{Action, Facts, Judge, Limits};
use crate::memory::MemoryError;
use crate::power::Event;
use crate::qemu::Qemu;
use abi::hang::Item;
use abi::soc::state;

/// More verdicts within an hour are not carried out: something is wrong that no restart mends.
const VERDICTS: usize = 500;
/// If the host does not tell what a domain has executed, it seems to hang after so many times the
/// bound: unless its host gives it less than a hundredth of a processor, it has executed the bound.
const UNMEASURED: u64 = 100;
/// The most ns between two looks that count as time in which a domain had power: looks are more
/// frequent, unless the soc itself was held.
const LONGEST: u64 = 1_000_000_000;

/// The judge with its sources.
pub(super) struct Hangs {
    judge: Judge,
    executed: Vec<Executed>,
    /// In the lab, and without another measure: how long each domain has run, and when that was
    /// counted.
    ran: Vec<u64>,
    counted: u64,
    enabled: bool,
    pub busy: bool,
}

impl Hangs {
    pub fn new(config: &Config) -> Hangs {
        let (domains, hard) = (config.domains.len(), config.hang_ms * 1_000_000);
        let unmeasured = hard.saturating_mul(UNMEASURED);
        let limits = Limits { soft: hard / 2, hard, unmeasured, verdicts: VERDICTS };
        Hangs {
            judge: Judge::new(domains, limits),
            executed: (0..domains).map(|_| Executed::default()).collect(),
            ran: vec![0; domains],
            counted: 0,
            enabled: hard > 0,
            busy: false,
        }
    }

    /// Adds the time that has passed, if the domain `d` runs. Returns how long it has run.
    fn powered(&mut self, d: usize, runs: bool, passed: u64) -> u64 {
        self.ran[d] += if runs { passed } else { 0 };
        self.ran[d]
    }
}

impl Supervisor {
    /// Looks for domains that hang, if others report that they wait.
    pub(super) fn look_for_hangs(&mut self) {
        if !self.hangs.enabled {
            return;
        }
        if let Err(e) = self.judge() {
            log::error!("The reports of waiting domains cannot be read: {e}.");
        }
    }

    fn judge(&mut self) -> Result<(), MemoryError> {
        let count = self.qemus.len();
        let mut waits = false;
        for d in 0..count {
            waits |= self.parts.chip.waits(d)?;
        }
        if !waits && !self.hangs.busy {
            self.hangs.counted = self.now();
            return Ok(());
        }
        let facts = (0..count).map(|d| self.facts(d)).collect::<Result<Vec<_>, _>>()?;
        let now = self.now();
        self.hangs.counted = now;
        let actions = self.hangs.judge.look(now, &facts);
        self.hangs.busy = self.hangs.judge.is_busy();
        for action in actions {
            self.carry_out(action)?;
        }
        Ok(())
    }

    fn facts(&mut self, d: usize) -> Result<Facts, MemoryError> {
        let runs = self.power.view(d).is_some_and(|view| {
            !view.busy && matches!(view.state, state::RUNNING | state::BOOTING)
        });
        let passed = self.now().saturating_sub(self.hangs.counted);
        let measured = match self.qemus[d].as_ref().map(Qemu::pid) {
            _ if self.gate().is_lab() => Some(self.hangs.powered(d, runs, passed)),
            None => Some(0),
            Some(process) => self.hangs.executed[d].read(process),
        };
        let executed = measured.unwrap_or_else(|| self.hangs.powered(d, runs, passed.min(LONGEST)));
        let measured = measured.is_some();
        let mut facts = Facts { runs, executed, measured, ..Facts::default() };
        self.parts.chip.hang_facts(d, &mut facts)?;
        Ok(facts)
    }

    fn carry_out(&mut self, action: Action) -> Result<(), MemoryError> {
        match action {
            Action::Demand(d, word) => {
                let (name, us) = (self.name(d), self.now() / 1000);
                log::info!("{name} is asked about its progress: {word:#x}, at {us} us.");
                self.parts.chip.demand(d, word)?;
                self.ring_chip(d);
            }
            Action::Hangs(d, item) => {
                let sentence = format!("{} hangs: others wait for {}", self.name(d), name(item));
                log::error!("{sentence}; it is reset at {} us.", self.now() / 1000);
                if let Some(voice) = &self.parts.voice {
                    voice.say(&format!("{sentence}."));
                }
                // A reproducible run does not start again.
                let exact = self.parts.config.exact;
                self.step(if exact { Event::Crash(d) } else { Event::Hangs(d) });
            }
            Action::Spared(d, item) => {
                let (name, what) = (self.name(d), name(item));
                log::error!("{name} hangs: others wait for {what}. Too many have hung; it stays.");
            }
            Action::Seems(d, item) => {
                let sentence = format!(
                    "{} seems to hang: others wait for {}. This host does not tell how long it \
                     has executed, so it is not reset",
                    self.name(d),
                    name(item)
                );
                log::error!("{sentence}, at {} us.", self.now() / 1000);
                if let Some(voice) = &self.parts.voice {
                    voice.say(&format!("{sentence}."));
                }
            }
        }
        Ok(())
    }
}

fn name(item: Item) -> String {
    match item {
        Item::Page(page) => format!("page {page} of the shared block"),
        Item::Lock(lock) => format!("lock {lock}"),
    }
}
