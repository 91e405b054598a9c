//! A process for another kernel. One that runs on two kernels in turn passes its descriptors on as
//! bytes: the kernel whose turn ends saves them, the other one loads them. One that moves passes on
//! all its [`Parts`]. The bytes come from another kernel, so they may be anything.

use crate::begin::Limits;
use crate::errno::{Done, Errno};
use crate::process::Process;
use crate::reach::Reach;
use crate::system::System;
use crate::table::{Descriptor, Name, Slot, Table, copied};
use alloc::vec::Vec;

/// What a process consists of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Each NUL terminated.
    pub arguments: &'a [u8],
    /// Each NUL terminated.
    pub environment: &'a [u8],
    /// Limits of the processes that it starts.
    pub limits: Limits,
    /// It may signal any process.
    pub signals: bool,
    /// Rules of what it may reach by sockets, each NUL terminated; `None`: everything.
    pub net: Option<&'a [u8]>,
}

impl Process {
    /// Returns its parts besides its descriptors.
    pub fn parts(&self) -> Parts<'_> {
        Parts {
            arguments: self.arguments.bytes(),
            environment: self.environment.bytes(),
            limits: self.limits,
            signals: self.signals,
            net: self.reach.rules(),
        }
    }

    /// Makes a process of its parts and of a table that [`Table::save`] has made, with handles of
    /// its own for the objects there.
    pub fn of_parts(
        system: &mut dyn System,
        descriptors: u32,
        parts: &Parts<'_>,
        table: &[u8],
    ) -> Result<Process, Errno> {
        let mut process = Process::new(descriptors)?;
        process.arguments.add(parts.arguments)?;
        process.environment.add(parts.environment)?;
        (process.limits, process.signals) = (parts.limits, parts.signals);
        if let Some(rules) = parts.net {
            process.reach = Reach::of(rules)?;
        }
        let theirs = Table::new(descriptors)?;
        theirs.load(table)?;
        let done = process.adopt_all(system, &theirs);
        match done {
            Ok(()) => Ok(process),
            Err(halt) => {
                process.close_all(system);
                Err(halt.errno())
            }
        }
    }

    fn adopt_all(&self, system: &mut dyn System, theirs: &Table) -> Done {
        let mut all = Vec::new();
        all.try_reserve_exact(theirs.count()).map_err(|_| Errno::NOMEM)?;
        theirs.each(&mut |number, descriptor| all.push((number, descriptor)));
        for (number, descriptor) in all {
            let name = theirs.name(number).ok();
            let object = descriptor.object.adopt(system)?;
            let slot = Slot { descriptor: Descriptor { object, ..descriptor }, name };
            if let Err(why) = self.table.put(number, slot) {
                // Fails only if the service has restarted.
                let _ = object.close(system);
                return Err(why.into());
            }
        }
        Ok(())
    }
}

/// Words of a descriptor: number and length of the name; [`Descriptor::flags`]; handle; rights;
/// inheriting. The name follows, up to a multiple of 8 bytes, and with [`AT_PATH`] in the flags the
/// two words of its [`Name::node`]. A reserved number has [`RESERVED`] for flags, and no name.
const WORDS: usize = 5;
const AT_PATH: u64 = 1 << 33;
const RESERVED: u64 = 1 << 32;
const HEAD: usize = 8 * WORDS;
/// Bytes of a [`Name::node`].
const NODE: usize = 16;
/// Added to the length of a name: one of 0 bytes differs from none.
const NAMED: u64 = 1;

