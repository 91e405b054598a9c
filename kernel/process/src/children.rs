//! Functions of our own module: other processes.
//!
//! A child gets descriptors of the caller, with at most the caller's rights, and at most the
//! caller's limits. The handles in its start data are the caller's; the caller waits until the
//! child has duplicated them. The caller's other preopened directories go along as its authority:
//! the child's manifest may name directories within them ([`crate::authority`]).

use crate::begin::{Folders, Limits, PassedFile, Plan, encode, is_block, is_path};
use crate::ending::ends_process;
use crate::errno::{Done, Errno, Halt, Stop};
use crate::memory::{check, entry, load, piece, store, store_u32};
use crate::process::Process;
use crate::system::{System, ask_processes};
use crate::wasi::{filetype, rights};
use abi::process::{Listed, Op, Request, flag, signal};
use abi::program::{
    BEGIN_AUTHORITY, BEGIN_DIRECTORY, BEGIN_FILES, BEGIN_RECORDS, Ended, Identity, InheritedFile,
    Spawn,
};
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

/// Returns a range of the program's memory.
fn part(memory: &[u8], [at, length]: [u32; 2]) -> Result<&[u8], Errno> {
    let rest = memory.get(at as usize..).ok_or(Errno::FAULT)?;
    rest.get(..length as usize).ok_or(Errno::FAULT)
}

/// Returns arguments and environment of a child, checked.
fn blocks<'a>(memory: &'a [u8], what: &Spawn, path: &[u8]) -> Result<(&'a [u8], &'a [u8]), Errno> {
    let (arguments, environment) = (part(memory, what.arguments)?, part(memory, what.environment)?);
    let make_sense = is_path(path) && is_block(arguments) && is_block(environment);
    if make_sense { Ok((arguments, environment)) } else { Err(Errno::INVAL) }
}

/// Flag of `wait`.
const NO_HANG: u32 = 1;

impl Process {
    /// Starts a program.
    pub fn spawn(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        what: u32,
        pid: u32,
    ) -> Done {
        check(memory, pid, 4)?;
        let bytes: [u8; size_of::<Spawn>()] = load(memory, what)?;
        let what = Spawn::read_from_bytes(&bytes).map_err(|_| Errno::FAULT)?;
        if what.flags & !u32::from(flag::NEW_GROUP) != 0 || what.reserved != 0 {
            return Err(Errno::INVAL.into());
        }
        let directory = self.directory(what.directory, rights::PATH_OPEN)?;
        if directory.inheriting & rights::FD_READ == 0 {
            return Err(Errno::NOTCAPABLE.into());
        }
        let path = part(memory, what.path)?;
        let (arguments, environment) = blocks(memory, &what, path)?;
        let mut files = self.files(memory, &what)?;
        let kernel = system.place(what.kernel, directory.handle, path)?.map_err(Errno::from)?;
        for file in &mut files {
            file.handle = system.handle_at(kernel, file.handle)?.map_err(Errno::from)?;
        }
        let limits = Limits { memory: what.memory, descriptors: what.descriptors };
        let (limits, signals) = (limits.within(self.limits), self.signals);
        let (folders, files) = (Folders::Usual, &files[..]);
        let plan = Plan { path, arguments, environment, limits, signals, folders, files };
        let mut beginning = encode(&plan)?;
        let request = Request {
            kernel,
            flags: what.flags as u16,
            parent: system.pid(),
            group: what.group,
            length: beginning.len() as u32,
            ..Request::new(Op::Spawn)
        };
        let reply = ask_processes(system, request, &mut beginning)?;
        store_u32(memory, pid, reply.pid)?;
        Ok(())
    }

