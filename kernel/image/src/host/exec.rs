//! `pen exec`: runs a program on any kernel, with the host's terminal as its input, output and
//! standard error.
//!
//! ```text
//!   host --Data--> feeder --pipe--> 0 program 1,2 --pipes--> this thread --Out, Err--> host
//!        --Signal-> feeder --> its group                       its end: Exit
//! ```
//! When the stream ends before the program, the program's group gets HUP.

use super::folders::Held;
use super::images::Images;
use super::{NONSENSE, Stream, Trouble, file, full};
use abi::fs::{Errno as FileError, PATH, Poll, flag, ready};
use abi::host::{Exec, Exit, Kind, LARGEST};
use abi::process::{End, Errno, signal};
use abi::program::{ANY_KERNEL, ARGUMENTS};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::Lock;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_msg::Level;
use kernel_programs::processes::lacking;
use kernel_programs::processes::launch::{Launch, end_of, signal_group};
use kernel_programs::programs::refusal;
use kernel_services::files::with_files;
use kernel_services::host::Gone;
use kernel_services::session::Session;
use zerocopy::{FromBytes, IntoBytes};

/// Passed to the thread that feeds a program's input.
struct Feed {
    number: u64,
    pid: u32,
    input: u64,
    over: AtomicBool,
}

/// Feeds that their threads have not taken yet, by the numbers of their streams.
static FEEDS: Lock<BTreeMap<u64, Arc<Feed>>> =
    Lock::new(kernel_node::ranks::FEEDS, BTreeMap::new());

/// Handles that this kernel has open; dropping this closes them.
struct Handles<'a> {
    session: &'a Session,
    all: Vec<u64>,
}

