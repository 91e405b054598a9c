//! The life of a name: registered, found, listed, removed.

use crate::common::*;
use abi::names::{Errno, Listed, NO_DOOR, Name, Request};
use names::client::{Client, Found, Registration};

#[test]
fn a_registered_name_leads_to_its_door() {
    let mut world = World::new();
    let edition = world.add(1, "mail/virus", 40).unwrap();
    let found = world.with(2, |client| client.find(name("mail/virus"))).unwrap();
    let expected = Found { kernel: 1, epoch: 1, door: 40, contract: [9; 16], edition };
    assert_eq!(found, expected);
    assert_eq!(world.find("mail"), Err(Errno::Noent), "a part of a name is no name");
}

#[test]
fn a_name_is_taken_until_it_is_removed() {
    let mut world = World::new();
    world.add(1, "storage", 40).unwrap();
    assert_eq!(world.add(1, "storage", 41), Err(Errno::Exist));
    assert_eq!(world.add(2, "storage", 40), Err(Errno::Exist), "doors are those of one kernel");
    world.with(1, |client| client.remove(name("storage"), 40)).unwrap();
    assert_eq!(world.find("storage"), Err(Errno::Noent));
    assert!(world.add(2, "storage", 40).is_ok());
    assert_eq!(world.find("storage"), Ok((2, 40)));
}

#[test]
fn registering_the_same_again_has_no_effect() {
    let mut world = World::new();
    let edition = world.add(1, "storage", 40).unwrap();
    assert_eq!(world.add(1, "storage", 40), Ok(edition));
    let same = registration("storage", 40);
    for other in [
        Registration { contract: [8; 16], ..same },
        Registration { tree: 6, ..same },
        Registration { pid: 8, ..same },
    ] {
        assert_eq!(world.with(1, |client| client.register(other)), Err(Errno::Exist), "{other:?}");
    }
    assert_eq!(world.texts(), ["storage"]);
}

#[test]
fn no_name_is_below_another() {
    let mut world = World::new();
    world.add(1, "mail/virus", 40).unwrap();
    for above in ["mail", "mail/virus/new", "mail/virus/new/one"] {
        let why = if above == "mail" { Errno::Isdir } else { Errno::Notdir };
        assert_eq!(world.add(1, above, 40), Err(why), "{above}");
    }
    for beside in ["mail/spam", "mail-x", "mail.virus", "virus/mail", "mai", "mail/virus2"] {
        assert!(world.add(1, beside, 40).is_ok(), "{beside}");
    }
    assert!(world.add(1, "mail/virus", 40).is_ok(), "it is there");
    assert_eq!(world.with(1, |client| client.close(40)), Ok(7));
    assert!(world.add(1, "mail", 40).is_ok(), "nothing is below it any more");
    assert_eq!(world.add(2, "mail/virus", 1), Err(Errno::Notdir));
}

#[test]
fn names_of_the_system_are_for_the_system() {
    let mut world = World::new();
    let of_system =
        |text| Registration { name: name(text), door: NO_DOOR, ..Registration::default() };
    for text in ["kernel", "service", "kernel/main", "service/fs/main", "kernel/a/b/c"] {
        assert_eq!(world.add(1, text, 40), Err(Errno::Perm), "{text}");
    }
    for text in ["kernel/main", "service/fs/main"] {
        world.with(1, |client| client.register(of_system(text))).unwrap();
        assert_eq!(world.add(1, text, NO_DOOR), Err(Errno::Perm), "also if it is there");
    }
    assert_eq!(world.find("kernel/main"), Ok((1, NO_DOOR)));
    assert!(world.add(1, "kernels", 40).is_ok());
    world.with(1, |client| client.close(40)).unwrap();
    assert_eq!(world.texts(), ["kernel/main", "service/fs/main"]);
    world.gone(1);
    assert_eq!(world.list(), []);
}

#[test]
fn only_the_door_of_a_name_removes_it() {
    let mut world = World::new();
    world.add(1, "storage", 40).unwrap();
    for (kernel, door) in [(1, 41), (2, 40), (0, 0)] {
        let removed = world.with(kernel, |client| client.remove(name("storage"), door));
        assert_eq!(removed, Err(Errno::Noent));
    }
    assert_eq!(world.with(2, |client| client.close(40)), Ok(0));
    assert_eq!(world.find("storage"), Ok((1, 40)));
}

