//! Converts cycles to time without drift: fractions of a picosecond are kept for the next step.

use crate::Ps;

/// Units per cycle; costs are counted in units.
pub const UNITS: u64 = 64;
/// Picoseconds in a millisecond: kHz x ps = cycles x this.
const SCALE: u128 = 1_000_000_000;

/// The clock of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    time: Ps,
    /// Fraction of a picosecond, in 1 / (UNITS x khz).
    rest: u64,
    khz: u32,
}

impl Clock {
    /// Creates a clock at `time`. A frequency of 0 counts as 1 kHz.
    pub fn new(time: Ps, khz: u32) -> Clock {
        Clock { time, rest: 0, khz: khz.max(1) }
    }

    /// Creates a clock at `time` with the fraction `rest`.
    pub fn resume(time: Ps, rest: u64, khz: u32) -> Clock {
        Clock { time, rest, khz: khz.max(1) }
    }

    /// Returns the fraction of a picosecond.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// Returns the time.
    pub fn time(&self) -> Ps {
        self.time
    }

    /// Returns the frequency.
    pub fn khz(&self) -> u32 {
        self.khz
    }

    fn step(&self) -> u128 {
        u128::from(UNITS) * u128::from(self.khz)
    }

    fn numerator(&self, units: u64) -> u128 {
        u128::from(units) * SCALE + u128::from(self.rest)
    }

    /// Returns the time after `units` more.
    pub fn after(&self, units: u64) -> Ps {
        self.time.saturating_add((self.numerator(units) / self.step()) as u64)
    }

    /// Advances by `units`.
    pub fn advance(&mut self, units: u64) {
        let (numerator, step) = (self.numerator(units), self.step());
        self.time = self.time.saturating_add((numerator / step) as u64);
        self.rest = (numerator % step) as u64;
    }

    /// Advances to `time`, if that is later.
    pub fn advance_to(&mut self, time: Ps) {
        if time > self.time {
            self.time = time;
            self.rest = 0;
        }
    }

    /// Changes the frequency from now on.
    pub fn set_khz(&mut self, khz: u32) {
        let khz = khz.max(1);
        let rest = u128::from(self.rest) * u128::from(khz) / u128::from(self.khz);
        (self.rest, self.khz) = (rest as u64, khz);
    }

    /// Returns the smallest number of units after which the time is at least `time`.
    pub fn units_until(&self, time: Ps) -> u64 {
        let Some(ahead) = time.checked_sub(self.time) else { return 0 };
        let needed = u128::from(ahead) * self.step();
        let needed = needed.saturating_sub(u128::from(self.rest)).div_ceil(SCALE);
        u64::try_from(needed).unwrap_or(u64::MAX)
    }
}

/// Converts a cost in cycles to units.
pub fn units(cycles: f64) -> u64 {
    (cycles * UNITS as f64).round().max(0.0) as u64
}

/// Converts a time at `khz` to units.
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
