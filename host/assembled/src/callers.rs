//! What programs would do: threads that make requests and check every answer.
//!
//! A kernel that dies takes with it the state of a service if it executed one of its steps or held
//! a page that no other kernel has. The service then starts again, at most once for each death: its
//! files are gone, and requests fail. Nothing else may fail, and a file that is there has what was
//! written to it.

use crate::history;
use crate::processes;
use crate::report::Count;
use crate::turn::control;
use crate::workloads::{self, Request, Workload};
use ::processes::client::Spawn;
use abi::boot::MAX_DOMAINS;
use abi::fs::{Errno, flag};
use abi::process::{End, Errno as ProcessErrno};
use base::id::DomainId;
use base::prng::Prng;
use fs::client::Client;
use kernel_msg::Level;
use kernel_node::memory::FRAMES;
use kernel_node::movable;
use kernel_platform::peers::Procedure;
use kernel_services::files::with_files;
use kernel_services::kernel::{self, Kernel};
use kernel_services::session::Session;
use net::check::Wrong;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Callers of a kernel without a workload.
const COUNT: u32 = 4;
/// Requests, or groups of them, that a caller makes at most.
const ROUNDS: usize = 14;
/// Longest write.
const LONGEST: u64 = 6000;
/// Pages that a caller takes at a time.
const PIECE: u64 = 100;
/// Pages that it leaves: fewer than the number below which a kernel asks for a block.
const KEPT: usize = 1200;

/// How often a caller looks for what another kernel does, once in [`LOOK_NS`]. Not a time, which
/// passes while its own kernel is stopped.
const LOOKS: u64 = 4000;
const LOOK_NS: u64 = 100_000;

/// Services that callers use.
const FS: usize = 0;
const NET: usize = 1;
const PROCESSES: usize = 2;
const SERVICES: usize = 3;

/// The body of a caller's thread.
pub fn caller(index: usize) {
    let Some(kernel) = kernel::get() else { return };
    let seed = u64::from(kernel.me.0) << 32 | u64::from(kernel.epoch.0) << 16 | index as u64;
    let mut caller = Caller {
        session: Session::at(kernel, Level(0)),
        random: Prng::new((control().random() ^ seed) | 1),
        index: index as u32,
        name: format!("d{}e{}c{index}", kernel.me.0, kernel.epoch.0),
        files: BTreeMap::new(),
        lives: lives(kernel),
        called: [None; MAX_DOMAINS],
        started: [None; MAX_DOMAINS],
        talked: [None; MAX_DOMAINS],
        workload: workloads::current(),
    };
    if caller.workload.is_some() {
        // Then all kernels serve.
        caller.wait_until(|| control().doors[..2].iter().all(|door| door.get().is_some()));
    }
    control().cores[kernel.me.index()].begin();
    let pool = || kernel.balloons.as_ref().map_or(0, |balloons| balloons.pool(kernel));
    for round in 0..ROUNDS {
        let before = pool();
        let Some(request) = caller.request(round) else { break };
        caller.make(request);
        if index == 0 {
            control().counts.add(Count::BlocksMoved, before.abs_diff(pool()) as u64);
        }
    }
    caller.has_no_ends();
    if let Err(violation) = kernel.audit() {
        panic!("the page table violates an invariant: {violation:?}");
    }
    control().note(seed);
    control().cores[kernel.me.index()].finished.fetch_add(1, Relaxed);
}

/// Returns the number of callers of each kernel.
pub fn count_of_kernel() -> u32 {
    workloads::current().map_or(COUNT, |_| 1)
}

/// Returns how often kernels have died.
pub fn deaths(kernel: &Kernel) -> u64 {
    (0..kernel.blob.domains().len() as u8).map(|d| kernel.soc.deaths(DomainId(d))).sum()
}

/// Returns how often the services that callers use have started. One that another kernel executes
/// starts again with its kernel; a shared one starts with its first request.
fn lives(kernel: &Kernel) -> [u32; SERVICES] {
    let services = &kernel.services;
    let found = [services.fs.lives(), services.net.lives(), services.processes.lives()];
    // After the lives: a death may follow, and then a loss.
    let most = 1 + deaths(kernel) as u32;
    let lives = found.map(|lives| lives.unwrap_or(most));
    assert!(lives.iter().all(|&lives| lives <= most), "{lives:?} lives after {most} - 1 deaths");
    lives
}

