//! One process from its beginning to its end, on a thread and a stack of its own.
//!
//! ```text
//!   thread --> stack --> files, program --> Begun(0) --> the engine runs it --> Ended
//!                  \          \--> Begun(why not)                closes its files
//! ```

use super::guest::Guest;
use super::{Life, with_table};
use crate::kernel::Kernel;
use crate::monitor::Session;
use crate::programs::{Loaded, Stack};
use crate::services::Patience;
use ::processes::client::Account;
use abi::process::{End as How, Errno};
use alloc::sync::Arc;
use alloc::collections::BTreeMap;
use arch::lock::Lock;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel_engine::{End, Limits};
use kernel_msg::Level;
use kernel_process::begin::{Beginning, decode};
use kernel_process::{Halt, Process};
use kernel_sched::{ThreadId, WaitQueue};

/// Descriptors of a process whose manifest says nothing.
const DESCRIPTORS: u32 = 256;

/// What the table gave: a thread for it, or why there is none.
pub fn begin(session: &Session, (pid, parent, group): (u32, u32, u32), beginning: &[u8]) {
    let kernel = session.kernel;
    let life = Life {
        pid,
        parent,
        group,
        name: name_of(beginning).to_vec(),
        stop: AtomicU32::new(0),
        thread: AtomicU64::new(0),
        asleep: WaitQueue::new(),
        messages: AtomicU64::new(0),
    };
    put(&kernel.processes.living, pid, Arc::new(life));
    put(&kernel.processes.begun, pid, beginning.to_vec());
    if kernel.spawn("program", None, thread, pid as usize).is_err() {
        take(&kernel.processes.living, pid);
        take(&kernel.processes.begun, pid);
        tell(session, pid, Err(Errno::Nomem));
    }
}

/// What is taken out of a map is dropped without its lock.
fn take<T>(map: &Lock<BTreeMap<u32, T>>, pid: u32) -> Option<T> {
    map.lock().remove(&pid)
}

fn put<T>(map: &Lock<BTreeMap<u32, T>>, pid: u32, value: T) {
    let before = map.lock().insert(pid, value);
    drop(before);
}

/// The last part of its path.
fn name_of(beginning: &[u8]) -> &[u8] {
    let path = decode(beginning).map_or(&b"?"[..], |beginning| beginning.path);
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// To the table: it runs, or why not. A table that is gone hears it from [`super::name_all`].
fn tell(session: &Session, pid: u32, how: Result<u64, Errno>) {
    let _ = with_table(session, &Patience::ENDLESS, |table| table.begun(pid, how));
}

fn thread(pid: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let pid = pid as u32;
    if let Some(life) = kernel.processes.life(pid) {
        let me: ThreadId = kernel.scheduler.current();
        life.thread.store(me.token(), Ordering::Release);
    }
    match Stack::new() {
        Ok(stack) => stack.run(live, pid as usize),
        Err(_) => tell(&Session::at(kernel, Level(0)), pid, Err(Errno::Nomem)),
    }
    drop(take(&kernel.processes.begun, pid));
    drop(take(&kernel.processes.living, pid));
}

/// On the process's own stack.
extern "C" fn live(pid: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let pid = pid as u32;
    let (life, beginning) = (kernel.processes.life(pid), take(&kernel.processes.begun, pid));
    let (Some(life), Some(beginning)) = (life, beginning) else { return };
    let session = Session::at(kernel, Level(0));
    let prepared = prepare(&session, &life, &beginning);
    drop(beginning);
    let (loaded, process, guest, limits) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return tell(&session, pid, Err(why)),
    };
    tell(&session, pid, Ok(0));
    let (end, used) = run(kernel, &life, (loaded, process, guest, limits));
    // Nobody can stop it any more.
    drop(take(&kernel.processes.living, pid));
    let (how, status) = told(&end);
    let ended = |table: &mut ::processes::client::Client<'_>| table.ended(pid, how, status, used);
    if with_table(&session, &Patience::ENDLESS, ended).is_err() {
        crate::log!("process {pid}: the table did not take its end");
    }
}

type Prepared = (Arc<Loaded<Guest>>, Process, Guest, Limits);

fn prepare(session: &Session, life: &Arc<Life>, beginning: &[u8]) -> Result<Prepared, Errno> {
    let kernel = session.kernel;
    let beginning = decode(beginning).map_err(|_| Errno::Inval)?;
    let programs = kernel.processes.programs(kernel).ok_or(Errno::Nomem)?;
    let load = || programs.load(session, beginning.directory(), beginning.path);
    let loaded = match load() {
        Err(Errno::Nomem) => {
            programs.forget();
            load()
        }
        other => other,
    }?;
    let mut guest = Guest::new(kernel, life.clone());
    let files = if loaded.manifest.files == 0 { DESCRIPTORS } else { loaded.manifest.files };
    let process = furnish(&mut guest, &loaded, &beginning, files).map_err(|halt| match halt {
        Halt::Failed(error) => Errno::from_code(error.0).unwrap_or(Errno::Badf),
        Halt::Stop(_) => Errno::Intr,
    })?;
    let least = |a: u64, b: u64| if a == 0 { b } else { a.min(if b == 0 { a } else { b }) };
    let memory = least(beginning.memory, loaded.manifest.memory);
    let memory = if memory == 0 { abi::program::engine::RESERVATION } else { memory };
    Ok((loaded, process, guest, Limits { memory }))
}

/// Files and strings of a new process: its own, then those of the program's manifest.
fn furnish(
    guest: &mut Guest,
    loaded: &Loaded<Guest>,
    beginning: &Beginning<'_>,
    files: u32,
) -> Result<Process, Halt> {
    let mut process = Process::begin(guest, beginning, files)?;
    let done = process
        .add_arguments(&loaded.manifest.arguments)
        .and_then(|()| process.add_environment(&loaded.manifest.environment));
    match done {
        Ok(()) => Ok(process),
        Err(why) => {
            process.close_all(guest);
            Err(why.into())
        }
    }
}

fn run(
    kernel: &'static Kernel,
    life: &Life,
    (loaded, process, guest, limits): Prepared,
) -> (End, Account) {
    let Some(programs) = kernel.processes.programs.get() else {
        return (End::NoMemory, Account::default());
    };
    let mut ran = programs.run(&loaded, process, guest, limits);
    if let End::Trap(_, what) = &ran.end {
        report(life, &loaded, what);
    }
    ran.process.close_all(&mut ran.guest);
    let thread = ThreadId::from_token(life.thread.load(Ordering::Relaxed));
    let used = Account {
        cpu: kernel.scheduler.ran(thread),
        memory: ran.memory,
        messages: life.messages.load(Ordering::Relaxed),
    };
    (ran.end, used)
}

/// A trap, and where in the program it was, to the kernel's log.
fn report(life: &Life, loaded: &Loaded<Guest>, what: &str) {
    let name = alloc::string::String::from_utf8_lossy(&life.name);
    crate::log!("process {} ({name}): {what}", life.pid);
    for line in loaded.backtrace() {
        crate::log!("  {line}");
    }
}

fn told(end: &End) -> (How, u32) {
    match *end {
        End::Exit(code) => (How::Exit, code),
        End::Signal(signal) => (How::Signal, signal.into()),
        End::Trap(code, _) => (How::Trap, code),
        End::NoMemory => (How::Trap, abi::program::trap::NO_MEMORY),
    }
}
