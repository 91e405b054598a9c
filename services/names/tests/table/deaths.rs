//! What becomes of names when kernels die, and when the table loses its state.

use crate::common::*;
use abi::names::Errno;
use base::id::{DomainId, Epoch};
use share::Event;

#[test]
fn a_dead_kernel_loses_its_names() {
    let mut world = World::new();
    for (kernel, text) in [(0, "a"), (1, "b"), (2, "c"), (1, "d")] {
        world.add(kernel, text, 1).unwrap();
    }
    world.gone(1);
    assert_eq!(world.texts(), ["a", "c"]);
    assert_eq!(world.find("b"), Err(Errno::Noent));
    world.gone(1);
    assert_eq!(world.texts(), ["a", "c"], "each survivor reports the death");
}

#[test]
fn a_restarted_kernel_takes_its_names_again() {
    let mut world = World::new();
    world.add(1, "storage", 1).unwrap();
    // Its first request may come before the others have noticed that it died.
    world.epochs[1] = 2;
    world.add(1, "storage", 9).unwrap();
    assert_eq!(world.find("storage"), Ok((1, 9)));
    world.tell(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(world.find("storage"), Ok((1, 9)), "the old death is not that of the new life");
}

#[test]
fn a_life_that_is_over_registers_and_finds_nothing() {
    let mut world = World::new();
    world.add(0, "a", 1).unwrap();
    world.gone(1);
    assert_eq!(world.add(1, "b", 1), Err(Errno::Hostunreach));
    assert_eq!(world.with(1, |client| client.find(name("a"))), Err(Errno::Hostunreach));
    world.epochs[1] = 3;
    world.add(1, "b", 1).unwrap();
    world.epochs[1] = 2;
    assert_eq!(world.add(1, "c", 1), Err(Errno::Hostunreach), "life 2 came and went unseen");
    assert_eq!(world.with(1, |client| client.close(1)), Err(Errno::Hostunreach));
    assert_eq!(world.texts(), ["a", "b"]);
}

#[test]
fn a_life_cannot_remove_the_names_of_another() {
    let mut world = World::new();
    world.epochs[1] = 2;
    world.add(1, "a", 1).unwrap();
    world.epochs[1] = 1;
    let removed = world.with(1, |client| client.remove(name("a"), 1));
    assert_eq!(removed, Err(Errno::Hostunreach));
    assert_eq!(world.find("a"), Ok((1, 1)));
}

#[test]
fn a_kernel_without_a_life_is_refused() {
    let mut world = World::new();
    world.epochs[1] = 0;
    assert_eq!(world.add(1, "a", 1), Err(Errno::Hostunreach));
    world.epochs[1] = u16::MAX;
    assert!(world.add(1, "a", 1).is_ok());
    world.gone(1);
    assert_eq!((world.add(1, "a", 1), world.texts()), (Err(Errno::Hostunreach), vec![]));
}