#[test]
fn closing_a_door_removes_all_its_names() {
    let mut world = World::new();
    for (text, door) in [("a", 1), ("b", 2), ("c", 1)] {
        world.add(1, text, door).unwrap();
    }
    world.add(2, "d", 1).unwrap();
    assert_eq!(world.with(1, |client| client.close(1)), Ok(2));
    assert_eq!(world.texts(), ["b", "d"]);
    assert_eq!(world.with(1, |client| client.close(1)), Ok(0));
}

#[test]
fn names_are_listed_in_order_over_several_pages() {
    let mut world = World::new();
    for number in (0..100).rev() {
        let text = format!("n/{number:02}");
        let tree = 1 + number as u32 / 30;
        let registered = Registration { tree, ..registration(&text, number) };
        world.with(1, |client| client.register(registered)).unwrap();
    }
    let expected: Vec<String> = (0..100).map(|number| format!("n/{number:02}")).collect();
    assert_eq!(world.texts(), expected);
    let (page, _) = world.with(0, |client| client.list_some(name("n/97"), 9)).unwrap();
    let texts: Vec<&str> = page.iter().map(|listed| listed.name.text()).collect();
    assert_eq!(texts, ["n/98", "n/99"]);
    // A name that is not there (any more) is a place to continue, too.
    let (page, _) = world.with(0, |client| client.list_some(name("n/97x"), 1)).unwrap();
    assert_eq!(page.first().map(|listed| listed.name), Some(name("n/98")));
}

#[test]
fn a_list_at_once_is_of_one_edition() {
    let mut world = World::new();
    for number in 0..80 {
        let text = format!("n/{number:02}");
        let registered = Registration { tree: 1 + number as u32 / 30, ..registration(&text, 1) };
        world.with(1, |client| client.register(registered)).unwrap();
    }
    // While the list is read for the first time, its last name goes and an earlier one comes.
    let mut requests = 0;
    let mut carry = |request: Request, bulk: &mut [u8]| {
        requests += 1;
        if requests == 2 {
            world.with(1, |client| client.remove(name("n/79"), 1)).unwrap();
            world.add(2, "a", 7).unwrap();
        }
        world.done(0, request, bulk)
    };
    let (all, edition) = Client(&mut carry).list_at_once().unwrap();
    assert_eq!((all.len(), edition), (80, world.edition()));
    assert_eq!(all, world.list());
}

#[test]
fn a_table_that_changes_all_the_time_is_not_listed_at_once() {
    let mut world = World::new();
    world.add(2, "b", 1).unwrap();
    let mut carry = |request: Request, bulk: &mut [u8]| {
        world.add(1, "a", 1).unwrap();
        world.with(1, |client| client.remove(name("a"), 1)).unwrap();
        world.done(0, request, bulk)
    };
    assert_eq!(Client(&mut carry).list_at_once(), Err(Errno::Again));
}

#[test]
fn a_listed_name_says_by_what_it_is_served() {
    let mut world = World::new();
    world.add(2, "storage", 40).unwrap();
    let (name, contract) = (name("storage"), [9; 16]);
    assert_eq!(world.list(), [Listed { name, contract, pid: 7, kernel: 2, epoch: 1 }]);
}

#[test]
fn each_change_and_nothing_else_gives_a_higher_edition() {
    let mut world = World::new();
    let mut last = world.edition();
    let mut has_changed = |world: &mut World| {
        let before = std::mem::replace(&mut last, world.edition());
        assert!(before <= last);
        before != last
    };
    assert!(world.add(1, "a", 1).is_ok() && has_changed(&mut world));
    assert!(world.add(1, "a", 1).is_ok() && !has_changed(&mut world));
    assert!(world.add(2, "a", 1).is_err() && !has_changed(&mut world));
    assert!(world.find("a").is_ok() && !has_changed(&mut world));
    assert_eq!(world.with(1, |client| client.close(2)), Ok(0));
    assert!(!has_changed(&mut world));
    world.with(1, |client| client.remove(name("a"), 1)).unwrap();
    assert!(has_changed(&mut world));
    world.gone(1);
    assert!(!has_changed(&mut world), "it had no names");
}

#[test]
fn an_empty_table_lists_nothing() {
    let mut world = World::new();
    assert_eq!(world.list(), []);
    let listed = world.with(0, |client| client.list_some(Name::EMPTY, 0));
    assert_eq!(listed.map(|_| ()), Err(Errno::Inval), "no room");
}
