//! Descriptors of several threads, and their numbers.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn descriptor(word: u64) -> Descriptor {
    let (kind, syncs) = (word as u8, word as u16);
    let realms = [Realm::Files, Realm::Sockets, Realm::Channels];
    let object = Object::of_parts(word, realms[word as usize % 3]);
    let is_null = word & 16 != 0;
    Descriptor { object, rights: word, inheriting: word, kind, syncs, is_null }
}

/// Three threads look up what another one changes: each finds all of a descriptor, or none.
#[test]
fn a_descriptor_is_found_whole_or_not_at_all() {
    let (table, over) = (Table::new(64).unwrap(), AtomicBool::new(false));
    table.put(5, Slot { descriptor: descriptor(1), name: None }).unwrap();
    thread::scope(|scope| {
        let look = || {
            let (mut found, mut missed) = (0u64, 0u64);
            while !over.load(Ordering::Relaxed) {
                match table.get(5) {
                    Ok(it) => {
                        assert_eq!(it, descriptor(it.object.parts().0));
                        found += 1;
                    }
                    Err(_) => missed += 1,
                }
            }
            found + missed
        };
        let looks = [scope.spawn(look), scope.spawn(look), scope.spawn(look)];
        for round in 2..300_000 {
            match round % 3 {
                0 => drop(table.take(5)),
                1 => drop(table.put(5, Slot { descriptor: descriptor(round), name: None })),
                _ => drop(table.change(5, |it| {
                    *it = descriptor(round);
                    Ok(())
                })),
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(looks.map(|look| look.join().unwrap()).iter().all(|count| *count > 0));
    });
}

#[test]
fn numbers_are_the_lowest_free_ones_below_the_limit() {
    let table = Table::new(40).unwrap();
    (0..40).for_each(|number| assert_eq!(table.add(descriptor(number)), Ok(number as u32)));
    assert_eq!(table.add(descriptor(0)), Err(Errno::MFILE));
    assert_eq!(table.take(33).map(|it| it.object.parts().0), Ok(33));
    assert_eq!((table.free(0), table.two_free()), (Ok(33), Err(Errno::MFILE)));
    assert_eq!(table.renumber(7, 8).map(|it| it.map(|it| it.object.parts().0)), Ok(Some(8)));
    assert_eq!(
        (table.get(8).map(|it| it.object.parts().0), table.get(7)),
        (Ok(7), Err(Errno::BADF))
    );
    assert_eq!((table.add(descriptor(9)), table.add(descriptor(9))), (Ok(7), Ok(33)));
    assert_eq!((0..41).filter(|_| table.take_any().is_some()).count(), 40);
    assert_eq!(table.count(), 0);
}

#[test]
fn a_number_that_has_become_another_descriptors_keeps_it() {
    let table = Table::new(2).unwrap();
    let [first, second] = [1, 2].map(descriptor);
    assert_eq!((table.add(first), table.take(0), table.add(second)), (Ok(0), Ok(first), Ok(0)));
    table.take_object(0, first.object);
    assert_eq!(table.get(0), Ok(second));
    table.take_object(0, second.object);
    table.take_object(1, second.object);
    assert_eq!((table.count(), table.free(0)), (0, Ok(0)));
}

#[test]
fn a_descriptor_is_held_back_only_if_it_passes_the_check() {
    let table = Table::new(2).unwrap();
    assert_eq!(table.add(descriptor(1)), Ok(0));
    assert_eq!(table.hold(0, |_| Err(Errno::PERM)), Err(Errno::PERM));
    assert_eq!(table.get(0), Ok(descriptor(1)));
    assert_eq!(table.hold(0, |_| Ok(())), Ok(descriptor(1)));
    assert_eq!((table.get(0), table.free(0)), (Err(Errno::BADF), Ok(1)));
}

#[test]
fn a_reserved_number_is_neither_free_nor_a_descriptor() {
    let table = Table::new(2).unwrap();
    assert_eq!(table.settle(0, None), Err(Errno::BADF));
    assert_eq!((table.reserve(), table.add(descriptor(7))), (Ok(0), Ok(1)));
    assert_eq!((table.reserve(), table.free(0)), (Err(Errno::MFILE), Err(Errno::MFILE)));
    let slot = Slot { descriptor: descriptor(9), name: None };
    assert_eq!((table.put(0, slot), table.reserve_at(0)), (Err(Errno::INVAL), Err(Errno::INVAL)));
    assert_eq!((table.get(0), table.renumber(1, 0)), (Err(Errno::BADF), Err(Errno::BADF)));
    assert_eq!((table.take(0).err(), table.count()), (Some(Errno::BADF), 1));
    assert_eq!(table.settle(0, Some(descriptor(8))), Ok(()));
    assert_eq!(table.get(0), Ok(descriptor(8)));
    assert_eq!((table.settle(0, None), table.take(0)), (Err(Errno::BADF), Ok(descriptor(8))));
    assert_eq!((table.reserve(), table.settle(0, None), table.free(0)), (Ok(0), Ok(()), Ok(0)));
}