    /// Returns the files of the child, the program's directory first, and last the caller's own
    /// directories, as many as fit.
    fn files<'a>(&self, memory: &'a [u8], what: &Spawn) -> Result<Vec<PassedFile<'a>>, Errno> {
        let [list, count] = what.files;
        // One entry is reserved for the directory.
        if count as usize >= BEGIN_FILES {
            return Err(Errno::TOOBIG);
        }
        let mut files = Vec::new();
        files.try_reserve_exact(BEGIN_RECORDS).map_err(|_| Errno::NOMEM)?;
        let directory =
            InheritedFile { descriptor: what.directory, becomes: BEGIN_DIRECTORY, preopen: [0; 2] };
        files.push(self.given(memory, directory)?);
        for index in 0..count {
            let bytes: [u8; size_of::<InheritedFile>()] =
                load(memory, entry(list, index, size_of::<InheritedFile>() as u32)?)?;
            let file = InheritedFile::read_from_bytes(&bytes).map_err(|_| Errno::FAULT)?;
            files.push(self.given(memory, file)?);
        }
        for own in self.table.preopens() {
            let is_same = |file: &PassedFile<'_>| {
                (file.handle, file.rights) == (own.handle, own.rights)
                    && file.inheriting == own.inheriting
            };
            if files.len() < BEGIN_RECORDS && !files.iter().any(is_same) {
                files.push(PassedFile {
                    handle: own.handle,
                    rights: own.rights,
                    inheriting: own.inheriting,
                    descriptor: BEGIN_AUTHORITY,
                    name: None,
                });
            }
        }
        Ok(files)
    }

    /// Returns a descriptor of the caller as the child gets it.
    fn given<'a>(&self, memory: &'a [u8], file: InheritedFile) -> Result<PassedFile<'a>, Errno> {
        let descriptor = self.table.get(file.descriptor)?;
        let name = if file.preopen[1] == 0 { None } else { Some(part(memory, file.preopen)?) };
        if name.is_some() && descriptor.kind != filetype::DIRECTORY {
            return Err(Errno::NOTDIR);
        }
        Ok(PassedFile {
            handle: descriptor.handle,
            rights: descriptor.rights,
            inheriting: descriptor.inheriting,
            descriptor: file.becomes,
            name,
        })
    }

    /// Waits for the end of a child.
    pub fn wait(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        pid: u32,
        flags: u32,
        ended: u32,
    ) -> Done {
        if flags & !NO_HANG != 0 {
            return Err(Errno::INVAL.into());
        }
        check(memory, ended, size_of::<Ended>() as u32)?;
        let flags = if flags & NO_HANG != 0 { flag::NO_HANG } else { 0 };
        let parent = system.pid();
        let request = Request { pid: pid.cast_signed(), parent, flags, ..Request::new(Op::Wait) };
        let reply = ask_processes(system, request, &mut [])?;
        let how = Ended {
            pid: reply.pid,
            kind: reply.kind,
            status: reply.status,
            reserved: 0,
            cpu: reply.cpu,
            memory: reply.memory,
        };
        store(memory, ended, how.as_bytes())?;
        Ok(())
    }

    /// Signals a process or a group; the table checks permission. `proc_raise` signals the caller.
    pub fn kill(
        &mut self,
        _memory: &mut [u8],
        system: &mut dyn System,
        pid: u32,
        signal: u32,
    ) -> Done {
        let ends = ends_process(signal).ok_or(Errno::INVAL)?;
        if pid == system.pid() {
            let stop = Halt::Stop(Stop::Signal(signal as u16));
            return if ends { Err(stop) } else { Ok(()) };
        }
        self.signal(system, pid.cast_signed(), signal as u16)
    }

    /// Checks that the caller may signal some process of this group. Required before the group
    /// becomes a terminal's foreground group, which gets signals from the keyboard.
    pub(crate) fn reaches_group(&self, system: &mut dyn System, group: u32) -> Done {
        let pid = 0i32.checked_sub_unsigned(group).ok_or(Errno::INVAL)?;
        self.signal(system, pid, signal::NONE)
    }

    fn signal(&self, system: &mut dyn System, pid: i32, signal: u16) -> Done {
        let flags = if self.signals { flag::ANY_PROCESS } else { 0 };
        let parent = system.pid();
        let request = Request { pid, signal, parent, flags, ..Request::new(Op::Kill) };
        ask_processes(system, request, &mut [])?;
        Ok(())
    }

    /// Moves a process to a group.
    pub fn group(
        &mut self,
        _memory: &mut [u8],
        system: &mut dyn System,
        pid: u32,
        group: u32,
    ) -> Done {
        let pid = pid.cast_signed();
        if pid < 0 || group.cast_signed() < 0 {
            return Err(Errno::INVAL.into());
        }
        let parent = system.pid();
        let request = Request { pid, group, parent, ..Request::new(Op::Group) };
        ask_processes(system, request, &mut [])?;
        Ok(())
    }

    /// Returns the caller's ids, as the table has them now.
    pub fn who(&mut self, memory: &mut [u8], system: &mut dyn System, what: u32) -> Done {
        check(memory, what, size_of::<Identity>() as u32)?;
        let (pid, mut room) = (system.pid().cast_signed(), [0; size_of::<Listed>()]);
        ask_processes(system, Request { pid, ..Request::new(Op::About) }, &mut room)?;
        let listed = Listed::read_from_bytes(&room).map_err(|_| Errno::IO)?;
        let Listed { pid, parent, group, kernel, .. } = listed;
        store(memory, what, Identity { pid, parent, group, kernel: kernel.into() }.as_bytes())?;
        Ok(())
    }

    /// Lists processes with pids above a number, as many as fit. An empty list is the end.
    pub fn list(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        above: u32,
        buffer: u32,
        bytes: u32,
        used: u32,
    ) -> Done {
        check(memory, used, 4)?;
        let one = size_of::<Listed>() as u32;
        if bytes < one {
            return Err(Errno::INVAL.into());
        }
        let pid = i32::try_from(above).unwrap_or(i32::MAX);
        let bulk = piece(memory, buffer, bytes - bytes % one)?;
        let room = bulk.len() as u32;
        let reply = ask_processes(system, Request { pid, ..Request::new(Op::List) }, bulk)?;
        store_u32(memory, used, reply.filled.min(room))?;
        Ok(())
    }
}