pub fn count(what: Count) {
    control().counts.add(what, 1);
}

/// A caller's thread.
pub struct Caller {
    pub session: Session,
    pub random: Prng,
    /// Its number in its kernel.
    pub index: u32,
    name: String,
    files: BTreeMap<String, Known>,
    /// [`lives`] when it last looked.
    lives: [u32; SERVICES],
    /// For each kernel, the epoch in which it last answered a call.
    called: [Option<u64>; MAX_DOMAINS],
    /// And its epoch and the table's life when it last ran a process.
    started: [Option<(u64, u32)>; MAX_DOMAINS],
    /// And the epoch in which its server last talked to this caller.
    pub talked: [Option<u16>; MAX_DOMAINS],
    /// What it does, unless that is random.
    pub workload: Option<&'static Workload>,
}

/// What is known of a file.
#[derive(Default)]
struct Known {
    /// It has these contents, if it is there.
    contents: Option<Vec<u8>>,
    /// Or a part of one of these, whose write was interrupted, from their start.
    parts: Vec<Vec<u8>>,
    /// It may be gone.
    is_unsure: bool,
}

impl Known {
    fn fits(&self, found: &[u8]) -> bool {
        self.contents.as_deref() == Some(found)
            || self.parts.iter().any(|part| part.starts_with(found))
    }
}

