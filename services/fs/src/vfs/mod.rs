//! The service: handles, paths, mounts, pipes, waiting callers.
//!
//! Contract: that of `share::Service`. Every request with any bulk gets an answer, an error if it
//! is malformed. One step moves at most [`abi::fs::STEP`] bytes. A failed operation has changed
//! nothing.
//!
//! - [`handles`]   handles and what they refer to
//! - [`accounts`]  how many handles and pipes each process tree has
//! - [`walk`]      path resolution
//! - [`pipe`]      pipes
//! - [`terminal`]  terminals
//! - [`disks`]     I/O of file systems, and the kernels that drive the disks
//! - `late`        delayed wakes between kernels, for pipes with room or data
//! - [`listener`]  drivers or servers that wait for work
//! - [`servers`]   jobs of served file systems, and their servers
//! - [`devices`]   I/O without disks, for tests and tools; write-back
//! - `requests`    what a request does, and how it is answered
//! - `paths`, `opening`, `data`, `listing`, `polling`, `mounts`, `held`  the operations

pub mod accounts;
mod data;
pub mod devices;
pub mod disks;
pub mod handles;
mod held;
mod late;
pub mod listener;
mod listing;
mod mounts;
pub(crate) mod opening;
mod paths;
pub mod pipe;
mod polling;
mod requests;
pub mod servers;
#[cfg(test)]
pub mod slow;
pub mod terminal;
pub mod walk;

use crate::any::AnyFs;
use crate::filesystem::{self, FileSystem, Node, Stop};
use crate::ramfs::RamFs;
use abi::fs::{Errno, Op, Reply, Request};
use accounts::Resource;
use alloc::boxed::Box;
use alloc::vec::Vec;
use disks::Disk;
use handles::{Handles, Place, Target};
use late::Late;
use pipe::Pipe;
use share::{Answer, Effects, Event, Parked, Service, Shareable, Table, Token};
use terminal::Terminal;

/// Default budget of the root file system, in bytes.
pub const BUDGET: u64 = 8 * 1024 * 1024;
/// Maximum number of mounted file systems.
pub const MOUNTS: usize = 16;
/// Maximum number of keys under which callers are parked.
pub const WAITS: usize = 16_384;

/// What a caller can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A pipe has data, or no writer.
    Readable(u32),
    /// A pipe has room, or no reader.
    Writable(u32),
    /// A file system has this key ready.
    File(u32, u64),
}

/// Why an operation returns no reply, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Failed(Errno),
    Park(Key),
    /// The driver of a disk, or a server, waits for work and is recorded in [`listener`].
    Listen,
}

impl From<Errno> for Halt {
    fn from(error: Errno) -> Halt {
        Halt::Failed(error)
    }
}

type Result<T> = core::result::Result<T, Halt>;

#[derive(Debug)]
struct Mount {
    fs: AnyFs,
    /// The directory that it covers. `None` for the first one, for shown and for held ones.
    over: Option<Place>,
    /// Its path, as far as it is known. A shown one is found by this name.
    path: Vec<u8>,
    /// Whether it appears in the root directory by its name.
    is_shown: bool,
    /// Whether it has no path and is reached by handles only ([`held`]).
    is_held: bool,
    /// [`abi::fs::source`]; 0 if it was held and has ended.
    source: u64,
    /// The disk that it is on.
    disk: Option<Box<Disk>>,
}

/// A request being handled.
struct Call<'a> {
    now: u64,
    token: Token,
    request: &'a Request,
    bulk: &'a mut [u8],
    effects: &'a mut dyn Effects,
}

impl Call<'_> {
    /// Returns the wall-clock time, for the times of files.
    fn time_of_day(&self) -> u64 {
        self.effects.time_of_day(self.now)
    }

    /// Returns the name at the start of the bulk.
    fn name(&self) -> Result<&[u8]> {
        self.bulk.get(..usize::from(self.request.name)).ok_or(Halt::Failed(Errno::Inval))
    }

    /// Returns the other name, which follows it.
    fn other(&self) -> Result<&[u8]> {
        let from = usize::from(self.request.name);
        let range = from..from + usize::from(self.request.other);
        self.bulk.get(range).ok_or(Halt::Failed(Errno::Inval))
    }

    /// Returns the request's flags. Fails if any flag outside `known` is set.
    fn flags(&self, known: u16) -> Result<u16> {
        let flags = self.request.flags;
        if flags & !known == 0 { Ok(flags) } else { Err(Errno::Inval.into()) }
    }

    /// Returns the number of bytes of the bulk that the request is about.
    fn length(&self) -> usize {
        length(self.request, self.bulk.len())
    }
}

