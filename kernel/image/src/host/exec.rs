//! `pen exec`: a program of this chip, on any kernel, with the host's terminal as its input,
//! output and errors.
//!
//! ```text
//!   host --Data--> feeder --pipe--> 0 program 1,2 --pipes--> this thread --Out, Err--> host
//!        --Signal-> feeder --> its group                       its end: Exit
//! ```
//! A host that goes away hangs up: the program's group gets HUP.

use super::{NONSENSE, Stream, Trouble};
use crate::devices::streams::Gone;
use crate::monitor::files::{explain, with_files};
use crate::monitor::{Failure, Session};
use crate::processes::{self, with_table};
use crate::services::Patience;
use ::processes::client::{Ended, Spawn};
use abi::fs::{Errno as FileError, Op, Poll, Request, flag, ready};
use abi::host::{Exec, Exit, Kind, LARGEST};
use abi::process::{End, Errno, flag as process_flag, signal};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::Lock;
use core::sync::atomic::{AtomicBool, Ordering};
use drivers::streams::Id;
use kernel_msg::Level;
use kernel_process::begin::{Given, Plan, encode};
use kernel_process::wasi::rights;
use zerocopy::{FromBytes, IntoBytes};

/// How long a process table that began anew may take to hear of what runs.
const HEARSAY_NS: u64 = 2_000_000_000;

/// What the feeder of a program's input has to know.
struct Feed {
    id: Id,
    pid: u32,
    input: u64,
    over: AtomicBool,
}

/// Feeders, by their streams' numbers.
static FEEDS: Lock<BTreeMap<usize, Arc<Feed>>> = Lock::new(crate::ranks::FEEDS, BTreeMap::new());

/// Handles of this kernel, closed when they are dropped.
pub(super) struct Handles<'a> {
    session: &'a Session,
    pub(super) all: Vec<u64>,
}

impl Handles<'_> {
    pub(super) fn keep(&mut self, handle: u64) -> u64 {
        self.all.push(handle);
        handle
    }

    pub(super) fn pipe(&mut self) -> Result<(u64, u64), Trouble> {
        let (read, write) = with_files(self.session, |client| client.pipe(0)).map_err(file)?;
        Ok((self.keep(read), self.keep(write)))
    }

    pub(super) fn close(&mut self, handle: u64) {
        self.all.retain(|&other| other != handle);
        // It is ours; if the service began anew it is gone anyway.
        let _ = with_files(self.session, |client| client.close(handle));
    }
}

impl Drop for Handles<'_> {
    fn drop(&mut self) {
        for &handle in &self.all {
            let _ = with_files(self.session, |client| client.close(handle));
        }
    }
}

pub(super) fn file(why: FileError) -> Trouble {
    Trouble::Failed(Failure::Failed(explain(why)))
}

fn process(why: Errno) -> Trouble {
    Trouble::Failed(processes::explain(why))
}

/// What the host asked for, in pieces.
struct Asked<'a> {
    kernel: u32,
    path: &'a [u8],
    arguments: &'a [u8],
    environment: &'a [u8],
}

impl<'a> Asked<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Asked<'a>> {
        let (head, rest) = Exec::read_from_prefix(bytes).ok()?;
        let (path, rest) = rest.split_at_checked(head.path.get() as usize)?;
        let (arguments, rest) = rest.split_at_checked(head.arguments.get() as usize)?;
        let (environment, rest) = rest.split_at_checked(head.environment.get() as usize)?;
        let asked = Asked { kernel: head.kernel.get(), path, arguments, environment };
        rest.is_empty().then_some(asked)
    }
}

impl Stream {
    /// Runs what `bytes` ask for.
    pub(super) fn exec(&self, bytes: &[u8], names: &[Vec<u8>]) -> Result<(), Trouble> {
        let asked = Asked::parse(bytes).ok_or(NONSENSE)?;
        let mut handles = Handles { session: &self.session, all: Vec::new() };
        let (input, feed) = handles.pipe()?;
        let (output, out) = handles.pipe()?;
        let (errors, err) = handles.pipe()?;
        let root = with_files(&self.session, |client| client.root()).map_err(file)?;
        handles.keep(root);
        let (jobs, folders) = self.folders(names, &mut handles)?;
        let pid = self.begin(&asked, [input, out, err, root], names, &folders.roots)?;
        [input, out, err].into_iter().for_each(|handle| handles.close(handle));
        let feed = Arc::new(Feed { id: self.id, pid, input: feed, over: AtomicBool::new(false) });
        handles.all.retain(|&handle| handle != feed.input);
        self.feed(&feed);
        let mut pipes = Vec::from([(output, Kind::Out), (errors, Kind::Err)]);
        pipes.extend(jobs.map(|jobs| (jobs, Kind::Job)));
        let relayed = self.relay(pipes);
        drop(folders);
        if relayed.is_err() {
            hang_up(&self.session, pid);
        }
        let (end, status) = self.wait(pid);
        feed.over.store(true, Ordering::Release);
        relayed?;
        let exit = Exit { kind: (end as u32).into(), status: status.into() };
        Ok(self.send(Kind::Exit, exit.as_bytes())?)
    }

    /// How it ended. A table that began anew hears of what still runs a moment later; what it does
    /// not hear of was lost with its kernel.
    fn wait(&self, pid: u32) -> (End, u32) {
        let mut deadline = None;
        loop {
            match with_table(&self.session, &Patience::ENDLESS, |t| t.wait(0, pid as i32)) {
                Ok(Ended { end, status, .. }) => return (end, status),
                Err(_) => {
                    let now = arch::time::soc_time();
                    if now > *deadline.get_or_insert(now + HEARSAY_NS) {
                        return (End::Lost, 0);
                    }
                    self.kernel.scheduler.sleep_until(now + HEARSAY_NS / 20);
                }
            }
        }
    }

