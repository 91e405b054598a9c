//! `mixed`: requests to all services and calls to peers, from one seed, with every answer checked.
//!
//! A kernel that dies takes with it the state of a service if it executed one of its steps or held
//! a page that no other kernel has. The service then starts again, at most once for each death: its
//! files are gone, and requests fail. Nothing else may fail, and a file that is there has what was
//! written to it. `host/assembled` checks the same of kernels on a simulated chip.

use super::{Command, Failure, Outcome, Session, number};
use ::processes::client::{Client as Table, Spawn};
use abi::boot::MAX_DOMAINS;
use abi::fs::{Errno, flag};
use abi::process::{Errno as ProcessErrno, Reply as ProcessReply};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base::id::DomainId;
use base::prng::Prng;
use core::fmt::Write;
use fs::client::Client;
use kernel_platform::peers::Procedure;
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use net::check::{Wrong, check};

pub const COMMANDS: &[Command] = &[Command {
    name: "mixed",
    arguments: "SEED [ROUNDS]",
    help: "files, pipes, sockets, processes and calls, answers checked",
    run: mixed,
}];

/// Longest write.
const LONGEST: u64 = 6000;
/// Longest start data of a process.
const START: u64 = 600;
/// Longest pause, in ns.
const PAUSE: u64 = 300_000;

/// How long the peer may take to be missed, boot and answer, in ns: with the sanitizer, a kernel
/// that hangs is reset after a minute.
const PATIENCE: u64 = 300_000_000_000;
/// Time between two attempts to call it, in ns.
const AGAIN: u64 = 500_000;

/// Number of rounds that have one of each kind, and some several times.
pub const KINDS_OF_ROUNDS: u64 = 12;

/// Services with a state that may be lost.
const FS: usize = 0;
const NET: usize = 1;
const PROCESSES: usize = 2;
const SERVICES: usize = 3;

/// What was done, in the order of the output.
const KINDS: [&str; 7] = ["writes", "reads", "removals", "pipes", "sockets", "calls", "processes"];
#[derive(Clone, Copy)]
enum Kind {
    Write,
    Read,
    Removal,
    Pipe,
    Socket,
    Call,
    Process,
}

/// An answer that is wrong, for people.
type Checked<T = ()> = Result<T, String>;

fn mixed(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let seed = arguments.first().and_then(|word| word.parse().ok()).ok_or(Failure::Usage)?;
    let done = run(session, seed, number(arguments, 1, 2 * KINDS_OF_ROUNDS)?);
    match done {
        Ok(text) => Ok(writeln!(out, "  {text}")?),
        Err(why) => {
            writeln!(out, "  {why}")?;
            Err(Failure::Failed("an answer was wrong"))
        }
    }
}

/// Runs `rounds` rounds from `seed`. Returns what was done, or what was wrong.
pub fn run(session: &Session, seed: u64, rounds: u64) -> Checked<String> {
    let kernel = session.kernel;
    let mut caller = Caller {
        session: *session,
        random: Prng::new((seed ^ u64::from(kernel.me.0) << 32).wrapping_mul(0x9e37_79b9) | 1),
        name: format!("d{}e{}s{seed}", kernel.me.0, kernel.epoch.0),
        files: BTreeMap::new(),
        lives: lives(kernel)?,
        called: [None; MAX_DOMAINS],
        started: [None; MAX_DOMAINS],
        counts: [0; KINDS.len()],
        losses: 0,
    };
    // Kernels with the same seed do different things at the same time.
    let first = seed.wrapping_add(3 * u64::from(kernel.me.0));
    (0..rounds).try_for_each(|round| caller.round(first.wrapping_add(round)))?;
    kernel.audit().map_err(|why| format!("the page table violates an invariant: {why:?}"))?;
    let mut text = format!("mixed {seed}:");
    for (what, count) in KINDS.iter().zip(caller.counts) {
        text += &format!(" {count} {what},");
    }
    Ok(text + &format!(" {} losses, nothing wrong", caller.losses))
}

