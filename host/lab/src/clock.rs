//! Cycles as time, without drift: what does not fill a picosecond is kept for the next step.

use crate::Ps;

/// Parts of a cycle: costs are counted in these.
pub const UNITS: u64 = 64;
/// Picoseconds in a millisecond: kHz x ps = cycles x this.
const SCALE: u128 = 1_000_000_000;

/// The clock of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    time: Ps,
    /// Of a picosecond, in 1 / (UNITS x khz).
    rest: u64,
    khz: u32,
}

impl Clock {
    /// Starts at `time`. A frequency of 0 counts as 1 kHz.
    pub fn new(time: Ps, khz: u32) -> Clock {
        Clock { time, rest: 0, khz: khz.max(1) }
    }

    /// The one that stood at `time` with `rest` over.
    pub fn resume(time: Ps, rest: u64, khz: u32) -> Clock {
        Clock { time, rest, khz: khz.max(1) }
    }

    /// What does not fill a picosecond yet.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// How late it is.
    pub fn time(&self) -> Ps {
        self.time
    }

    /// Its frequency.
    pub fn khz(&self) -> u32 {
        self.khz
    }

    fn step(&self) -> u128 {
        u128::from(UNITS) * u128::from(self.khz)
    }

    fn numerator(&self, units: u64) -> u128 {
        u128::from(units) * SCALE + u128::from(self.rest)
    }

    /// How late it will be after `units` more.
    pub fn after(&self, units: u64) -> Ps {
        self.time.saturating_add((self.numerator(units) / self.step()) as u64)
    }

    /// `units` have passed.
    pub fn advance(&mut self, units: u64) {
        let (numerator, step) = (self.numerator(units), self.step());
        self.time = self.time.saturating_add((numerator / step) as u64);
        self.rest = (numerator % step) as u64;
    }

    /// It is `time` now, if that is later.
    pub fn advance_to(&mut self, time: Ps) {
        if time > self.time {
            self.time = time;
            self.rest = 0;
        }
    }

    /// From now on at another frequency.
    pub fn set_khz(&mut self, khz: u32) {
        let khz = khz.max(1);
        let rest = u128::from(self.rest) * u128::from(khz) / u128::from(self.khz);
        (self.rest, self.khz) = (rest as u64, khz);
    }

    /// Fewest units after which it is `time` or later.
    pub fn units_until(&self, time: Ps) -> u64 {
        let Some(ahead) = time.checked_sub(self.time) else { return 0 };
        let needed = u128::from(ahead) * self.step();
        let needed = needed.saturating_sub(u128::from(self.rest)).div_ceil(SCALE);
        u64::try_from(needed).unwrap_or(u64::MAX)
    }
}

/// Units of a cost in cycles.
pub fn units(cycles: f64) -> u64 {
    (cycles * UNITS as f64).round().max(0.0) as u64
}

/// Units that last `time` at `khz`.
pub fn units_of(time: Ps, khz: u32) -> u64 {
    Clock::new(0, khz).units_until(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_second_of_cycles_is_a_second() {
        for khz in [1, 200_000, 350_000, 1_200_000, 648_000] {
            let mut clock = Clock::new(5, khz);
            for _ in 0..1000 {
                clock.advance(UNITS * u64::from(khz));
            }
            assert_eq!(clock.time(), 5 + 1_000_000_000_000);
        }
    }

    #[test]
    fn a_change_of_frequency_acts_from_then_on() {
        let mut clock = Clock::new(0, 350_000);
        clock.advance(350 * UNITS);
        clock.set_khz(1_200_000);
        clock.advance(1200 * UNITS);
        assert_eq!(clock.time(), 2_000_000);
        clock.advance_to(1);
        assert_eq!(clock.time(), 2_000_000, "never back");
    }

    proptest! {
        #[test]
        fn steps_add_up(
            khz in 1u32..3_000_000,
            steps in prop::collection::vec(0u64..1 << 40, 0..50),
        ) {
            let mut clock = Clock::new(0, khz);
            for &step in &steps {
                let after = clock.after(step);
                clock.advance(step);
                prop_assert_eq!(clock.time(), after);
            }
            let mut once = Clock::new(0, khz);
            once.advance(steps.iter().sum());
            prop_assert_eq!(clock, once);
        }

        #[test]
        fn units_until_is_the_least(
            khz in 1u32..3_000_000,
            begun in 0u64..1 << 30,
            ahead in 0u64..1 << 44,
        ) {
            let mut clock = Clock::new(0, khz);
            clock.advance(begun);
            let target = clock.time() + ahead;
            let units = clock.units_until(target);
            prop_assert!(clock.after(units) >= target);
            prop_assert!(units == 0 || clock.after(units - 1) < target);
        }
    }
}
