//! Small worlds in which nothing goes wrong.
use super::graph::explore;
use super::model::World;
use super::program::{Op, one_core};
use crate::word::Protocol;

fn check<const D: usize, const C: usize>(name: &str, world: World<D, C>) {
    let begin = std::time::Instant::now();
    let graph = explore(&world, |state| world.is_done(state));
    println!("{name}: {} states, {:?}", graph.states, begin.elapsed());
    assert!(graph.is_fine(), "{name}: {graph:#?}");
}

#[test]
fn two_domains() {
    let a: &[Op] = &[Op::Add(0), Op::Add(0), Op::Load(0)];
    for protocol in [Protocol::TwoState, Protocol::ThreeState] {
        check(&format!("add {protocol:?}"), World::<2, 1>::new(protocol, 1, one_core(&[a, a])));
        let b: &[Op] = &[Op::AddBoth(0), Op::AddBoth(0)];
        check(&format!("both {protocol:?}"), World::<2, 1>::new(protocol, 2, one_core(&[b, b])));
    }
}
