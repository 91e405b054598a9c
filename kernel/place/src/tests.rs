//! Tests of each rule alone, and of all of them on random boards.

use crate::{ENOUGH, Facts, Refused, choose, needs_load};
use abi::program::class::{LIGHT, NORMAL};
use base::prng::Prng;

const STRONG: Facts =
    Facts { is_available: true, is_strong: true, cores: 2, processes: 0, free: None };
const WEAK: Facts = Facts { is_strong: false, cores: 1, ..STRONG };
const GONE: Facts = Facts { is_available: false, ..WEAK };

fn any(class: u32, here: usize, kernels: &[Facts]) -> usize {
    choose(None, class, here, kernels).unwrap()
}

#[test]
fn the_class_selects_strong_or_weak_kernels() {
    let duo = [STRONG, WEAK];
    for here in 0..2 {
        assert_eq!((any(NORMAL, here, &duo), any(LIGHT, here, &duo)), (0, 1));
    }
    // Whatever their load.
    let busy = [Facts { processes: 200, ..STRONG }, WEAK];
    assert_eq!(any(NORMAL, 1, &busy), 0);
    assert_eq!(any(9, 1, &busy), 0, "an unknown class counts as normal");
}

#[test]
fn a_requested_kernel_is_chosen_or_an_error() {
    let board = [STRONG, WEAK, GONE];
    let requested = |requested| choose(Some(requested), NORMAL, 0, &board);
    assert_eq!((requested(0), requested(1)), (Ok(0), Ok(1)));
    assert_eq!(
        (requested(2), requested(3)),
        (Err(Refused::Unavailable), Err(Refused::NoSuchKernel))
    );
    assert_eq!(requested(u32::MAX), Err(Refused::NoSuchKernel));
}

#[test]
fn an_unavailable_kernel_is_not_chosen() {
    assert_eq!(any(LIGHT, 0, &[STRONG, GONE]), 0);
    assert_eq!(any(NORMAL, 1, &[Facts { is_available: false, ..STRONG }, WEAK]), 1);
    assert_eq!(choose(None, NORMAL, 0, &[GONE]), Err(Refused::Unavailable));
    assert_eq!(choose(None, NORMAL, 0, &[]), Err(Refused::Unavailable));
}

#[test]
fn the_least_loaded_kernel_of_a_class_is_chosen() {
    let with = |processes| Facts { processes, ..STRONG };
    assert_eq!(any(NORMAL, 0, &[with(3), with(1), with(2)]), 1);
    assert_eq!(any(NORMAL, 1, &[with(1), with(1)]), 1, "the caller's own");
    assert_eq!(any(NORMAL, 2, &[with(1), with(1), WEAK]), 0, "the first");
    let small = Facts { cores: 1, ..STRONG };
    assert_eq!(any(NORMAL, 1, &[with(1), small]), 1, "then 1 per core");
    assert_eq!(any(NORMAL, 1, &[with(0), small]), 0, "more cores");
    assert!(needs_load(NORMAL, &[STRONG, STRONG, WEAK]) && !needs_load(NORMAL, &[STRONG, WEAK]));
    assert!(!needs_load(LIGHT, &[STRONG, STRONG, WEAK, GONE]));
}

#[test]
fn without_memory_the_other_class_is_chosen() {
    let short = |facts| Facts { free: Some(ENOUGH - 1), ..facts };
    let calm = Facts { free: Some(ENOUGH), processes: 9, ..STRONG };
    assert_eq!(any(NORMAL, 0, &[short(STRONG), calm]), 1);
    assert_eq!(any(LIGHT, 1, &[STRONG, short(WEAK)]), 0);
    assert_eq!(any(LIGHT, 0, &[short(STRONG), short(WEAK)]), 1, "its class, if none has memory");
    assert_eq!(choose(Some(0), LIGHT, 1, &[short(STRONG), WEAK]), Ok(0), "a request overrides");
}

fn random(random: &mut Prng) -> Facts {
    Facts {
        is_available: random.chance(3, 4),
        is_strong: random.chance(1, 2),
        cores: random.below(5) as u32,
        processes: random.below(6) as u32,
        free: random.chance(1, 2).then(|| random.below(2 * ENOUGH)),
    }
}

#[test]
fn the_rules_hold_on_random_boards() {
    let mut prng = Prng::new(7);
    for _ in 0..200_000 {
        let kernels: Vec<_> = (0..prng.below(9)).map(|_| random(&mut prng)).collect();
        let class = [NORMAL, LIGHT][prng.below(2) as usize];
        let here = prng.below(9) as usize;
        let requested = prng.chance(1, 4).then(|| prng.below(10) as u32);
        let found = choose(requested, class, here, &kernels);
        assert_eq!(found, choose(requested, class, here, &kernels));
        let there = |f: &&Facts| f.is_available;
        match (requested, found) {
            (Some(requested), Ok(at)) => {
                assert!(at == requested as usize && kernels[at].is_available)
            }
            (Some(requested), Err(why)) => {
                let known = (requested as usize) < kernels.len();
                assert_eq!(why, if known { Refused::Unavailable } else { Refused::NoSuchKernel });
            }
            (None, Err(why)) => {
                assert!(why == Refused::Unavailable && !kernels.iter().any(|f| f.is_available));
            }
            (None, Ok(at)) => {
                let (chosen, good) = (kernels[at], class == NORMAL);
                assert!(chosen.is_available);
                let fits =
                    |f: &Facts| f.is_available && f.is_strong == good && !f.is_low_on_memory();
                let side = kernels.iter().any(fits);
                assert!(!side || fits(&chosen), "{class} {kernels:?}: {at}");
                let mut peers = kernels.iter().filter(there).filter(|f| !side || fits(f));
                assert!(!side || !peers.any(|f| f.is_less_loaded(&chosen)), "{kernels:?}: {at}");
            }
        }
    }
}