impl Table {
    /// Returns all descriptors as bytes, a multiple of 8.
    pub fn save(&self) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        let mut done = Ok(());
        self.each(&mut |number, descriptor| {
            let name = self.name(number).ok();
            let length = name.as_ref().map_or(0, |name| name.text.len() as u64 + NAMED);
            let node = name.as_ref().and_then(|name| name.node);
            let node = node.map(|(device, node)| [device, node]);
            let words = [
                u64::from(number) | length << 32,
                u64::from(descriptor.flags()) | node.map_or(0, |_| AT_PATH),
                descriptor.object.parts().0,
                descriptor.rights,
                descriptor.inheriting,
            ];
            let name = name.map(|name| name.text).unwrap_or_default();
            if bytes.try_reserve(HEAD + name.len() + 8 + NODE).is_err() {
                done = Err(Errno::NOMEM);
                return;
            }
            words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
            bytes.extend_from_slice(&name);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let node = node.iter().flatten();
            node.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        });
        self.each_reserved(&mut |number| match bytes.try_reserve(HEAD) {
            Ok(()) => {
                let words = [u64::from(number), RESERVED, 0, 0, 0];
                words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
            }
            Err(_) => done = Err(Errno::NOMEM),
        });
        done.map(|()| bytes)
    }

    /// Replaces all descriptors by those of [`Table::save`]. Meanwhile no thread uses the table.
    /// [`Errno::INVAL`]: these are no such bytes, and some descriptors are missing.
    pub fn load(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        self.clear();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(HEAD).ok_or(Errno::INVAL)?;
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(head.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().map_err(|_| Errno::INVAL)?);
            }
            let [first, flags, handle, rights, inheriting] = words;
            let (number, length) = (first as u32, (first >> 32) as usize);
            let length = length.checked_sub(NAMED as usize);
            let taken = length.unwrap_or(0).next_multiple_of(8);
            let (name, rest) = rest.split_at_checked(taken).ok_or(Errno::INVAL)?;
            let text = length.map(|length| copied(&name[..length])).transpose()?;
            let (node, rest) = match flags & AT_PATH {
                0 => (None, rest),
                _ => {
                    let (words, rest) = rest.split_at_checked(NODE).ok_or(Errno::INVAL)?;
                    let mut words = words.chunks_exact(8).map(|it| it.try_into());
                    let mut word = || words.next().and_then(Result::ok).map(u64::from_le_bytes);
                    (word().zip(word()), rest)
                }
            };
            let name = text.map(|text| Name { text, node });
            bytes = rest;
            if flags == RESERVED {
                self.reserve_at(number)?;
                continue;
            }
            let descriptor = Descriptor::of_words(handle, flags as u32, rights, inheriting);
            self.put(number, Slot { descriptor, name })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::polls::Realm;
    use std::vec;

    fn table() -> Table {
        let table = Table::new(100).unwrap();
        let names: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"/"), Some(b"/a folder")];
        for (number, name) in [0, 1, 40, 99].into_iter().zip(names) {
            let word = u64::from(number) + 7;
            let (kind, syncs) = (number as u8, u16::MAX);
            let object =
                Object::of_parts(word, if number == 40 { Realm::Sockets } else { Realm::Channels });
            let inheriting = word << 40;
            let is_null = number == 0;
            let descriptor = Descriptor { object, rights: !word, inheriting, kind, syncs, is_null };
            let node = (number == 40).then_some((1, word));
            let name = name.map(|name| Name { text: copied(name).unwrap(), node });
            table.put(number, Slot { descriptor, name }).unwrap();
        }
        table
    }

    #[test]
    fn a_table_is_loaded_as_it_was_saved_whatever_was_there_before() {
        let (from, to) = (table(), Table::new(100).unwrap());
        let old = Descriptor { syncs: 5, ..Descriptor::of_socket(1, 4, u64::MAX) };
        (0..50).for_each(|_| assert!(to.add(old).is_ok()));
        to.load(&from.save().unwrap()).unwrap();
        assert_eq!(to.count(), 4);
        for number in [0, 1, 40, 99] {
            assert_eq!(to.get(number), from.get(number));
            assert_eq!(to.name(number), from.name(number));
        }
        assert_eq!(Table::new(8).unwrap().save(), Ok(vec![]));
    }

    #[test]
    fn a_number_that_a_thread_has_reserved_stays_reserved() {
        let (from, to) = (table(), Table::new(100).unwrap());
        assert_eq!(from.reserve(), Ok(2));
        to.load(&from.save().unwrap()).unwrap();
        assert_eq!((to.count(), to.get(2), to.free(0)), (4, Err(Errno::BADF), Ok(3)));
        // Back in its kernel, it gets what it was reserved for.
        from.load(&to.save().unwrap()).unwrap();
        let descriptor = from.get(0).unwrap();
        assert_eq!((from.settle(2, Some(descriptor)), from.get(2)), (Ok(()), Ok(descriptor)));
    }

    #[test]
    fn bytes_of_another_kernel_are_refused_unless_they_are_a_table() {
        let good = table().save().unwrap();
        let to = Table::new(100).unwrap();
        for end in 1..good.len() {
            let is_whole = to.load(&good[..end]).is_ok();
            assert!(!is_whole || to.count() < 4, "cut at {end}");
        }
        for (at, bit) in (0..good.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let _ = to.load(&bad);
            assert!(to.count() <= 5);
        }
        let twice = [&good[..], &good[..]].concat();
        assert_eq!(to.load(&twice), Err(Errno::INVAL));
        assert_eq!(Table::new(50).unwrap().load(&good), Err(Errno::BADF), "beyond its limit");
    }
}
