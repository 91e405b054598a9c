//! Tests of each rule alone, and of all of them on random boards.

mod affinity;
mod random;
mod words;

use crate::{ENOUGH, Facts, Preferences, Reason, Refused, choose, needs_load};
use abi::boot::isa;
use abi::platform;
use abi::program::class::{LIGHT, NORMAL};

const STRONG: Facts = Facts {
    is_available: true,
    is_on_demand: false,
    is_strong: true,
    isa: isa::AARCH64,
    cores: 2,
    processes: 0,
    busy: None,
    free: None,
    near: 0,
    apart: 0,
};
const WEAK: Facts = Facts { is_strong: false, isa: isa::RISCV64, cores: 1, ..STRONG };
const GONE: Facts = Facts { is_available: false, ..WEAK };

fn class(class: u32) -> Preferences {
    Preferences { class, ..Preferences::default() }
}

fn preferring(platforms: &[u8]) -> Preferences {
    let preferred = platform::pack(platforms).unwrap();
    Preferences { class: NORMAL, required: 0, preferred }
}

fn requiring(required: u8) -> Preferences {
    Preferences { class: NORMAL, required, preferred: 0 }
}

fn chosen(preferences: &Preferences, here: usize, kernels: &[Facts]) -> (usize, Reason) {
    let decision = choose(None, preferences, here, kernels).unwrap();
    (decision.kernel, decision.reason)
}

fn any(of: u32, here: usize, kernels: &[Facts]) -> usize {
    chosen(&class(of), here, kernels).0
}

#[test]
fn the_class_selects_strong_or_weak_kernels() {
    let duo = [STRONG, WEAK];
    for here in 0..2 {
        assert_eq!((any(NORMAL, here, &duo), any(LIGHT, here, &duo)), (0, 1));
    }
    // Whatever their load.
    let busy = [Facts { processes: 200, busy: Some(100), ..STRONG }, WEAK];
    assert_eq!(any(NORMAL, 1, &busy), 0);
    assert_eq!(any(9, 1, &busy), 0, "an unknown class counts as normal");
    assert_eq!(chosen(&class(LIGHT), 0, &duo), (1, Reason::Class));
}

#[test]
fn a_requested_kernel_is_chosen_or_an_error() {
    let board = [STRONG, WEAK, GONE];
    let preferences = requiring(platform::RISCV64);
    let requested =
        |requested| choose(Some(requested), &preferences, 0, &board).map(|it| it.kernel);
    assert_eq!((requested(0), requested(1)), (Ok(0), Ok(1)), "whatever the manifest says");
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
    let none = |kernels| choose(None, &class(NORMAL), 0, kernels);
    assert_eq!(none(&[GONE]), Err(Refused::Unavailable));
    assert_eq!(none(&[]), Err(Refused::Unavailable));
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
    let load = |of, kernels: &[Facts]| needs_load(&class(of), kernels);
    assert!(load(NORMAL, &[STRONG, STRONG, WEAK]) && !load(NORMAL, &[STRONG, WEAK]));
    assert!(!load(LIGHT, &[STRONG, STRONG, WEAK, GONE]));
}

#[test]
fn use_counts_before_the_number_of_processes() {
    let with = |busy, processes| Facts { busy: Some(busy), processes, ..STRONG };
    let choice = |kernels: &[Facts]| chosen(&class(NORMAL), 0, kernels);
    assert_eq!(choice(&[with(80, 1), with(5, 9)]), (1, Reason::Busy));
    assert_eq!(choice(&[with(19, 2), with(10, 1)]), (1, Reason::Processes), "noise is no use");
    assert_eq!(choice(&[with(19, 1), with(10, 1)]), (0, Reason::Caller));
    assert_eq!(choice(&[with(10, 0), STRONG]), (1, Reason::Busy), "unknown counts as idle");
}

#[test]
fn without_memory_the_other_class_is_chosen() {
    let short = |facts| Facts { free: Some(ENOUGH - 1), ..facts };
    let calm = Facts { free: Some(ENOUGH), processes: 9, ..STRONG };
    assert_eq!(any(NORMAL, 0, &[short(STRONG), calm]), 1);
    assert_eq!(any(LIGHT, 1, &[STRONG, short(WEAK)]), 0);
    assert_eq!(any(LIGHT, 0, &[short(STRONG), short(WEAK)]), 1, "its class, if none has memory");
    let requested = choose(Some(0), &class(LIGHT), 1, &[short(STRONG), WEAK]);
    assert_eq!(requested.map(|it| it.kernel), Ok(0), "a request overrides");
    let must = requiring(platform::WEAK);
    assert_eq!(chosen(&must, 0, &[STRONG, short(WEAK)]), (1, Reason::Required));
}

#[test]
fn a_kernel_starts_on_demand_for_a_required_platform_only() {
    let duo = [STRONG, Facts { is_on_demand: true, ..GONE }];
    assert_eq!(chosen(&requiring(platform::RISCV64), 0, &duo), (1, Reason::Starts));
    assert_eq!(chosen(&requiring(platform::AARCH64), 0, &duo).0, 0);
    assert_eq!(any(LIGHT, 0, &duo), 0, "a preference starts nothing");
    assert_eq!(chosen(&preferring(&[platform::WEAK]), 0, &duo).0, 0);
    let requested = choose(Some(1), &class(NORMAL), 0, &duo).unwrap();
    assert_eq!((requested.kernel, requested.reason), (1, Reason::Requested));
    let lacking = choose(None, &requiring(platform::RISCV64 | platform::STRONG), 0, &duo);
    assert!(matches!(lacking, Err(Refused::NoPlatform { is_on_board: false, .. })));
}