    fn begin(
        &self,
        asked: &Asked<'_>,
        handles: [u64; 4],
        names: &[Vec<u8>],
        roots: &[u64],
    ) -> Result<u32, Trouble> {
        let [input, out, err, root] = handles;
        let stream = |descriptor, handle, rights| Given {
            handle,
            rights,
            inheriting: 0,
            descriptor,
            name: None,
        };
        let directory = |descriptor, handle, name| Given {
            handle,
            rights: rights::DIRECTORY,
            inheriting: rights::INHERITING,
            descriptor,
            name: Some(name),
        };
        let mut files = Vec::from([
            stream(0, input, rights::STREAM),
            stream(1, out, rights::STREAM),
            stream(2, err, rights::STREAM),
            directory(3, root, b"/"),
        ]);
        let folders = (4..).zip(roots.iter().zip(names));
        files.extend(folders.map(|(at, (&root, name))| directory(at, root, name.as_slice())));
        let plan = Plan {
            path: asked.path,
            arguments: asked.arguments,
            environment: asked.environment,
            memory: 0,
            files: &files,
        };
        let beginning = encode(&plan).map_err(|why| match why {
            kernel_process::Errno::TOOBIG => process(Errno::Toobig),
            _ => process(Errno::Inval),
        })?;
        let kernel = processes::place(self.kernel, asked.kernel).map_err(process)?;
        let flags = process_flag::NEW_GROUP | process_flag::WATCHED;
        let spawn = Spawn { kernel, parent: 0, group: 0, flags, beginning: &beginning };
        with_table(&self.session, &Patience::ENDLESS, |t| t.spawn(spawn)).map_err(process)
    }

    /// A thread that brings input. Without one the program finds its input's end.
    fn feed(&self, feed: &Arc<Feed>) {
        let before = FEEDS.lock().insert(self.id.number(), feed.clone());
        drop(before);
        if self.kernel.spawn("feeder", None, feeder, self.id.number()).is_err() {
            crate::log!("no memory for a thread that brings a program its input");
            let taken = FEEDS.lock().remove(&self.id.number());
            drop(taken);
            let _ = with_files(&self.session, |client| client.close(feed.input));
        }
    }

    /// What the program writes, until nobody can write any more.
    fn relay(&self, mut pipes: Vec<(u64, Kind)>) -> Result<(), Gone> {
        let mut bytes = vec![0; LARGEST];
        // What is to be done for a program that has ended is nobody's concern.
        while pipes.iter().any(|(_, kind)| *kind != Kind::Job) {
            let Ok(polled) = self.poll(&pipes) else { return Ok(()) };
            let ready = polled.iter().position(|poll| poll.got != 0 || poll.error != 0);
            let Some(at) = ready else { continue };
            let (handle, kind) = pipes[at];
            match with_files(&self.session, |client| client.read(handle, &mut bytes)) {
                Ok(count) if count > 0 => self.send(kind, &bytes[..count])?,
                _ => drop(pipes.remove(at)),
            }
        }
        Ok(())
    }

    fn poll(&self, pipes: &[(u64, Kind)]) -> Result<Vec<Poll>, FileError> {
        let one =
            |&(handle, _): &(u64, Kind)| Poll { handle, want: ready::READ, ..Poll::default() };
        let mut polls: Vec<Poll> = pipes.iter().map(one).collect();
        let bytes = size_of_val(&polls[..]) as u64;
        let request = Request { flags: flag::WAIT, length: bytes, ..Request::new(Op::Poll, 0) };
        let fs = &self.kernel.services.fs;
        let reply = fs.ask(&self.session, request, polls.as_mut_slice().as_mut_bytes());
        match reply {
            Ok(reply) if reply.error == 0 => Ok(polls),
            Ok(reply) => Err(reply.errno()),
            Err(_) => Err(FileError::Io),
        }
    }
}

/// The host is gone.
fn hang_up(session: &Session, pid: u32) {
    // A group that has ended needs no signal.
    let _ = with_table(session, &Patience::ENDLESS, |t| t.kill(0, -(pid as i32), signal::HUP));
}

fn feeder(number: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let taken = FEEDS.lock().remove(&number);
    let Some(feed) = taken else { return };
    let session = Session::at(kernel, Level(0));
    let stream = Stream { kernel, id: feed.id, session };
    let mut input = Some(feed.input);
    let mut bytes = Vec::new();
    loop {
        match stream.receive(&mut bytes) {
            Ok(Kind::Data) => {
                let Some(handle) = input else { continue };
                if with_files(&session, |client| client.write_all(handle, &bytes)).is_err() {
                    close(&session, &mut input);
                }
            }
            Ok(Kind::End) => close(&session, &mut input),
            Ok(Kind::Said) => super::folders::said(&session, &bytes),
            Ok(Kind::Signal) => {
                let number = <[u8; 4]>::try_from(&bytes[..]).map_or(0, u32::from_le_bytes);
                let group = -(feed.pid as i32);
                let _ = with_table(&session, &Patience::ENDLESS, |table| {
                    table.kill(0, group, u16::try_from(number).unwrap_or(signal::TERM))
                });
            }
            _ => break,
        }
    }
    close(&session, &mut input);
    if !feed.over.load(Ordering::Acquire) {
        hang_up(&session, feed.pid);
    }
}

fn close(session: &Session, input: &mut Option<u64>) {
    if let Some(handle) = input.take() {
        let _ = with_files(session, |client| client.close(handle));
    }
}
