//! The energy of a domain, estimated: the time of its cores in each state, times the powers of the
//! board file.
//!
//! Contract: times are totals since the kernel booted, in ns, summed over the cores. The meter adds
//! what has passed since it was last read, at the powers of that time. So it must be read before
//! the frequency or the power while idle changes.
//!
//! Not counted: devices, memory, caches, the time that a domain is off or INACTIVE, and what
//! another domain of a cluster adds by needing a higher voltage.

/// Powers of a core in uW.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Powers {
    /// While it runs a thread.
    pub active: u32,
    /// While it waits for work.
    pub idle: u32,
    /// While its domain rests.
    pub resting: u32,
}

/// How long cores were in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    pub active: u64,
    pub idle: u64,
    pub resting: u64,
}

impl Residency {
    /// Returns what these times cost in fJ (1 uW for 1 ns).
    pub fn energy(&self, powers: Powers) -> u128 {
        let product = |time: u64, power: u32| u128::from(time) * u128::from(power);
        product(self.active, powers.active)
            + product(self.idle, powers.idle)
            + product(self.resting, powers.resting)
    }

    /// Returns the times since `earlier`; 0 for one that went back, because a counter was reset.
    fn since(&self, earlier: &Residency) -> Residency {
        Residency {
            active: self.active.saturating_sub(earlier.active),
            idle: self.idle.saturating_sub(earlier.idle),
            resting: self.resting.saturating_sub(earlier.resting),
        }
    }
}

/// Adds up the energy of one domain.
#[derive(Clone, Debug)]
pub struct Meter {
    seen: Residency,
    /// In fJ. `None` once a time had no known power.
    energy: Option<u128>,
}

impl Meter {
    pub const fn new() -> Meter {
        let seen = Residency { active: 0, idle: 0, resting: 0 };
        Meter { seen, energy: Some(0) }
    }

    /// Adds the time until `now`, at `powers`. Without powers the energy is unknown from then on.
    pub fn read(&mut self, now: Residency, powers: Option<Powers>) {
        let passed = now.since(&self.seen);
        self.seen = now;
        self.energy = match (self.energy, powers) {
            (Some(energy), Some(powers)) => Some(energy.saturating_add(passed.energy(powers))),
            _ => None,
        };
    }

    /// Returns the energy so far in nJ, or `None` if it is unknown.
    pub fn nanojoules(&self) -> Option<u64> {
        self.energy.map(|fj| u64::try_from(fj / 1_000_000).unwrap_or(u64::MAX - 1))
    }
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

/// Returns what `time` ns of one core cost at `power` uW, in nJ.
pub fn nanojoules(time: u64, power: u32) -> u64 {
    let active = Residency { active: time, ..Residency::default() };
    let powers = Powers { active: power, ..Powers::default() };
    u64::try_from(active.energy(powers) / 1_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SLOW: Powers = Powers { active: 79_800, idle: 25_200, resting: 100 };
    const FAST: Powers = Powers { active: 672_000, ..SLOW };

    #[test]
    fn a_second_in_each_state_costs_the_power_of_the_state() {
        let mut meter = Meter::new();
        let mut now = Residency { active: SECOND, ..Residency::default() };
        meter.read(now, Some(SLOW));
        assert_eq!(meter.nanojoules(), Some(79_800_000));
        now.idle = SECOND;
        meter.read(now, Some(SLOW));
        assert_eq!(meter.nanojoules(), Some(79_800_000 + 25_200_000));
        now.resting = 10 * SECOND;
        meter.read(now, Some(SLOW));
        assert_eq!(meter.nanojoules(), Some(79_800_000 + 25_200_000 + 1_000_000));
        assert_eq!(nanojoules(SECOND / 2, 79_800), 39_900_000);
    }

    #[test]
    fn time_before_a_change_of_frequency_keeps_its_power() {
        let mut meter = Meter::new();
        let at = |active| Residency { active, ..Residency::default() };
        meter.read(at(SECOND), Some(SLOW));
        meter.read(at(3 * SECOND), Some(FAST));
        assert_eq!(meter.nanojoules(), Some(79_800_000 + 2 * 672_000_000));
    }

    #[test]
    fn short_times_add_up_without_loss() {
        let mut meter = Meter::new();
        for idle in 1..=1000 {
            meter.read(Residency { idle, ..Residency::default() }, Some(SLOW));
        }
        assert_eq!(meter.nanojoules(), Some(25), "1 us at 25.2 mW");
    }

    #[test]
    fn a_counter_that_was_reset_takes_no_energy_back() {
        let mut meter = Meter::new();
        let at = |active| Residency { active, ..Residency::default() };
        meter.read(at(SECOND), Some(SLOW));
        meter.read(at(5), Some(SLOW));
        meter.read(at(5 + SECOND), Some(SLOW));
        assert_eq!(meter.nanojoules(), Some(2 * 79_800_000));
    }

    #[test]
    fn without_a_power_the_energy_is_unknown_and_stays_so() {
        let mut meter = Meter::new();
        meter.read(Residency { active: 7, ..Residency::default() }, None);
        meter.read(Residency { active: SECOND, ..Residency::default() }, Some(SLOW));
        assert_eq!(meter.nanojoules(), None);
    }

    #[test]
    fn the_largest_times_do_not_overflow() {
        let mut meter = Meter::new();
        let all = Residency { active: u64::MAX, idle: u64::MAX, resting: u64::MAX };
        let powers = Powers { active: u32::MAX, idle: u32::MAX, resting: u32::MAX };
        meter.read(all, Some(powers));
        assert_eq!(meter.nanojoules(), Some(u64::MAX - 1), "known, and the most that fits");
        assert_eq!(nanojoules(u64::MAX, u32::MAX), u64::MAX);
    }
}
