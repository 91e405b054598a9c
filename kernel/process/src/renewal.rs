//! Preopened directories after the file service has restarted without its state.
//!
//! Contract: handles of an earlier life of the service stay invalid; a program that uses one gets
//! `STALE`. But all that a program opens is below its preopened directories, so one whose name is
//! its path is opened again when a call finds it invalid. It must be the same directory, with the
//! same file system and number, or it stays invalid. The call is repeated if that does no harm; for
//! others it is not known whether they were done before the restart, so they fail once.

use crate::authority::open_directory;
use crate::errno::{Done, Errno, Halt};
use crate::object::Object;
use crate::process::Process;
use crate::system::{System, ask, ask_path};
use crate::table::Descriptor;
use abi::fs::{Op, Reply, Request, Stat, flag};

/// Returns whether a request can be made a second time, if the first one was perhaps executed.
fn can_repeat(request: &Request) -> bool {
    match Op::from_code(request.op) {
        Some(Op::Open) => request.flags & flag::EXCLUSIVE == 0,
        Some(Op::StatPath | Op::SetTimesPath | Op::Readlink) => true,
        _ => false,
    }
}

/// Opens the directory at `path` if it still is this one.
fn open_again(system: &mut dyn System, path: &[u8], node: (u64, u64)) -> Result<Option<u64>, Halt> {
    let root = system.root()?;
    if root.error != 0 {
        return Ok(None);
    }
    let opened = open_directory(system, root.handle, path);
    // Fails only if the service has restarted again.
    let _ = system.files(Request::new(Op::Close, root.handle), &mut []);
    let handle = match opened {
        Ok(handle) => handle,
        Err(Halt::Failed(_)) => return Ok(None),
        Err(stop) => return Err(stop),
    };
    let stat = ask(system, Request::new(Op::Stat, handle), &mut []);
    if stat.as_ref().is_ok_and(|reply| (reply.stat.device, reply.stat.node) == node) {
        return Ok(Some(handle));
    }
    let _ = system.files(Request::new(Op::Close, handle), &mut []);
    match stat {
        Err(stop @ Halt::Stop(_)) => Err(stop),
        _ => Ok(None),
    }
}

impl Process {
    /// Makes a request about a path below directory `fd`, whose handle is in the request.
    pub(crate) fn ask_below(
        &self,
        system: &mut dyn System,
        fd: u32,
        request: Request,
        bulk: &mut [u8],
    ) -> Result<Reply, Halt> {
        match ask_path(system, request, bulk) {
            Err(Halt::Failed(Errno::STALE)) => {
                let handle = self.renew(system, fd, request.handle)?.ok_or(Errno::STALE)?;
                if !can_repeat(&request) {
                    return Err(Errno::STALE.into());
                }
                ask_path(system, Request { handle, ..request }, bulk)
            }
            done => done,
        }
    }

    /// Returns metadata and flags of descriptor `fd`, which is this one.
    pub(crate) fn stat(
        &self,
        system: &mut dyn System,
        fd: u32,
        descriptor: &Descriptor,
    ) -> Result<(Stat, u16), Halt> {
        match (descriptor.object, descriptor.object.stat(system)) {
            (Object::File(old), Err(Halt::Failed(Errno::STALE))) => {
                let new = self.renew(system, fd, old)?.ok_or(Errno::STALE)?;
                Object::File(new).stat(system)
            }
            (_, done) => done,
        }
    }

    /// A call with these directories has failed, as the service has restarted. Opens them again,
    /// and fails.
    pub(crate) fn outlived(&self, system: &mut dyn System, directories: [u32; 2]) -> Done {
        for fd in directories {
            let handle = self.table.get(fd)?.file()?;
            self.renew(system, fd, handle)?;
        }
        Err(Errno::STALE.into())
    }

    /// Opens all preopened directories again whose handles have become invalid. Returns whether
    /// there were any.
    pub(crate) fn renew_all(&self, system: &mut dyn System) -> Result<bool, Halt> {
        let (mut from, mut any) = (0, false);
        while let Some(fd) = self.table.next_preopen(from) {
            from = fd.saturating_add(1);
            let Ok(handle) = self.table.get(fd).and_then(|it| it.file()) else { continue };
            match ask(system, Request::new(Op::Stat, handle), &mut []) {
                Err(Halt::Failed(Errno::STALE)) => {
                    any |= self.renew(system, fd, handle)?.is_some();
                }
                Err(stop @ Halt::Stop(_)) => return Err(stop),
                _ => {}
            }
        }
        Ok(any)
    }

    /// Opens the preopened directory `fd` again, whose handle `old` is of an earlier life of the
    /// service. Returns its new handle; `None` if it stays invalid.
    fn renew(&self, system: &mut dyn System, fd: u32, old: u64) -> Result<Option<u64>, Halt> {
        let Ok(name) = self.table.name(fd) else { return Ok(None) };
        let Some(node) = name.node else { return Ok(None) };
        let Some(new) = open_again(system, &name.text, node)? else { return Ok(None) };
        let changed = self.table.change(fd, |descriptor| {
            if descriptor.object != Object::File(old) {
                return Err(Errno::BADF);
            }
            descriptor.object = Object::File(new);
            Ok(())
        });
        if changed.is_ok() {
            return Ok(Some(new));
        }
        // Another thread was faster, or has closed it.
        let _ = system.files(Request::new(Op::Close, new), &mut []);
        let now = self.table.get(fd).and_then(|descriptor| descriptor.file());
        Ok(now.ok().filter(|&now| now != old))
    }
}
