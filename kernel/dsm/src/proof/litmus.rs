//! Sequential consistency: no schedule of a litmus program has a forbidden outcome.

use stateright::{Checker, Model};

use super::model::World;
use super::program::{Op, one_core};
use crate::types::Protocol::{ThreeState, TwoState};

const X: u32 = 0;
const Y: u32 = 1;

type Forbidden = fn(&[Vec<u8>]) -> bool;

fn litmus<const D: usize>(name: &str, programs: &[&[Op]], forbidden: Forbidden) {
    for protocol in [TwoState, ThreeState] {
        let world =
            World::<D, 1> { forbidden, evict: true, ..World::new(protocol, 2, one_core(programs)) };
        let checker = world.checker().spawn_bfs().join();
        println!("{name}, {protocol:?}: {} states", checker.unique_state_count());
        checker.assert_properties();
    }
}

#[test]
fn litmus_programs_are_sequentially_consistent() {
    use Op::{Load, Store};
    let stores: &[Op] = &[Store(X, 1), Store(Y, 1)];
    let loads: &[Op] = &[Load(Y), Load(X)];
    litmus::<2>("message passing", &[stores, loads], |r| r[1] == [1, 0]);
    let left: &[Op] = &[Store(X, 1), Load(Y)];
    let right: &[Op] = &[Store(Y, 1), Load(X)];
    litmus::<2>("store buffering", &[left, right], |r| r[0] == [0] && r[1] == [0]);
    let left: &[Op] = &[Load(X), Store(Y, 1)];
    let right: &[Op] = &[Load(Y), Store(X, 1)];
    litmus::<2>("load buffering", &[left, right], |r| r[0] == [1] && r[1] == [1]);
    let twice: &[Op] = &[Load(X), Load(X)];
    litmus::<2>("coherence, read-read", &[&[Store(X, 1)], twice], |r| r[1] == [1, 0]);
    // 2+2W: x and y both end with 1 in the view of both domains.
    let left: &[Op] = &[Store(X, 1), Store(Y, 2), Load(Y), Load(X)];
    let right: &[Op] = &[Store(Y, 1), Store(X, 2), Load(X), Load(Y)];
    litmus::<2>("2+2W", &[left, right], |r| r[0] == [1, 1] && r[1] == [1, 1]);
    litmus::<3>("write to read", &[&[Store(X, 1)], &[Load(X), Store(Y, 1)], loads], |r| {
        r[1] == [1] && r[2] == [1, 0]
    });
}

#[test]
fn independent_reads_of_independent_writes() {
    use Op::{Load, Store};
    let (xy, yx): (&[Op], &[Op]) = (&[Load(X), Load(Y)], &[Load(Y), Load(X)]);
    let programs: &[&[Op]] = &[&[Store(X, 1)], &[Store(Y, 1)], xy, yx];
    litmus::<4>("IRIW", programs, |r| r[2] == [1, 0] && r[3] == [1, 0]);
}
