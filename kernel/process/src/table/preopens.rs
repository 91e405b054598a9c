//! Preopened directories: descriptors with names.

use super::{Descriptor, Table, copied};
use crate::errno::Errno;
use crate::object::Object;
use alloc::boxed::Box;

/// A preopened directory, for a process that gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preopen<'a> {
    /// Name under which the program knows it.
    pub name: &'a [u8],
    /// The name is its path from the root.
    pub is_path: bool,
}

/// The name of a preopened directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Under which the program knows it.
    pub text: Box<[u8]>,
    /// If the name is its path from the root: what is there, by its file system and number.
    pub node: Option<(u64, u64)>,
}

impl Table {
    /// Returns a copy of the name of a preopened directory, or [`Errno::BADF`].
    pub fn name(&self, number: u32) -> Result<Name, Errno> {
        let names = self.names.lock();
        let Name { text, node } = names.get(&number).ok_or(Errno::BADF)?;
        Ok(Name { text: copied(text)?, node: *node })
    }

    /// Returns whether this is a preopened directory whose path from the root is `path`.
    pub fn is_at(&self, number: u32, path: &[u8]) -> bool {
        let names = self.names.lock();
        names.get(&number).is_some_and(|name| name.node.is_some() && *name.text == *path)
    }

    /// Returns how many preopened directories there are.
    pub fn preopens(&self) -> usize {
        self.names.lock().len()
    }

    /// Calls `visit` with each preopened directory. It must not use the table.
    pub fn each_preopen(&self, visit: &mut dyn FnMut(Descriptor)) {
        let names = self.names.lock();
        names.keys().filter_map(|&number| self.get(number).ok()).for_each(visit);
    }

    /// Gives a preopened directory another handle. Returns the one that it has then: another thread
    /// may have given it one. `None`: since the caller read this descriptor and this name, more has
    /// changed than the handle.
    pub(crate) fn renew(
        &self,
        number: u32,
        (before, name): (&Descriptor, &Name),
        handle: u64,
    ) -> Option<Object> {
        let names = self.changing();
        let place = self.place(number)?;
        let now = place.load().filter(|_| names.get(&number) == Some(name))?;
        if (Descriptor { object: before.object, ..now }) != *before {
            return None;
        }
        if now.object == before.object {
            place.store(Some(Descriptor { object: Object::File(handle), ..now }));
            return Some(Object::File(handle));
        }
        Some(now.object)
    }

    /// Returns the first preopened directory from number `from` on.
    pub(crate) fn next_preopen(&self, from: u32) -> Option<u32> {
        self.names.lock().range(from..).next().map(|(&number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Slot;
    use super::*;

    const FD: u32 = 5;
    const NEW: u64 = 9;

    fn directory(rights: u64) -> Descriptor {
        let object = Object::File(7);
        Descriptor { object, rights, inheriting: 3, kind: 3, syncs: 0, is_null: false }
    }

    fn name(text: &[u8]) -> Name {
        Name { text: copied(text).unwrap(), node: Some((17, 2)) }
    }

    /// Returns a table with a directory and another one, after `change`, and what renewing the
    /// first one returns.
    fn renewed(change: impl FnOnce(&Table)) -> (Table, Option<Object>) {
        let table = Table::new(32).unwrap();
        let slots = [(FD, directory(1), name(b"/tmp")), (FD + 1, directory(2), name(b"/"))];
        for (number, descriptor, name) in slots {
            table.put(number, Slot { descriptor, name: Some(name) }).unwrap();
        }
        change(&table);
        let done = table.renew(FD, (&directory(1), &name(b"/tmp")), NEW);
        (table, done)
    }

    #[test]
    fn each_change_of_a_table_is_counted() {
        const SLOT: fn() -> Slot = || Slot { descriptor: directory(3), name: None };
        let changes: [fn(&Table); 11] = [
            |table| assert!(table.renew(FD, (&directory(1), &name(b"/tmp")), NEW).is_some()),
            |table| assert!(table.change(FD, |_| Ok(())).is_ok()),
            |table| assert!(table.put(9, SLOT()).is_ok()),
            |table| assert!(table.add(directory(3)).is_ok()),
            |table| assert!(table.reserve().is_ok()),
            |table| assert!(table.reserve_at(9).is_ok()),
            |table| assert!(table.renumber(FD + 1, FD).is_ok()),
            |table| assert!(table.take(FD).is_ok()),
            |table| assert!(table.take_any().is_some()),
            |table| table.take_object(FD, directory(1).object),
            Table::clear,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut before = 0;
            let (table, _) = renewed(|table| before = table.changes());
            assert_ne!(before, table.changes(), "renew");
            before = table.changes();
            change(&table);
            assert_ne!(before, table.changes(), "change {at}");
        }
    }

    #[test]
    fn only_the_handle_may_have_changed() {
        let (table, done) = renewed(|_| {});
        assert_eq!(done, Some(Object::File(NEW)));
        assert_eq!(table.get(FD), Ok(Descriptor { object: Object::File(NEW), ..directory(1) }));
        // Another thread was faster.
        let (table, done) = renewed(|table| {
            assert!(table.renew(FD, (&directory(1), &name(b"/tmp")), 8).is_some());
        });
        assert_eq!((done, table.get(FD).unwrap().object), (Some(Object::File(8)), Object::File(8)));
        for change in [
            // Other rights; closed; another directory, with its name, or without.
            (|table| {
                let reduce = |it: &mut Descriptor| {
                    it.rights = 0;
                    Ok(())
                };
                table.change(FD, reduce).unwrap();
            }) as fn(&Table),
            |table| assert!(table.take(FD).is_ok()),
            |table| assert!(table.renumber(FD + 1, FD).is_ok()),
            |table| {
                table.take(FD).unwrap();
                table.put(FD, Slot { descriptor: directory(1), name: None }).unwrap();
            },
        ] {
            let (table, done) = renewed(change);
            assert_eq!(done, None);
            assert!(table.get(FD).is_err() || table.get(FD).unwrap().object == Object::File(7));
        }
    }
}
