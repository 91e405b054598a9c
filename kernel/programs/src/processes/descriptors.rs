//! The descriptors of the processes of this kernel, for the monitor and `/proc`.
//!
//! Contract: no service is asked, and no process waits. A process that opens and closes meanwhile
//! may be listed with some of each, and a handle may be closed when the caller looks at it.

use super::get;
use alloc::boxed::Box;
use alloc::vec::Vec;
use kernel_process::object::Object;
use kernel_process::table::Descriptor;
use kernel_process::wasi::filetype;

/// What a descriptor refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    /// With the name under which the program was given it, if it was.
    Directory(Option<Box<[u8]>>),
    Pipe,
    Terminal,
    /// A device other than a terminal, such as a disk.
    Device,
    /// A socket, by its handle.
    Socket(u64),
    /// An end of a channel, by its handle.
    End(u64),
}

/// A descriptor of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub pid: u32,
    pub number: u32,
    pub kind: Kind,
}

/// A descriptor of an end of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub pid: u32,
    /// The name of the process.
    pub name: Box<[u8]>,
    pub handle: u64,
}

/// Returns the descriptors of ends, or `None` without memory for the list.
pub fn ends() -> Option<Vec<Holding>> {
    let (all, mut found) = (all()?, Vec::new());
    let Some(processes) = get() else { return Some(found) };
    for life in processes.own() {
        for open in all.iter().filter(|open| open.pid == life.pid) {
            let Kind::End(handle) = open.kind else { continue };
            found.try_reserve(1).ok()?;
            let mut name = Vec::new();
            name.try_reserve(life.name().len()).ok()?;
            name.extend_from_slice(life.name());
            found.push(Holding { pid: life.pid, name: name.into(), handle });
        }
    }
    Some(found)
}

/// Returns all of them, or `None` without memory for the list.
pub fn all() -> Option<Vec<Open>> {
    let mut found = Vec::new();
    let Some(processes) = get() else { return Some(found) };
    for life in processes.own() {
        let Some(running) = life.running.get() else { continue };
        let (table, mut has_room) = (running.process.table(), true);
        table.each(&mut |number, descriptor| {
            has_room &= found.try_reserve(1).is_ok();
            if has_room {
                let kind = kind(&descriptor, || Some(table.name(number).ok()?.text));
                found.push(Open { pid: life.pid, number, kind });
            }
        });
        if !has_room {
            return None;
        }
    }
    Some(found)
}

fn kind(descriptor: &Descriptor, name: impl FnOnce() -> Option<Box<[u8]>>) -> Kind {
    match descriptor.object {
        Object::Socket(handle) => return Kind::Socket(handle),
        Object::End(handle) => return Kind::End(handle),
        Object::File(_) => {}
    }
    match descriptor.kind {
        filetype::DIRECTORY => Kind::Directory(name()),
        filetype::STREAM => Kind::Pipe,
        filetype::CHARACTER if !descriptor.has_positions() => Kind::Terminal,
        filetype::CHARACTER | filetype::BLOCK => Kind::Device,
        _ => Kind::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::fs::Stat;

    #[test]
    fn a_descriptor_is_of_the_kind_that_its_object_says() {
        let name: Box<[u8]> = b"/home".as_slice().into();
        let found = |descriptor| kind(&descriptor, || Some(name.clone()));
        let all = u64::MAX;
        let file = |kind, device| {
            found(Descriptor::of(1, &Stat { kind, device, ..Stat::default() }, all, all))
        };
        assert_eq!(found(Descriptor::of_end(5, all)), Kind::End(5));
        assert_eq!(found(Descriptor::of_socket(6, filetype::DATAGRAMS, all)), Kind::Socket(6));
        assert_eq!(file(filetype::DIRECTORY, 1), Kind::Directory(Some(name.clone())));
        assert_eq!(file(filetype::FILE, 1), Kind::File);
        assert_eq!(file(filetype::STREAM, 0), Kind::Pipe);
        assert_eq!(file(filetype::CHARACTER, 0), Kind::Terminal);
        assert_eq!(file(filetype::CHARACTER, 1), Kind::Device, "/dev/null");
        assert_eq!(file(filetype::BLOCK, 1), Kind::Device);
    }
}