impl Caller {
    pub fn kernel(&self) -> &'static Kernel {
        self.session.kernel
    }

    /// Returns what the history calls it.
    pub fn known_as(&self) -> history::Caller {
        history::Caller::new((self.kernel().me.0, self.kernel().epoch.0), self.index)
    }

    /// Returns the kernel that a request is for. In a workload that is the other one.
    pub fn some_kernel(&mut self) -> DomainId {
        let kernel = self.kernel();
        match self.workload {
            Some(_) => kernel.others().next().expect("the board has two kernels"),
            None => DomainId(self.random.below(kernel.blob.domains().len() as u64) as u8),
        }
    }

    /// Sleeps until `is_done`. Returns false if that takes too long.
    pub fn wait_until(&self, is_done: impl Fn() -> bool) -> bool {
        for _ in 0..LOOKS {
            if is_done() {
                return true;
            }
            self.kernel().scheduler.sleep_until(arch::time::soc_time() + LOOK_NS);
        }
        false
    }

    fn request(&mut self, round: usize) -> Option<Request> {
        match self.workload {
            Some(workload) => workload.requests.get(round).copied(),
            None => Some(Request::random(&mut self.random)),
        }
    }

    fn make(&mut self, request: Request) {
        match request {
            Request::Write => self.write(),
            Request::Read => self.read(),
            Request::Remove => self.remove(),
            Request::Pipe => self.pipe(),
            Request::Sockets => self.sockets(),
            Request::Call => self.call(),
            Request::Process => self.process(),
            Request::Memory => self.memory(),
            Request::Share => self.share(),
            Request::Talk => self.talk(),
            Request::Sleep => self.sleep(),
            Request::Byte => self.pass_byte(),
        }
    }

    /// Returns whether `service` has lost its state since the previous call for it.
    fn has_lost(&mut self, service: usize) -> bool {
        let now = lives(self.kernel())[service];
        // Its first start loses nothing.
        let has_lost = std::mem::replace(&mut self.lives[service], now).max(1) < now;
        if has_lost && service == FS {
            self.files.values_mut().for_each(|known| known.is_unsure = true);
        }
        if has_lost {
            count(Count::Losses);
        }
        has_lost
    }

    /// Returns the value of a request that may fail only if `service` has lost its state meanwhile.
    fn judge<T>(&mut self, what: Count, service: usize, result: Result<T, String>) -> Option<T> {
        let has_lost = self.has_lost(service);
        match result {
            Ok(value) => {
                count(what);
                Some(value)
            }
            Err(why) if has_lost => {
                control().note(why.len() as u64);
                None
            }
            Err(why) => panic!("{}: {what:?}: {why}, though no state was lost", self.name),
        }
    }

    fn path(&mut self) -> String {
        let names = if self.workload.is_some() { 1 } else { 4 };
        format!("{}f{}", self.name, self.random.below(names))
    }

    /// Runs `work` at the root of the file system.
    fn files<T>(
        &mut self,
        work: impl FnOnce(&mut Client<'_>, u64) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.has_lost(FS);
        with_files(&self.session, |client| client.at_root(work))
    }

    fn write(&mut self) {
        let path = self.path();
        let length = self.random.below(LONGEST) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
        let written = self.files(|client, root| {
            let flags = flag::WRITE | flag::CREATE | flag::TRUNCATE;
            let file = client.open(root, path.as_bytes(), flags)?;
            let done = client.write_all(file, &bytes);
            client.close(file).and(done)
        });
        let before = self.lives[FS];
        match self.judge(Count::Writes, FS, written.map_err(text)) {
            // It may be lost already.
            Some(()) => self.know(path, bytes, self.lives[FS] != before),
            None => {
                let known = self.files.entry(path).or_default();
                known.is_unsure = true;
                known.parts.push(bytes);
            }
        }
    }

    fn know(&mut self, path: String, bytes: Vec<u8>, is_unsure: bool) {
        let known = Known { contents: Some(bytes), parts: Vec::new(), is_unsure };
        self.files.insert(path, known);
    }

    fn read(&mut self) {
        let path = self.path();
        let found = self.files(|client, root| {
            let file = client.open(root, path.as_bytes(), flag::READ)?;
            let bytes = read_all(client, file);
            client.close(file).and(bytes)
        });
        let has_lost = self.has_lost(FS);
        let known = self.files.get(&path);
        match (known, found) {
            (None, Err(Errno::Noent)) => {}
            (Some(known), Err(Errno::Noent)) if known.is_unsure => drop(self.files.remove(&path)),
            (Some(known), Ok(bytes)) if known.fits(&bytes) => {
                count(Count::Reads);
                self.know(path, bytes, has_lost);
            }
            (Some(_), Ok(bytes)) => panic!("{path}: its {} bytes were never written", bytes.len()),
            (None, Ok(_)) => panic!("{path}: a file that no caller made"),
            (_, Err(why)) => assert!(has_lost, "{path}: {why:?}, though no state was lost"),
        }
    }

    fn remove(&mut self) {
        let path = self.path();
        let removed = self.files(|client, root| client.unlink(root, path.as_bytes()));
        let has_lost = self.has_lost(FS);
        match (self.files.get_mut(&path), removed) {
            (None, Err(Errno::Noent)) => {}
            (Some(known), Err(Errno::Noent)) if known.is_unsure => drop(self.files.remove(&path)),
            (Some(_), Ok(())) => {
                count(Count::Removals);
                self.files.remove(&path);
            }
            (None, Ok(())) => panic!("{path}: removed, though no caller made it"),
            // It may have had its effect.
            (Some(known), Err(_)) if has_lost => known.is_unsure = true,
            (_, Err(why)) => assert!(has_lost, "{path}: {why:?}, though no state was lost"),
        }
    }

    fn pipe(&mut self) {
        let bytes: Vec<u8> = (0..self.random.below(3000)).map(|at| at as u8).collect();
        let passed = self.files(|client, _| {
            let (reader, writer) = client.pipe(0)?;
            let done = client.write_all(writer, &bytes);
            client.close(writer)?;
            let read = read_all(client, reader);
            client.close(reader)?;
            done.and(read)
        });
        if let Some(read) = self.judge(Count::Pipes, FS, passed.map_err(text)) {
            assert!(read == bytes, "{}: a pipe changed its bytes", self.name);
        }
    }

    /// The network's self-test, which compares every byte.
    fn sockets(&mut self) {
        let (seed, lost) = (self.random.next(), abi::net::Reply::error(abi::net::Errno::Io));
        self.has_lost(NET);
        let net = &self.kernel().services.net;
        let (checked, failed) =
            net.asking(&self.session, lost, |ask| net::check::check(seed, 1, ask));
        let outcome = match (checked, failed) {
            (Ok(_), None) => Ok(()),
            // The service's memory is small, and a dead kernel's sockets are closed a little later.
            (Err(Wrong::Refused(abi::net::Errno::Nobufs | abi::net::Errno::Nfile)), None)
                if deaths(self.kernel()) > 0 =>
            {
                return;
            }
            (Err(Wrong::Content), _) => panic!("{}: a socket changed its bytes", self.name),
            (checked, failed) => Err(format!("{:?}, {failed:?}", checked.err())),
        };
        self.judge(Count::Sockets, NET, outcome);
    }

    /// Calls a peer, which may die meanwhile.
    fn call(&mut self) {
        let kernel = self.kernel();
        let payload = self.random.next().to_le_bytes();
        let before = deaths(kernel);
        let kind = if self.random.below(2) == 0 { Procedure::Echo } else { Procedure::SlowEcho };
        for peer in kernel.others() {
            let mut buffer = [0; 8];
            let answer = self.session.call(peer, kind, &payload, &mut buffer);
            let (epoch, state) = kernel.soc.state(peer);
            let called = &mut self.called[peer.index()];
            match answer {
                Ok(length) => {
                    assert_eq!((length, buffer), (8, payload), "an echo differs");
                    count(Count::Calls);
                    *called = Some(epoch);
                }
                // It has not booted yet, or died.
                Err(why) => {
                    let answers = state == abi::soc::state::RUNNING && *called == Some(epoch);
                    let excused = !answers || deaths(kernel) != before;
                    assert!(excused, "a call failed, though no kernel died: {}", why.text());
                }
            }
        }
    }

    /// Starts a process on some kernel, and waits for its end.
    fn process(&mut self) {
        let kernel = self.kernel();
        let home = self.some_kernel().0;
        let status = self.random.below(256) as u32;
        let mut start = vec![0; 4 + self.random.below(processes::START as u64 - 4) as usize];
        start[..4].copy_from_slice(&status.to_le_bytes());
        self.has_lost(PROCESSES);
        let before = deaths(kernel);
        let spawn = Spawn {
            kernel: home.into(),
            flags: abi::process::flag::WATCHED | abi::process::flag::NEW_GROUP,
            beginning: &start,
            ..Spawn::default()
        };
        let ended = self.start(spawn).and_then(|pid| {
            let pid = i32::try_from(pid).map_err(|_| ProcessErrno::Inval)?;
            processes::with_table(&self.session, self.index, |client| client.wait(0, pid))
        });
        let (epoch, state) = kernel.soc.state(DomainId(home));
        let excused = self.has_lost(PROCESSES)
            || deaths(kernel) != before
            || state != abi::soc::state::RUNNING;
        let (life, started) = ((epoch, self.lives[PROCESSES]), &mut self.started[home as usize]);
        match ended.map(|ended| (ended.end, ended.status)) {
            Ok((End::Exit, found)) => {
                assert_eq!(found, status, "{}: a status differs", self.name);
                count(Count::Processes);
                // It may have run in the life that has just ended.
                *started = (!excused).then_some(life);
            }
            // That kernel has not asked for tasks since it or the table started.
            Err(ProcessErrno::Hostunreach) if *started != Some(life) => {}
            other => assert!(excused, "{}: process: {other:?}, and nothing died", self.name),
        }
    }

    /// Takes much of the kernel's memory, so that it asks for more of the chip's. A kernel without
    /// memory may refuse any request, so all callers together leave some. In a workload, waits for
    /// a block.
    fn memory(&mut self) {
        let wanted =
            if self.workload.is_some() { u64::MAX } else { 1000 + self.random.below(1400) };
        let (mut made, has_more) = (0, || FRAMES.buddy().free_frames() > KEPT);
        while made < wanted && has_more() {
            made += movable::fill(PIECE);
        }
        if self.workload.is_some() {
            self.wait_until(has_more);
        }
        control().counts.add(Count::PagesFilled, made);
        let wrong = movable::check().wrong;
        assert_eq!(wrong, 0, "{}: pages have other contents", self.name);
        movable::drop_pages(made);
    }

    fn sleep(&mut self) {
        let moment = self.random.below(3_000_000);
        self.kernel().scheduler.sleep_until(arch::time::soc_time() + moment);
    }
}

fn read_all(client: &mut Client<'_>, file: u64) -> Result<Vec<u8>, Errno> {
    let (mut all, mut piece) = (Vec::new(), [0; 2048]);
    loop {
        match client.read(file, &mut piece)? {
            0 => return Ok(all),
            length => all.extend_from_slice(&piece[..length]),
        }
    }
}

fn text(why: Errno) -> String {
    format!("{why:?}")
}
