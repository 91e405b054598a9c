//! Requirements on every simulator of seeds.

use sim::Failure;
use std::fmt::Debug;

/// A seed does the same twice.
pub fn repeats<T: PartialEq + Debug>(simulate: impl Fn(u64) -> Result<T, Failure>) {
    for seed in [3, 77, 1234] {
        assert_eq!(simulate(seed).ok(), simulate(seed).ok());
    }
}

/// Each omitted barrier is caught by a seed that succeeds with it.
pub fn catches<B: Copy, T>(
    all: &[(&str, B)],
    simulate: impl Fn(u64, Option<B>) -> Result<T, Failure>,
) {
    for (name, broken) in all {
        let caught = (0..2000).find_map(|seed| simulate(seed, Some(*broken)).err());
        let failure = caught.unwrap_or_else(|| panic!("{name} was not caught in 2000 seeds"));
        println!("{name}: caught by seed {}: {}", failure.seed, failure.reason);
        assert!(!failure.trace.is_empty());
        assert!(simulate(failure.seed, None).is_ok(), "with the barrier, the seed is fine");
    }
}