/// Returns how often kernels have died.
pub fn deaths(kernel: &Kernel) -> u64 {
    (0..kernel.blob.domains().len() as u8).map(|d| kernel.soc.deaths(DomainId(d))).sum()
}

/// Waits until the peer answers a call. Returns how often it had died before that call.
pub fn answers(session: &Session, peer: DomainId) -> Result<u64, String> {
    let kernel = session.kernel;
    let until = arch::time::soc_time() + PATIENCE;
    loop {
        let died = kernel.soc.deaths(peer);
        match session.call(peer, Procedure::Echo, &[1; 8], &mut [0; 8]) {
            Ok(_) => return Ok(died),
            Err(why) if arch::time::soc_time() > until => {
                return Err(format!("it has not come back: {}", why.text()));
            }
            Err(_) => kernel.scheduler.sleep_until(arch::time::soc_time() + AGAIN),
        }
    }
}

/// Returns how often the services have started. One that another kernel executes starts again with
/// its kernel; a shared one starts with its first request.
fn lives(kernel: &Kernel) -> Checked<[u32; SERVICES]> {
    let services = &kernel.services;
    let found = [services.fs.lives(), services.net.lives(), services.processes.lives()];
    // After the lives: a death may follow, and then a loss.
    let most = 1 + deaths(kernel) as u32;
    let lives = found.map(|lives| lives.unwrap_or(most));
    match lives.iter().all(|&lives| lives <= most) {
        true => Ok(lives),
        false => Err(format!("{lives:?} lives of services after {} deaths", most - 1)),
    }
}

