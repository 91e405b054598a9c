//! Preopened directories after the file service has restarted without its state.
//!
//! Contract: handles of an earlier life of the service stay invalid; a program that uses one gets
//! `STALE`. But all that a program opens is below its preopened directories, so one whose name is
//! its path is opened again when a call finds it invalid. It must be the same directory: at the
//! same path, without links, on the same disk and with the same number there; or the root, which is
//! at no other place. Otherwise it stays invalid, as in file systems in memory, whose numbers begin
//! again. The call is repeated if that does no harm; for others it is not known whether they were
//! done before the restart, so they fail once.

use crate::errno::{Done, Errno, Halt};
use crate::object::Object;
use crate::process::Process;
use crate::system::{System, ask, ask_path};
use crate::table::{Descriptor, copied};
use abi::fs::{LASTING, Op, Reply, Request, Stat, flag, source};

/// Returns whether a request can be made a second time, if the first one was perhaps executed.
fn can_repeat(request: &Request) -> bool {
    match Op::from_code(request.op) {
        Some(Op::Open) => request.flags & flag::EXCLUSIVE == 0,
        Some(Op::StatPath | Op::SetTimesPath | Op::Readlink) => true,
        _ => false,
    }
}

/// Returns the names of a path.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

/// Returns whether a directory can be recognised in another life of the service.
fn is_lasting(path: &[u8], (device, _): (u64, u64)) -> bool {
    let disk = device.saturating_sub(LASTING);
    names(path).next().is_none() || (1..source::DEVICES).contains(&disk)
}

fn close(system: &mut dyn System, handle: u64) {
    // Fails only if the service has restarted again.
    let _ = Object::File(handle).close(system);
}

/// Opens what has this name in `directory`, which is closed, if it is a directory and no link.
fn step(system: &mut dyn System, directory: u64, name: &[u8]) -> Result<u64, Halt> {
    let mut bulk = copied(name)?;
    let request = Request {
        flags: flag::READ | flag::DIRECTORY,
        name: u16::try_from(bulk.len()).map_err(|_| Errno::NAMETOOLONG)?,
        ..Request::new(Op::Open, directory)
    };
    let opened = match name {
        b"." | b".." => Err(Errno::NOTCAPABLE.into()),
        _ => ask(system, request, &mut bulk).map(|reply| reply.handle),
    };
    close(system, directory);
    opened
}

/// Opens the directory at `path` if it still is this one.
fn open_again(system: &mut dyn System, path: &[u8], node: (u64, u64)) -> Result<u64, Halt> {
    if !is_lasting(path, node) {
        return Err(Errno::STALE.into());
    }
    let root = system.root()?;
    if root.error != 0 {
        return Err(Errno::from(root.errno()).into());
    }
    let mut handle = root.handle;
    for name in names(path) {
        handle = step(system, handle, name)?;
    }
    match ask(system, Request::new(Op::Stat, handle), &mut []) {
        Ok(Reply { stat, .. }) if (stat.device, stat.node) == node => Ok(handle),
        other => {
            close(system, handle);
            Err(other.err().unwrap_or(Errno::STALE.into()))
        }
    }
}

impl Process {
    /// Makes a request about a path below the preopened or other directory `fd`, which is this one.
    pub(crate) fn ask_below(
        &self,
        system: &mut dyn System,
        (fd, directory): (u32, &Descriptor),
        request: Request,
        bulk: &mut [u8],
    ) -> Result<Reply, Halt> {
        match ask_path(system, request, bulk) {
            Err(Halt::Failed(Errno::STALE)) => {
                let handle = self.renew(system, fd, directory)?.file()?;
                if !can_repeat(&request) {
                    return Err(Errno::STALE.into());
                }
                ask_path(system, Request { handle, ..request }, bulk)
            }
            done => done,
        }
    }

    /// Returns metadata and flags of descriptor `fd`, which is this one.
    pub(crate) fn stat_of_open(
        &self,
        system: &mut dyn System,
        fd: u32,
        descriptor: &Descriptor,
    ) -> Result<(Stat, u16), Halt> {
        match descriptor.object.stat(system) {
            Err(Halt::Failed(Errno::STALE)) => self.renew(system, fd, descriptor)?.stat(system),
            done => done,
        }
    }

    /// A call with two directories has failed, as the service has restarted: opens them again, and
    /// fails.
    pub(crate) fn renew_both(
        &self,
        system: &mut dyn System,
        directories: [(u32, &Descriptor); 2],
    ) -> Done {
        for (fd, directory) in directories {
            if let Err(stop @ Halt::Stop(_)) = self.renew(system, fd, directory) {
                return Err(stop);
            }
        }
        Err(Errno::STALE.into())
    }

    /// Opens all preopened directories again whose handles have become invalid.
    pub(crate) fn renew_all(&self, system: &mut dyn System) -> Done {
        let mut from = 0;
        while let Some(fd) = self.table.next_preopen(from) {
            from = fd.saturating_add(1);
            let Ok(descriptor) = self.table.get(fd) else { continue };
            if let Err(stop @ Halt::Stop(_)) = self.stat_of_open(system, fd, &descriptor) {
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Opens the preopened directory `fd` again, which is this one, with a handle of an earlier
    /// life of the service. Returns what it is then. `STALE`: it stays invalid.
    fn renew(&self, system: &mut dyn System, fd: u32, before: &Descriptor) -> Result<Object, Halt> {
        let name = self.table.name(fd).map_err(|_| Errno::STALE)?;
        let node = name.node.ok_or(Errno::STALE)?;
        let new = open_again(system, &name.text, node).map_err(|halt| match halt {
            Halt::Failed(_) => Errno::STALE.into(),
            stop => stop,
        })?;
        let renewed = self.table.renew(fd, (before, &name), new);
        if renewed != Some(Object::File(new)) {
            close(system, new);
        }
        Ok(renewed.ok_or(Errno::STALE)?)
    }
}
