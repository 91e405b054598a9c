//! The limits of the board, and of a process tree.

use crate::common::*;
use abi::names::{Errno, NAMES, Op, Request, SYSTEM_NAMES, TREE_NAMES, TREE_WATCHES, WATCHES};
use names::client::Registration;

fn add(world: &mut World, number: usize, tree: u32) -> Result<u64, Errno> {
    let registered = Registration { tree, ..registration(&format!("n{number}"), 1) };
    world.with(1, |client| client.register(registered))
}

#[test]
fn a_tree_has_at_most_32_names() {
    let mut world = World::new();
    for number in 0..TREE_NAMES {
        add(&mut world, number, 5).unwrap();
    }
    let before = world.edition();
    assert_eq!(add(&mut world, 500, 5), Err(Errno::Dquot));
    assert!(add(&mut world, 0, 5).is_ok(), "it has this one");
    assert_eq!(world.edition(), before);
    assert!(add(&mut world, 500, 6).is_ok(), "another tree");
    world.with(1, |client| client.remove(name("n3"), 1)).unwrap();
    assert!(add(&mut world, 501, 5).is_ok());
}

#[test]
fn all_trees_have_at_most_128_names() {
    let mut world = World::new();
    for number in 0..NAMES {
        add(&mut world, number, 1 + (number / TREE_NAMES) as u32).unwrap();
    }
    let before = world.edition();
    assert_eq!(add(&mut world, 500, 50), Err(Errno::Nospc));
    assert_eq!((world.edition(), world.service.census()), (before, (NAMES, 0)));
    // Names of trees do not keep a kernel from registering its own.
    for number in 0..SYSTEM_NAMES {
        add(&mut world, 1000 + number, 0).unwrap();
    }
    assert_eq!(add(&mut world, 500, 0), Err(Errno::Nospc));
    world.gone(1);
    world.epochs[1] = 2;
    assert!(add(&mut world, 500, 5).is_ok());
}

#[test]
fn names_of_the_system_take_no_places_of_trees() {
    let mut world = World::new();
    for number in 0..SYSTEM_NAMES {
        add(&mut world, number, 0).unwrap();
    }
    assert_eq!(add(&mut world, 500, 0), Err(Errno::Nospc));
    for number in 0..NAMES {
        add(&mut world, 1000 + number, 1 + (number / TREE_NAMES) as u32).unwrap();
    }
}

#[test]
fn callers_of_watch_are_limited() {
    let mut world = World::new();
    for _ in 0..TREE_WATCHES {
        world.watch(0, 5);
    }
    let edition = world.edition();
    let request = Request { edition, tree: 5, ..Request::new(Op::Watch) };
    assert_eq!(world.errno(0, request), Errno::Dquot);
    for _ in TREE_WATCHES..WATCHES {
        world.watch(1, 0);
    }
    assert_eq!(world.errno(0, Request { tree: 0, ..request }), Errno::Again);
    assert_eq!(world.service.census(), (0, WATCHES));
    // A change answers all of them, so others may wait.
    world.add(2, "a", 1).unwrap();
    assert_eq!((world.take_woken().len(), world.service.census()), (WATCHES, (1, 0)));
    world.watch(0, 5);
}