impl Handles<'_> {
    fn keep(&mut self, handle: u64) -> u64 {
        self.all.push(handle);
        handle
    }

    fn pipe(&mut self) -> Result<(u64, u64), Trouble> {
        let (read, write) = with_files(self.session, |client| client.pipe(0)).map_err(file)?;
        Ok((self.keep(read), self.keep(write)))
    }

    fn close(&mut self, handle: u64) {
        self.all.retain(|&other| other != handle);
        // Fails only if the service has restarted; then there is no such handle.
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

/// Returns the total size of an [`Exec`]'s strings, or `None` if that exceeds the limits.
fn strings_of(head: &Exec) -> Option<usize> {
    let (path, arguments) = (head.path.get() as usize, head.arguments.get() as usize);
    let block = arguments.saturating_add(head.environment.get() as usize);
    (path <= PATH && block <= ARGUMENTS).then_some(path + block)
}

/// A parsed [`Exec`].
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
    /// Receives the strings that did not fit in the frame of an [`Exec`].
    pub(super) fn rest(&self, bytes: &mut Vec<u8>) -> Result<(), Trouble> {
        let (head, _) = Exec::read_from_prefix(bytes).map_err(|_| NONSENSE)?;
        let whole = size_of::<Exec>() + strings_of(&head).ok_or(NONSENSE)?;
        let mut more = Vec::new();
        while bytes.len() < whole {
            match self.receive(&mut more)? {
                Kind::Data if !more.is_empty() => bytes.extend_from_slice(&more),
                _ => return Err(NONSENSE),
            }
        }
        Ok(())
    }

    /// Runs the program that `bytes` describe, with `folders`, and relays its output until it ends.
    pub(super) fn exec(
        &self,
        bytes: &[u8],
        folders: &[Held],
        images: &mut Images<'_>,
    ) -> Result<(), Trouble> {
        let mut asked = Asked::parse(bytes).ok_or(NONSENSE)?;
        let sent = images.program();
        if asked.path.is_empty() {
            asked.path = sent.as_ref().ok_or(NONSENSE)?.as_bytes();
        }
        let mut handles = Handles { session: &self.session, all: Vec::new() };
        let (input, feed) = handles.pipe()?;
        let (output, out) = handles.pipe()?;
        let (errors, err) = handles.pipe()?;
        let root = with_files(&self.session, |client| client.root()).map_err(file)?;
        handles.keep(root);
        for folder in folders {
            handles.keep(folder.handle);
        }
        let pid = self.begin(&asked, [input, out, err, root], folders)?;
        images.remove();
        let given = folders.iter().map(|folder| folder.handle);
        [input, out, err].into_iter().chain(given).for_each(|handle| handles.close(handle));
        let feed =
            Arc::new(Feed { number: self.number, pid, input: feed, over: AtomicBool::new(false) });
        handles.all.retain(|&handle| handle != feed.input);
        self.feed(&feed);
        let relayed = self.relay([(output, Kind::Out), (errors, Kind::Err)]);
        if relayed.is_err() {
            signal_group(&self.session, pid, signal::HUP);
        }
        let (end, status) = end_of(&self.session, pid);
        feed.over.store(true, Ordering::Release);
        relayed?;
        if (end, status) != (End::Exit, 0)
            && let Some(why) = full::root(&self.session)
        {
            self.send(Kind::RootFull, why.as_bytes())?;
        }
        let exit = Exit { kind: (end as u32).into(), status: status.into() };
        Ok(self.send(Kind::Exit, exit.as_bytes())?)
    }

    fn begin(
        &self,
        asked: &Asked<'_>,
        handles: [u64; 4],
        folders: &[Held],
    ) -> Result<u32, Trouble> {
        let [input, out, err, root] = handles;
        let folders: Vec<(u64, &[u8])> =
            folders.iter().map(|folder| (folder.handle, folder.name.as_slice())).collect();
        let launch = Launch {
            kernel: asked.kernel,
            path: asked.path,
            arguments: asked.arguments,
            environment: asked.environment,
            streams: [input, out, err],
            root,
            folders: &folders,
        };
        launch.begin(&self.session).map_err(|why| self.explained(asked, why))
    }

    /// Returns why the program did not start.
    #[cold]
    fn explained(&self, asked: &Asked<'_>, why: Errno) -> Trouble {
        let text = match why {
            Errno::Noexec => self.refusal(asked).map(String::from),
            Errno::Nodev => lacking(&self.session, asked.path),
            _ => None,
        };
        let usual = || Trouble::Failed(kernel_programs::processes::explain(why));
        text.map_or_else(usual, Trouble::Explained)
    }

    /// Returns what is wrong with the program's image, if that is why it did not start.
    fn refusal(&self, asked: &Asked<'_>) -> Option<&'static str> {
        let domains = self.kernel.blob.domains();
        let is_asked = |number: usize| asked.kernel == ANY_KERNEL || asked.kernel == number as u32;
        let mut isas = (0..).zip(domains).filter(|(number, _)| is_asked(*number));
        isas.find_map(|(_, domain)| refusal(&self.session, asked.path, domain.isa))
    }

    /// Spawns the thread that feeds the program's input. If that fails, the input is empty.
    fn feed(&self, feed: &Arc<Feed>) {
        let before = FEEDS.lock().insert(self.number, feed.clone());
        drop(before);
        if self.kernel.spawn("feeder", None, feeder, self.number as usize).is_err() {
            kernel_node::log!("no memory for the thread of a program's input");
            let taken = FEEDS.lock().remove(&self.number);
            drop(taken);
            let _ = with_files(&self.session, |client| client.close(feed.input));
        }
    }

    /// Sends the program's output to the host, until all writers have closed it.
    fn relay(&self, mut pipes: [(u64, Kind); 2]) -> Result<(), Gone> {
        let mut open = 2;
        let mut bytes = vec![0; LARGEST];
        while open > 0 {
            let Ok(polled) = self.poll(&pipes[..open]) else { return Ok(()) };
            let ready = polled.iter().position(|poll| poll.got != 0 || poll.error != 0);
            let Some(at) = ready else { continue };
            let (handle, kind) = pipes[at];
            match with_files(&self.session, |client| client.read(handle, &mut bytes)) {
                Ok(count) if count > 0 => self.send(kind, &bytes[..count])?,
                _ => {
                    pipes.swap(at, open - 1);
                    open -= 1;
                }
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
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let taken = FEEDS.lock().remove(&(number as u64));
    let Some(feed) = taken else { return };
    let session = Session::at(kernel, Level(0));
    let stream = Stream { kernel, number: feed.number, session };
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
