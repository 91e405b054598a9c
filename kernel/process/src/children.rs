//! Functions of our own module: other processes.
//!
//! A child gets descriptors of the caller, with at most the caller's rights, and at most the
//! caller's limits. The handles in its start data are the caller's; the caller waits until the
//! child has duplicated them. The caller's other preopened directories go along as its authority:
//! the child's manifest may name directories within them ([`crate::authority`]).

use crate::begin::{Folders, Limits, PassedFile, Plan, encode, is_block, is_path};
use crate::ending::ends_process;
use crate::errno::{Done, Errno, Halt, Stop};
use crate::memory::{Bytes, GuestMemory, entry};
use crate::object::Object;
use crate::process::Process;
use crate::system::{System, ask_processes};
use crate::table::{Preopen, Table};
use crate::wasi::{filetype, rights};
use abi::process::{Listed, Op, Request, flag, signal};
use abi::program::{
    BEGIN_AUTHORITY, BEGIN_BYTES, BEGIN_DIRECTORY, BEGIN_FILES, BEGIN_RECORDS, Ended, Identity,
    InheritedFile, Spawn,
};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

type Block<'a> = Cow<'a, [u8]>;

/// The start data that a child may get: no more of the caller's memory is copied.
struct Budget(usize);

impl Budget {
    /// Returns a range of the program's memory.
    fn part<'a>(
        &mut self,
        memory: &'a Bytes<'_>,
        [at, length]: [u32; 2],
    ) -> Result<Block<'a>, Errno> {
        let block = memory.view(at, length, self.0)?;
        self.0 -= block.len();
        Ok(block)
    }

    /// Returns path, arguments and environment of a child, checked.
    fn blocks<'a>(&mut self, memory: &'a Bytes<'_>, what: &Spawn) -> Result<[Block<'a>; 3], Errno> {
        let (path, arguments) = (self.part(memory, what.path)?, self.part(memory, what.arguments)?);
        let environment = self.part(memory, what.environment)?;
        let make_sense = is_path(&path) && is_block(&arguments) && is_block(&environment);
        if make_sense { Ok([path, arguments, environment]) } else { Err(Errno::INVAL) }
    }

    /// Returns the descriptors that the caller passes on, each with the name of a preopened
    /// directory, which is empty for others.
    fn inherited<'a>(
        &mut self,
        memory: &'a Bytes<'_>,
        what: &Spawn,
    ) -> Result<Vec<(InheritedFile, Block<'a>)>, Errno> {
        let [list, count] = what.files;
        // One entry is reserved for the directory.
        if count as usize >= BEGIN_FILES {
            return Err(Errno::TOOBIG);
        }
        let mut all = Vec::new();
        all.try_reserve_exact(count as usize).map_err(|_| Errno::NOMEM)?;
        for index in 0..count {
            let size = size_of::<InheritedFile>() as u32;
            let file: InheritedFile = memory.load(entry(list, index, size)?)?;
            let name = match file.preopen {
                [_, 0] => Block::default(),
                place => self.part(memory, place)?,
            };
            all.push((file, name));
        }
        Ok(all)
    }
}

/// Returns a descriptor of the caller as the child gets it.
fn given<'a>(
    table: &Table,
    descriptor: u32,
    becomes: u32,
    name: &'a [u8],
) -> Result<PassedFile<'a>, Errno> {
    let is_path = table.is_at(descriptor, name);
    let descriptor = table.get(descriptor)?;
    if !name.is_empty() && descriptor.kind != filetype::DIRECTORY {
        return Err(Errno::NOTDIR);
    }
    Ok(PassedFile {
        object: descriptor.object,
        rights: descriptor.rights,
        inheriting: descriptor.inheriting,
        descriptor: becomes,
        preopen: (!name.is_empty()).then_some(Preopen { name, is_path }),
    })
}