/// Returns the number of bytes of a bulk of `bulk` bytes that a request is about.
#[inline]
pub(crate) fn length(request: &Request, bulk: usize) -> usize {
    let length = usize::try_from(request.length).unwrap_or(usize::MAX);
    length.min(bulk).min(abi::fs::STEP)
}

/// Which file systems that may wait this step has used: they may have work to start after it.
#[derive(Clone, Copy, Debug, Default)]
struct Stirred {
    disks: bool,
    servers: bool,
}

/// The file service.
#[derive(Debug)]
pub struct Vfs {
    handles: Handles,
    mounts: Vec<Mount>,
    /// Index of the root mount.
    top: u32,
    pipes: Table<Pipe>,
    terminals: Table<Terminal>,
    /// Index of the terminal that `/dev/console` opens.
    console: Option<u32>,
    parked: Parked<Key>,
    late: Late,
    /// Latest time at which changes are written back.
    write_at: Option<u64>,
    stirred: Stirred,
    /// The caller of this step, and its time.
    asker: Token,
    now: u64,
    /// Counts the starts of the service.
    lives: u32,
}

const _: () = {
    const fn may_lie_in_an_arena<S: Shareable>() {}
    may_lie_in_an_arena::<Vfs>();
};

impl Vfs {
    /// Creates a service with a ramfs of `budget` bytes as root.
    pub fn with_budget(lives: u32, budget: u64) -> Vfs {
        Vfs::with_root(lives, AnyFs::Ram(Box::new(RamFs::new(budget))))
    }

    /// Creates a service with `fs` as root.
    pub fn with_root(lives: u32, fs: AnyFs) -> Vfs {
        Vfs {
            handles: Handles::new(lives),
            mounts: Vec::from([Mount {
                fs,
                over: None,
                path: Vec::new(),
                is_shown: false,
                is_held: false,
                source: 0,
                disk: None,
            }]),
            top: 0,
            pipes: Table::new(pipe::PIPES),
            terminals: Table::new(terminal::TERMINALS),
            console: None,
            parked: Parked::new(WAITS),
            late: Late::default(),
            write_at: None,
            stirred: Stirred::default(),
            asker: Token::default(),
            now: 0,
            lives,
        }
    }

    /// The same with the root on a disk, which is driven by requests.
    pub fn with_root_on(lives: u32, disk: u64, fs: AnyFs) -> Vfs {
        let mut vfs = Vfs::with_root(lives, fs);
        if let Some(root) = vfs.mounts.first_mut() {
            (root.disk, root.source) = (Some(Box::new(Disk::new(disk))), disk);
        }
        vfs
    }

    /// Returns the number of open handles and the number of parked callers.
    pub fn census(&self) -> (usize, usize) {
        (self.handles.count(), self.parked.count())
    }

    /// Returns the number of process trees and branches that have handles or pipes.
    pub fn accounts(&self) -> usize {
        self.handles.accounts.count()
    }

    /// Calls a node's file system.
    fn on<T>(
        &mut self,
        place: Place,
        ask: impl FnOnce(&mut AnyFs, Node) -> filesystem::Result<T>,
    ) -> Result<T> {
        let mount = self.mounts.get_mut(place.mount as usize).ok_or(Errno::Badf)?;
        match &mut mount.fs {
            AnyFs::Served(fs) => {
                self.stirred.servers = true;
                fs.begin(self.asker, self.now);
            }
            fs => self.stirred.disks |= fs.is_slow(),
        }
        ask(&mut mount.fs, place.node).map_err(|stop| match stop {
            Stop::Failed(error) => Halt::Failed(error),
            Stop::Wait(key) => Halt::Park(Key::File(place.mount, key)),
        })
    }

    /// Returns the root of the file system mounted over `place`, or `place` itself.
    fn over(&mut self, place: Place) -> Place {
        let covers = |mount: &Mount| mount.over == Some(place);
        match self.mounts.iter().position(covers) {
            Some(at) => Place { mount: at as u32, node: self.mounts[at].fs.root() },
            None => place,
        }
    }

    /// Returns the node that a handle refers to.
    fn node(&self, handle: u64) -> Result<Place> {
        match self.handles.get(handle)?.target {
            Target::Node(place) => Ok(place),
            _ => Err(Errno::Inval.into()),
        }
    }

    /// Returns the directory that a handle refers to.
    fn directory(&mut self, handle: u64) -> Result<Place> {
        let Target::Node(place) = self.handles.get(handle)?.target else {
            return Err(Errno::Notdir.into());
        };
        match self.on(place, |fs, node| fs.kind(node))? {
            filesystem::Kind::Directory => Ok(place),
            _ => Err(Errno::Notdir.into()),
        }
    }

