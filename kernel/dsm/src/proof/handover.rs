//! Changes of homes among three domains, beside deaths. Each model is explored from a state in
//! which a home hands over to a domain while another domain starts.

use super::checks::{BOTH, check, deaths};
use super::model::World;
use super::program::{Op, one_core};
use super::steps::Action::{
    self, AllUnmapped, Deliver, Kill, Learn, Publish, Restart, Run, Start, Wake,
};
use super::walks::{Defect, walk};

const SLEEPS: &[Op] = &[Op::Sleep];
const SLEEPS_AND_ADDS: &[Op] = &[Op::Sleep, Op::Add(0)];
const SLEEPS_AND_LOADS: &[Op] = &[Op::Sleep, Op::Load(0)];

/// The steps with which a domain leaves that is not the home.
fn leaves(node: usize, home: usize) -> Vec<Action> {
    vec![Run(node, 0), AllUnmapped(node), Deliver(node, home), Deliver(home, node)]
}

/// Domain 0 hands over to domain 1, which writes and dies before domain 0 learns of it. Domain 2,
/// which has just started, must not read the page as it was before.
#[test]
fn the_next_home_loses_its_pages_if_it_dies_before_the_former_one_has_left() {
    let both_wake = vec![Wake(1), Wake(2), Learn(0), Run(0, 0), AllUnmapped(0)];
    let taken = vec![Deliver(0, 1), Deliver(0, 1), Deliver(0, 2), Run(1, 0), Run(2, 0)];
    let asleep = [leaves(1, 0), leaves(2, 0), vec![Learn(0)]].concat();
    let prefix = [asleep, both_wake, taken].concat();
    let programs: &[&[Op]] = &[SLEEPS, SLEEPS_AND_ADDS, SLEEPS_AND_LOADS];
    for protocol in BOTH {
        let prefix = prefix.clone();
        check("3: next home dies", World { prefix, ..deaths(protocol, 1, 0, programs) });
    }
}

/// Domain 0 hands over to domain 1 and leaves while domain 2 starts, and domain 1 dies. Domain 2
/// must not wait for domain 0, whose last announcement it handles late.
#[test]
fn a_domain_that_starts_does_not_wait_for_a_home_that_has_left() {
    let asleep = [leaves(2, 0), vec![Learn(0), Learn(1), Deliver(0, 1)]].concat();
    let prefix = [asleep, vec![Wake(2), Learn(0), Run(0, 0), AllUnmapped(0)]].concat();
    let programs: &[&[Op]] = &[SLEEPS, &[Op::Add(0)], SLEEPS_AND_LOADS];
    for protocol in BOTH {
        let prefix = prefix.clone();
        check("3: late announcement", World { prefix, ..deaths(protocol, 1, 0, programs) });
    }
}

/// Domain 2 is the home and hands over to domain 0, which has slept and woken since domain 2 read
/// the chip page. Domain 1 has woken before domain 0, does not know that it runs, and claims. If
/// domain 2 answers both, domain 1 becomes the home too, and nothing shows its death to domain 0.
#[test]
fn a_home_that_hands_over_answers_no_other_claimant() {
    let hands = vec![Learn(0), Learn(2), Run(0, 0), AllUnmapped(0), Deliver(0, 2)];
    let taken = vec![Deliver(0, 2), Deliver(2, 0), Learn(2)];
    let wakes = vec![Wake(0), Learn(2), Deliver(0, 2), Deliver(0, 2)];
    let joined = vec![Deliver(2, 0), Deliver(2, 0), Deliver(2, 0)];
    let ends = vec![Wake(1), Wake(0), Run(2, 0), AllUnmapped(2)];
    let prefix = [leaves(1, 0), hands, taken, wakes, joined, leaves(0, 2), ends].concat();
    let next: &[Op] = &[Op::Sleep, Op::Sleep, Op::Load(0)];
    for protocol in BOTH {
        let prefix = prefix.clone();
        let programs: &[&[Op]] = &[next, SLEEPS_AND_ADDS, SLEEPS];
        check("3: two claimants", World { prefix, ..deaths(protocol, 1, 0, programs) });
    }
}

/// Domain 0 was killed while it slept, and boots. Domain 1, the home, leaves before it learns of
/// that, so no domain answers domain 0.
#[test]
fn a_domain_that_boots_while_the_last_one_leaves_loses_nothing() {
    let hands = vec![Run(0, 0), AllUnmapped(0), Deliver(0, 1), Deliver(1, 0)];
    let prefix = [hands, vec![Learn(1), Kill(0, true)]].concat();
    for (protocol, slow) in BOTH.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let mut prefix = prefix.clone();
        if slow {
            prefix.insert(4, Publish(0));
        }
        let programs = one_core(&[SLEEPS_AND_LOADS, &[Op::Add(0), Op::Sleep]]);
        let (kills, restarts) = (1, 1);
        let world = World::<2, 1>::new(protocol, 1, programs);
        check(
            "boot, last one leaves",
            World { kills, restarts, slow, prefix, strict: true, ..world },
        );
    }
}

/// Domain 0 hands over to domain 2, which was killed while it slept and has restarted. Domain 1
/// wakes meanwhile.
#[test]
fn walks_find_no_defect_beside_a_restart() {
    for slow in [false, true] {
        let publish = |node| if slow { vec![Publish(node)] } else { vec![] };
        let asleep = [leaves(1, 0), publish(1), leaves(2, 0), publish(2)].concat();
        let restart = vec![Learn(0), Kill(2, true), Restart(2), Learn(0), Deliver(0, 2)];
        let hands = vec![Run(0, 0), Run(2, 0), AllUnmapped(0), Deliver(0, 2), Deliver(0, 2)];
        let wakes = if slow { vec![Wake(1), Start(1)] } else { vec![Wake(1)] };
        let prefix = [asleep, restart, hands, wakes].concat();
        for protocol in BOTH {
            let programs: &[&[Op]] = &[SLEEPS, SLEEPS_AND_ADDS, SLEEPS_AND_LOADS];
            let prefix = prefix.clone();
            let world = World { slow, prefix, ..deaths(protocol, 1, 1, programs) };
            for seed in 0..5_000 {
                if let Err(Defect { wrong, path }) = walk(&world, seed) {
                    panic!("{protocol:?}, slow {slow}, seed {seed}: {wrong}: {path:?}");
                }
            }
        }
    }
}