/// Closes the ends of channels that were passed to a child of another kernel that does not start.
fn call_back(system: &mut dyn System, kernel: u16, files: &[PassedFile<'_>]) {
    for file in files {
        if let Object::End(end) = file.object {
            system.call_end_back(kernel, end);
        }
    }
}

/// Flag of `wait`.
const NO_HANG: u32 = 1;

impl Process {
    /// Starts a program.
    pub fn spawn(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        what: u32,
        pid: u32,
    ) -> Done {
        memory.check(pid, 4)?;
        let what: Spawn = memory.load(what)?;
        if what.flags & !u32::from(flag::NEW_GROUP) != 0 || what.reserved != 0 {
            return Err(Errno::INVAL.into());
        }
        let mut budget = Budget(BEGIN_BYTES);
        let blocks = budget.blocks(memory, &what)?;
        let [path, arguments, environment] = blocks.each_ref().map(|block| &block[..]);
        let inherited = budget.inherited(memory, &what)?;
        let (kernel, mut files) = self.placed(system, &what, (path, &inherited))?;
        self.name_at(system, kernel, &mut files, &inherited)?;
        let limits = Limits { memory: what.memory, descriptors: what.descriptors };
        let (limits, signals) = (limits.within(self.limits), self.signals);
        let (folders, files) = (Folders::Usual, &files[..]);
        let net = self.reach.rules();
        let plan = Plan { path, arguments, environment, limits, signals, net, folders, files };
        let mut beginning = encode(&plan).inspect_err(|_| call_back(system, kernel, files))?;
        let request = Request {
            kernel,
            flags: what.flags as u16,
            parent: system.pid(),
            group: what.group,
            length: beginning.len() as u32,
            ..Request::new(Op::Spawn)
        };
        match ask_processes(system, request, &mut beginning) {
            Ok(reply) => memory.store_u32(pid, reply.pid)?,
            Err(why) => {
                call_back(system, kernel, files);
                if why == Halt::Failed(Errno::STALE) {
                    // Whether the child was started is not known, but the next one can be.
                    self.renew_all(system)?;
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// Returns the kernel for the program at `path`, and the child's files.
    fn placed<'a>(
        &self,
        system: &mut dyn System,
        what: &Spawn,
        (path, inherited): (&[u8], &'a [(InheritedFile, Block<'_>)]),
    ) -> Result<(u16, Vec<PassedFile<'a>>), Halt> {
        let files = self.files(what, inherited)?;
        let directory = self.program_directory(what)?;
        match system.place(what.kernel, directory, path)?.map_err(Errno::from) {
            Err(Errno::STALE) => {
                // The directory is of an earlier life of the file service, as others may be.
                self.renew_all(system)?;
                let now = self.program_directory(what)?;
                if now == directory {
                    return Err(Errno::STALE.into());
                }
                let kernel = system.place(what.kernel, now, path)?.map_err(Errno::from)?;
                Ok((kernel, self.files(what, inherited)?))
            }
            placed => Ok((placed?, files)),
        }
    }

    /// Returns the handle of the directory that the program's path is relative to.
    fn program_directory(&self, what: &Spawn) -> Result<u64, Errno> {
        let directory = self.directory(what.directory, rights::PATH_OPEN)?;
        match directory.inheriting & rights::FD_READ {
            0 => Err(Errno::NOTCAPABLE),
            _ => directory.file(),
        }
    }

    /// Names the child's files as kernel `kernel` knows them. Ends of channels that leave this
    /// kernel are the caller's no more.
    fn name_at(
        &self,
        system: &mut dyn System,
        kernel: u16,
        files: &mut [PassedFile<'_>],
        inherited: &[(InheritedFile, Block<'_>)],
    ) -> Done {
        for at in 0..files.len() {
            let Some(file) = files.get_mut(at) else { break };
            let before = file.object;
            match before.at(system, kernel) {
                Ok(object) => file.object = object,
                Err(why) => {
                    call_back(system, kernel, files.get(..at).unwrap_or_default());
                    return Err(why);
                }
            }
            // The first one is the directory.
            let given = at.checked_sub(1).and_then(|at| inherited.get(at));
            if let (Object::End(_), Some((given, _))) = (before, given)
                && before != file.object
            {
                self.table.take_object(given.descriptor, before);
            }
        }
        Ok(())
    }

    /// Returns the files of the child, the program's directory first, and last the caller's own
    /// directories, as many as fit.
    fn files<'a>(
        &self,
        what: &Spawn,
        inherited: &'a [(InheritedFile, Block<'_>)],
    ) -> Result<Vec<PassedFile<'a>>, Errno> {
        let mut files = Vec::new();
        let most = (1 + inherited.len() + self.table.preopens()).min(BEGIN_RECORDS);
        files.try_reserve_exact(most).map_err(|_| Errno::NOMEM)?;
        files.push(given(&self.table, what.directory, BEGIN_DIRECTORY, &[])?);
        for (file, name) in inherited {
            files.push(given(&self.table, file.descriptor, file.becomes, name)?);
        }
        self.table.each_preopen(&mut |own| {
            let is_same = |file: &PassedFile<'_>| {
                (file.object, file.rights) == (own.object, own.rights)
                    && file.inheriting == own.inheriting
            };
            if files.len() < most && !files.iter().any(is_same) {
                files.push(PassedFile {
                    object: own.object,
                    rights: own.rights,
                    inheriting: own.inheriting,
                    descriptor: BEGIN_AUTHORITY,
                    preopen: None,
                });
            }
        });
        Ok(files)
    }

    /// Waits for the end of a child.
    pub fn wait(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        pid: u32,
        flags: u32,
        ended: u32,
    ) -> Done {
        if flags & !NO_HANG != 0 {
            return Err(Errno::INVAL.into());
        }
        memory.check(ended, size_of::<Ended>() as u32)?;
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
        memory.store(ended, how.as_bytes())?;
        Ok(())
    }

    /// Signals a process or a group; the table checks permission. `proc_raise` signals the caller.
    pub fn kill(
        &self,
        _memory: &mut GuestMemory<'_>,
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

    /// Moves a running process to another kernel; the table checks permission. Returns when it runs
    /// there.
    pub fn move_to(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        pid: u32,
        kernel: u32,
    ) -> Done {
        let kernel = u16::try_from(kernel).map_err(|_| Errno::INVAL)?;
        let flags = if self.signals { flag::ANY_PROCESS } else { 0 };
        let (pid, parent) = (pid.cast_signed(), system.pid());
        let request = Request { pid, kernel, parent, flags, ..Request::new(Op::Move) };
        ask_processes(system, request, &mut [])?;
        Ok(())
    }

    /// Does nothing: the program may move here.
    pub fn move_point(&self, _memory: &mut GuestMemory<'_>, _system: &mut dyn System) -> Done {
        Ok(())
    }

    /// Moves a process to a group.
    pub fn group(
        &self,
        _memory: &mut GuestMemory<'_>,
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
    pub fn who(&self, memory: &mut GuestMemory<'_>, system: &mut dyn System, what: u32) -> Done {
        memory.check(what, size_of::<Identity>() as u32)?;
        let (pid, mut room) = (system.pid().cast_signed(), [0; size_of::<Listed>()]);
        ask_processes(system, Request { pid, ..Request::new(Op::About) }, &mut room)?;
        let listed = Listed::read_from_bytes(&room).map_err(|_| Errno::IO)?;
        let Listed { pid, parent, group, kernel, .. } = listed;
        memory.store(what, Identity { pid, parent, group, kernel: kernel.into() }.as_bytes())?;
        Ok(())
    }

    /// Lists processes with pids above a number, as many as fit. An empty list is the end.
    pub fn list(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        above: u32,
        buffer: u32,
        bytes: u32,
        used: u32,
    ) -> Done {
        memory.check(used, 4)?;
        let one = size_of::<Listed>() as u32;
        if bytes < one {
            return Err(Errno::INVAL.into());
        }
        let pid = i32::try_from(above).unwrap_or(i32::MAX);
        let filled = memory.fill(buffer, bytes - bytes % one, |bulk| {
            let whole = bulk.len() - bulk.len() % one as usize;
            let bulk = &mut bulk[..whole];
            let room = bulk.len() as u32;
            let reply = ask_processes(system, Request { pid, ..Request::new(Op::List) }, bulk)?;
            Ok(reply.filled.min(room))
        })?;
        memory.store_u32(used, filled)?;
        Ok(())
    }
}
