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
use crate::processes::launch::{Launch, end_of, signal_group};
use abi::fs::{Errno as FileError, Poll, flag, ready};
use abi::host::{Exec, Exit, Kind, LARGEST};
use abi::process::signal;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::Lock;
use core::sync::atomic::{AtomicBool, Ordering};
use drivers::streams::Id;
use kernel_msg::Level;
use zerocopy::{FromBytes, IntoBytes};

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
        let named: Vec<_> = names.iter().map(Vec::as_slice).collect();
        let given: Vec<_> = folders.roots.iter().copied().zip(named).collect();
        let pid = self.begin(&asked, [input, out, err, root], &given)?;
        [input, out, err].into_iter().for_each(|handle| handles.close(handle));
        let feed = Arc::new(Feed { id: self.id, pid, input: feed, over: AtomicBool::new(false) });
        handles.all.retain(|&handle| handle != feed.input);
        self.feed(&feed);
        let mut pipes = Vec::from([(output, Kind::Out), (errors, Kind::Err)]);
        pipes.extend(jobs.map(|jobs| (jobs, Kind::Job)));
        let relayed = self.relay(pipes);
        drop(folders);
        if relayed.is_err() {
            signal_group(&self.session, pid, signal::HUP);
        }
        let (end, status) = end_of(&self.session, pid);
        feed.over.store(true, Ordering::Release);
        relayed?;
        let exit = Exit { kind: (end as u32).into(), status: status.into() };
        Ok(self.send(Kind::Exit, exit.as_bytes())?)
    }

    fn begin(
        &self,
        asked: &Asked<'_>,
        handles: [u64; 4],
        folders: &[(u64, &[u8])],
    ) -> Result<u32, Trouble> {
        let [input, out, err, root] = handles;
        let launch = Launch {
            kernel: asked.kernel,
            path: asked.path,
            arguments: asked.arguments,
            environment: asked.environment,
            streams: [input, out, err],
            root,
            folders,
        };
        Ok(launch.begin(&self.session)?)
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
        with_files(&self.session, |client| client.poll(&mut polls, flag::WAIT))?;
        Ok(polls)
    }
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
                let number = u16::try_from(number).unwrap_or(signal::TERM);
                signal_group(&session, feed.pid, number);
            }
            _ => break,
        }
    }
    close(&session, &mut input);
    if !feed.over.load(Ordering::Acquire) {
        signal_group(&session, feed.pid, signal::HUP);
    }
}

fn close(session: &Session, input: &mut Option<u64>) {
    if let Some(handle) = input.take() {
        let _ = with_files(session, |client| client.close(handle));
    }
}