struct Caller {
    session: Session,
    random: Prng,
    name: String,
    files: BTreeMap<String, Known>,
    /// [`lives`] at the last look.
    lives: [u32; SERVICES],
    /// For each kernel, the epoch in which it last answered a call.
    called: [Option<u64>; MAX_DOMAINS],
    /// For each kernel, its epoch and the table's life when it last began a process.
    started: [Option<(u64, u32)>; MAX_DOMAINS],
    counts: [u64; KINDS.len()],
    losses: u64,
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
    fn kernel(&self) -> &'static Kernel {
        self.session.kernel
    }

    /// Any [`KINDS_OF_ROUNDS`] rounds in a row have one of each kind.
    fn round(&mut self, number: u64) -> Checked {
        match number * 5 % KINDS_OF_ROUNDS {
            0..=2 => self.write(),
            3..=4 => self.read(),
            5 => self.remove(),
            6 => self.pipe(),
            7 => self.sockets(),
            8..=9 => self.call(),
            10 => self.process(),
            _ => {
                let moment = self.random.below(PAUSE);
                self.kernel().scheduler.sleep_until(arch::time::soc_time() + moment);
                Ok(())
            }
        }
    }

    fn count(&mut self, what: Kind) {
        self.counts[what as usize] += 1;
    }

    /// Returns whether `service` has lost its state since the previous call for it.
    fn has_lost(&mut self, service: usize) -> Checked<bool> {
        let now = lives(self.kernel())?[service];
        // Its first start loses nothing.
        let has_lost = core::mem::replace(&mut self.lives[service], now).max(1) < now;
        if has_lost && service == FS {
            self.files.values_mut().for_each(|known| known.is_unsure = true);
        }
        self.losses += u64::from(has_lost);
        Ok(has_lost)
    }

    /// Returns the value of a request that may fail only if `service` has lost its state meanwhile.
    fn judge<T>(
        &mut self,
        what: Kind,
        service: usize,
        result: Result<T, String>,
    ) -> Checked<Option<T>> {
        let has_lost = self.has_lost(service)?;
        match result {
            Ok(value) => {
                self.count(what);
                Ok(Some(value))
            }
            Err(_) if has_lost => Ok(None),
            Err(why) => Err(format!("{}: {why}, though no state was lost", KINDS[what as usize])),
        }
    }

    fn path(&mut self) -> String {
        format!("{}f{}", self.name, self.random.below(3))
    }

    /// Runs `work` at the root of the file system.
    fn files<T>(
        &mut self,
        work: impl FnOnce(&mut Client<'_>, u64) -> Result<T, Errno>,
    ) -> Checked<Result<T, Errno>> {
        self.has_lost(FS)?;
        Ok(with_files(&self.session, |client| client.at_root(work)))
    }

    fn write(&mut self) -> Checked {
        let path = self.path();
        let length = self.random.below(LONGEST) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
        let written = self.files(|client, root| {
            let flags = flag::WRITE | flag::CREATE | flag::TRUNCATE;
            let file = client.open(root, path.as_bytes(), flags)?;
            let done = client.write_all(file, &bytes);
            client.close(file).and(done)
        })?;
        let before = self.lives[FS];
        match self.judge(Kind::Write, FS, written.map_err(text))? {
            // It may be lost already.
            Some(()) => self.know(path, bytes, self.lives[FS] != before),
            None => {
                let known = self.files.entry(path).or_default();
                known.is_unsure = true;
                known.parts.push(bytes);
            }
        }
        Ok(())
    }

    fn know(&mut self, path: String, bytes: Vec<u8>, is_unsure: bool) {
        let known = Known { contents: Some(bytes), parts: Vec::new(), is_unsure };
        self.files.insert(path, known);
    }

    fn read(&mut self) -> Checked {
        let path = self.path();
        let found = self.files(|client, root| {
            let file = client.open(root, path.as_bytes(), flag::READ)?;
            let bytes = read_all(client, file);
            client.close(file).and(bytes)
        })?;
        let has_lost = self.has_lost(FS)?;
        match (self.files.get(&path), found) {
            (None, Err(Errno::Noent)) => {}
            (Some(known), Err(Errno::Noent)) if known.is_unsure => drop(self.files.remove(&path)),
            (Some(known), Ok(bytes)) if known.fits(&bytes) => {
                self.count(Kind::Read);
                self.know(path, bytes, has_lost);
            }
            (Some(_), Ok(bytes)) => {
                return Err(format!("{path}: its {} bytes were never written", bytes.len()));
            }
            (None, Ok(_)) => return Err(format!("{path}: a file that this caller has not made")),
            (_, Err(_)) if has_lost => {}
            (_, Err(why)) => return Err(format!("{path}: {why:?}, though no state was lost")),
        }
        Ok(())
    }

    fn remove(&mut self) -> Checked {
        let path = self.path();
        let removed = self.files(|client, root| client.unlink(root, path.as_bytes()))?;
        let has_lost = self.has_lost(FS)?;
        match (self.files.get_mut(&path), removed) {
            (None, Err(Errno::Noent)) => {}
            (Some(known), Err(Errno::Noent)) if known.is_unsure => drop(self.files.remove(&path)),
            (Some(_), Ok(())) => {
                self.count(Kind::Removal);
                self.files.remove(&path);
            }
            (None, Ok(())) => {
                return Err(format!("{path}: removed, though this caller has not made it"));
            }
            // It may have had its effect.
            (Some(known), Err(_)) if has_lost => known.is_unsure = true,
            (_, Err(_)) if has_lost => {}
            (_, Err(why)) => return Err(format!("{path}: {why:?}, though no state was lost")),
        }
        Ok(())
    }

    fn pipe(&mut self) -> Checked {
        let bytes: Vec<u8> = (0..self.random.below(3000)).map(|at| at as u8).collect();
        let passed = self.files(|client, _| {
            let (reader, writer) = client.pipe(0)?;
            let done = client.write_all(writer, &bytes);
            client.close(writer)?;
            let read = read_all(client, reader);
            client.close(reader)?;
            done.and(read)
        })?;
        match self.judge(Kind::Pipe, FS, passed.map_err(text))? {
            Some(read) if read != bytes => Err("a pipe changed its bytes".into()),
            _ => Ok(()),
        }
    }

    /// The network's self-test, which compares every byte.
    fn sockets(&mut self) -> Checked {
        let (seed, lost) = (self.random.next(), abi::net::Reply::error(abi::net::Errno::Io));
        self.has_lost(NET)?;
        let net = &self.kernel().services.net;
        let (checked, failed) = net.asking(&self.session, lost, |ask| check(seed, 1, ask));
        let outcome = match (checked, failed) {
            (Ok(_), None) => Ok(()),
            // The service's memory is small, and a dead kernel's sockets are closed a little later.
            (Err(Wrong::Refused(abi::net::Errno::Nobufs | abi::net::Errno::Nfile)), None)
                if deaths(self.kernel()) > 0 =>
            {
                return Ok(());
            }
            (Err(Wrong::Content), _) => return Err("a socket changed its bytes".into()),
            (checked, failed) => Err(format!("{:?}, {failed:?}", checked.err())),
        };
        self.judge(Kind::Socket, NET, outcome).map(|_| ())
    }

    /// Calls all peers, which may die meanwhile.
    fn call(&mut self) -> Checked {
        let kernel = self.kernel();
        let payload = self.random.next().to_le_bytes();
        let before = deaths(kernel);
        let kind = if self.random.below(2) == 0 { Procedure::Echo } else { Procedure::SlowEcho };
        for peer in kernel.others() {
            let mut buffer = [0; 8];
            let answer = self.session.call(peer, kind, &payload, &mut buffer);
            let (epoch, state) = kernel.soc.state(peer);
            match answer {
                Ok(length) if (length, buffer) != (8, payload) => {
                    return Err("an echo differs".into());
                }
                Ok(_) => {
                    self.count(Kind::Call);
                    self.called[peer.index()] = Some(epoch);
                }
                // It has not booted yet, or died.
                Err(why) => {
                    let called = self.called[peer.index()] == Some(epoch);
                    let answered = state == abi::soc::state::RUNNING && called;
                    let excused = || !answered || deaths(kernel) != before;
                    if !excused() {
                        // One that hangs is silent at once, and reset when another waits for it.
                        answers(&self.session, peer)?;
                        if !excused() {
                            return Err(format!("a call, though no kernel died: {}", why.text()));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts a process on some kernel, with start data that only that kernel can refuse.
    fn process(&mut self) -> Checked {
        let kernel = self.kernel();
        let home = self.random.below(kernel.blob.domains().len() as u64) as u8;
        let length = 1 + self.random.below(START) as usize;
        let beginning: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
        self.has_lost(PROCESSES)?;
        let before = deaths(kernel);
        let flags = abi::process::flag::WATCHED | abi::process::flag::NEW_GROUP;
        let spawn = Spawn { kernel: home.into(), flags, beginning: &beginning, ..Spawn::default() };
        let table = &kernel.services.processes;
        let lost = ProcessReply::error(ProcessErrno::Io);
        let (begun, _) = table.asking(&self.session, lost, |ask| Table(ask).spawn(spawn));
        let (epoch, state) = kernel.soc.state(DomainId(home));
        let excused = self.has_lost(PROCESSES)?
            || deaths(kernel) != before
            || state != abi::soc::state::RUNNING;
        let (life, started) = ((epoch, self.lives[PROCESSES]), &mut self.started[home as usize]);
        match begun {
            Err(ProcessErrno::Inval) => {
                // It may have been refused in the life that has just ended.
                *started = (!excused).then_some(life);
                self.count(Kind::Process);
                Ok(())
            }
            // That kernel has not asked for tasks since it or the table started.
            Err(ProcessErrno::Hostunreach) if *started != Some(life) => Ok(()),
            _ if excused => Ok(()),
            other => Err(format!("a process on kernel {home}: {other:?}, and nothing died")),
        }
    }
}

fn read_all(client: &mut Client<'_>, file: u64) -> Result<Vec<u8>, Errno> {
    let (mut all, mut piece) = (Vec::new(), [0; 1024]);
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