    /// Closes a handle, and frees what is unreachable then.
    fn close(&mut self, handle: u64, effects: &mut dyn Effects) -> Result<()> {
        let (target, last) = self.handles.close(handle)?;
        match target {
            Target::Node(place) if last => self.on(place, |fs, node| {
                fs.release(node);
                Ok(())
            })?,
            Target::Node(_) => {}
            Target::Reader(at) | Target::Writer(at) => self.leave(at, target, last, effects),
            Target::Terminal(_) | Target::Screen(_) if last => self.leave_terminal(target, effects),
            Target::Terminal(_) | Target::Screen(_) => {}
        }
        Ok(())
    }

    /// A handle of a pipe is closed. Wakes its waiters, even if others have the same end open.
    fn leave(&mut self, at: u32, target: Target, last: bool, effects: &mut dyn Effects) {
        if let Some(pipe) = self.pipes.get_mut(at)
            && last
        {
            match target {
                Target::Writer(_) => pipe.writer = false,
                _ => pipe.reader = false,
            }
            if !pipe.reader && !pipe.writer {
                self.handles.accounts.release(pipe.account, Resource::Pipes);
                self.pipes.remove(at);
            }
        }
        self.parked.wake(Key::Readable(at), effects);
        self.parked.wake(Key::Writable(at), effects);
    }

    /// Wakes the drivers and servers for which there is work.
    fn call_listeners(&mut self, now: u64, effects: &mut dyn Effects) {
        let Stirred { disks, servers } = core::mem::take(&mut self.stirred);
        if disks {
            self.ask_disks(now, effects);
        }
        if servers {
            self.call_servers(now, effects);
        }
    }

    /// Wakes the callers whose keys have become ready in the file systems.
    fn wake_ready(&mut self, effects: &mut dyn Effects) {
        for at in 0..self.mounts.len() {
            while let Some(key) = self.mounts[at].fs.ready() {
                self.parked.wake(Key::File(at as u32, key), effects);
            }
        }
    }
}

impl Service for Vfs {
    type Request = Request;
    type Reply = Reply;

    const NAME: &'static str = abi::service::FS.name;

    fn start(lives: u32) -> Vfs {
        Vfs::with_budget(lives, BUDGET)
    }

    #[inline]
    fn sent(request: &Request, bulk: usize) -> usize {
        request.sent(bulk)
    }

    #[inline]
    fn filled(reply: &Reply) -> usize {
        reply.filled as usize
    }

    /// Only reads are answered by [`Effects::give`].
    #[inline]
    fn given(request: &Request, length: usize) -> Option<Reply> {
        let is_read = request.op == Op::Read as u16;
        let value = length as u64;
        is_read.then(|| Reply { value, filled: length as u32, ..Reply::default() })
    }

    fn step(
        &mut self,
        now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        let mut reply = Reply::default();
        self.step_into(now, event, effects, &mut reply).map(|()| reply)
    }

    fn step_into(
        &mut self,
        now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
        reply: &mut Reply,
    ) -> Answer<()> {
        let again = matches!(event, Event::Again { .. });
        let answer = match event {
            Event::Request { token, request, bulk } | Event::Again { token, request, bulk } => {
                self.parked.forget(token);
                self.answer(again, Call { now, token, request, bulk, effects }, reply)
            }
            Event::Cancel(token) => {
                self.parked.forget(token);
                self.deafen(|listener| listener == token);
                self.forget_said(|asker| asker == token);
                Answer::NoReply
            }
            Event::Gone(kernel, epoch) => {
                self.parked.gone(kernel, epoch);
                self.take_back(kernel, epoch);
                self.servers_gone(kernel, epoch, effects);
                let mut from = 0;
                while let Some((handle, next)) = self.handles.owned(kernel.0, epoch.0, from) {
                    // Cannot fail: the handle has just been found.
                    let _ = self.close(handle, effects);
                    from = next;
                }
                Answer::NoReply
            }
            Event::Timer => {
                let is_for_wakes = self.wake_late(now, effects);
                if !is_for_wakes || self.write_at.is_some_and(|at| at <= now) {
                    self.write_back(now);
                }
                Answer::NoReply
            }
            Event::Device => Answer::NoReply,
        };
        // Other steps do not touch the disks' state: its pages may be with another kernel.
        if self.stirred.disks || self.stirred.servers {
            self.remember_to_write(now, effects);
            self.call_listeners(now, effects);
            self.wake_ready(effects);
        }
        self.time_late(effects);
        answer
    }
}
