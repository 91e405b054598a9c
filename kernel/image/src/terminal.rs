//! The system console as a terminal (`fs::vfs::terminal`), where the board's command line says
//! `init=PROGRAM`: that program runs there, for ever, behind the boot script. Ctrl-t brings the
//! monitor to the front, and the terminal back.
//!
//! ```text
//!   keys --monitor's thread--> in front: the monitor, or Keys --> the terminal --> programs
//!   text <--"screen"---------- the terminal <-- programs
//!          "init"              /bin/sh /etc/rc, then PROGRAM again and again
//! ```
//! A file service that began anew knows no terminal: there is a new one then.

use crate::files::with_files;
use crate::kernel::Kernel;
use crate::processes::explain;
use crate::processes::launch::{Launch, end_of, signal_group};
use crate::session::Session;
use abi::boot::isa;
use abi::fs::{Errno, Poll, flag, ready};
use abi::process::{End, signal};
use abi::program::ANY_KERNEL;
use alloc::format;
use alloc::string::String;
use arch::lock::Lock;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_msg::Level;
use kernel_sched::WaitQueue;
use kernel_terminal::{KeyAction, Keys, MONITOR_KEY};

/// What runs the boot script.
const SHELL: &str = "bin/sh";
/// The boot script.
const SCRIPT: &str = "etc/rc";
/// What programs of the console find in their environment.
const ENVIRONMENT: &[u8] = b"PATH=/bin\0HOME=/home\0PWD=/\0TERM=vt100\0";
/// How long a file system on a disk may take to come before people are told, in ns.
const MOUNTING: u64 = 15_000_000_000;
/// Between two looks.
const PAUSE: u64 = 100_000_000;

/// The two ends of the terminal that there is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends {
    screen: u64,
    programs: u64,
}

static ENDS: Lock<Option<Ends>> = Lock::new(crate::ranks::TERMINAL, None);
static IN_FRONT: AtomicBool = AtomicBool::new(true);
/// Who has text, and waits for the front.
static BEHIND: WaitQueue = WaitQueue::new();

/// Begins, where the command line says so; did it?
pub fn start(kernel: &'static Kernel) -> bool {
    if kernel.option("init=").is_none() {
        return false;
    }
    let begun = kernel.spawn("screen", None, screen, 0).is_ok();
    let begun = begun && kernel.spawn("init", None, init, 0).is_ok();
    if !begun {
        crate::log!("no memory for the threads of the terminal");
    }
    begun
}

/// A key, if it is the terminal's.
pub fn press(kernel: &'static Kernel, keys: &mut Keys, byte: u8) -> Pressed {
    if !IN_FRONT.load(Ordering::Relaxed) {
        if byte != MONITOR_KEY {
            return Pressed::Monitors;
        }
        to_front(kernel);
        return Pressed::Taken;
    }
    let session = Session::at(kernel, Level(0));
    let ends = *ENDS.lock();
    let Some(ends) = ends else {
        return if byte == MONITOR_KEY { away(kernel) } else { Pressed::Taken };
    };
    let mode = with_files(&session, |client| client.set_terminal(ends.screen, 0, 0));
    let (mode, group) = mode.unwrap_or((flag::COOKED, 0));
    match keys.press(byte, mode & flag::RAW != 0) {
        KeyAction::Nothing => {}
        KeyAction::Echo(bytes) => kernel.devices.show(kernel, &bytes),
        KeyAction::Send(bytes, whole) => {
            if whole {
                kernel.devices.show(kernel, b"\n");
            }
            give(&session, ends, &bytes);
        }
        KeyAction::EndOfInput => give(&session, ends, &[]),
        KeyAction::Interrupt => {
            kernel.devices.show(kernel, b"^C\n");
            if group != 0 {
                signal_group(&session, group, signal::INT);
            }
        }
        KeyAction::Monitor => return away(kernel),
    }
    Pressed::Taken
}

/// Whose a key is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    /// It was the terminal's.
    Taken,
    /// It is the monitor's.
    Monitors,
    /// The monitor is in front from now on.
    Away,
}

fn away(kernel: &'static Kernel) -> Pressed {
    IN_FRONT.store(false, Ordering::Relaxed);
    kernel.devices.show(kernel, b"\nmonitor: ctrl-t goes back to the terminal\n");
    Pressed::Away
}

fn to_front(kernel: &'static Kernel) {
    kernel.devices.show(kernel, b"\n");
    IN_FRONT.store(true, Ordering::Relaxed);
    BEHIND.wake_all(&kernel.scheduler);
}

/// Keys for programs. Where nobody has read what was typed before, they are lost, and the bell
/// rings: this thread must not wait for a program.
fn give(session: &Session, ends: Ends, bytes: &[u8]) {
    let mut polls = [Poll { handle: ends.screen, want: ready::WRITE, ..Poll::default() }];
    let given = with_files(session, |client| match client.poll(&mut polls, 0)? {
        1 => client.write(ends.screen, bytes),
        _ => Err(Errno::Again),
    });
    if given.is_err() {
        session.kernel.devices.show(session.kernel, b"\x07");
    }
}

/// Shows what programs write, while the terminal is in front.
fn screen(_: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let mut bytes = [0; 512];
    loop {
        let ends = *ENDS.lock();
        let read = match ends {
            Some(ends) => with_files(&session, |client| client.read(ends.screen, &mut bytes)),
            None => Err(Errno::Badf),
        };
        match read {
            Ok(count @ 1..) => {
                kernel.scheduler.wait(&BEHIND, || IN_FRONT.load(Ordering::Relaxed));
                kernel.devices.show(kernel, bytes.get(..count).unwrap_or_default());
            }
            _ => pause(kernel),
        }
    }
}

fn pause(kernel: &Kernel) {
    kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE);
}

/// Runs the boot script, and then the console's program, again when it ends.
fn init(_: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let Some(program) = kernel.option("init=") else { return };
    let program = program.trim_start_matches('/');
    let session = Session::at(kernel, Level(0));
    await_program(&session, program);
    let mut is_first = true;
    loop {
        let Some(ends) = ends(&session) else {
            pause(kernel);
            continue;
        };
        if core::mem::take(&mut is_first) && is_there(&session, SCRIPT) {
            run(&session, ends, SHELL, &format!("sh\0/{SCRIPT}\0"), true);
        }
        let name = program.rsplit('/').next().unwrap_or(program);
        run(&session, ends, program, &format!("{name}\0"), false);
        pause(kernel);
    }
}

/// The terminal, which is made where there is none that the file service knows.
fn ends(session: &Session) -> Option<Ends> {
    let known = *ENDS.lock();
    if let Some(ends) = known
        && with_files(session, |client| client.set_terminal(ends.programs, 0, 0)).is_ok()
    {
        return Some(ends);
    }
    let made = with_files(session, |client| client.terminal(flag::CONSOLE)).ok();
    let ends = made.map(|(screen, programs)| Ends { screen, programs });
    *ENDS.lock() = ends;
    ends
}

fn is_there(session: &Session, path: &str) -> bool {
    let path = path.as_bytes();
    let found = with_files(session, |client| {
        client.at_root(|client, root| client.stat_path(root, path, flag::FOLLOW))
    });
    found.is_ok()
}

/// The file system with the program may come later than this.
fn await_program(session: &Session, program: &str) {
    let kernel = session.kernel;
    let image = format!("{program}.{}", isa::name(arch::cpu::ISA));
    let deadline = arch::time::soc_time() + MOUNTING;
    let mut is_told = false;
    while !is_there(session, &image) {
        if !is_told && arch::time::soc_time() > deadline {
            let mut out = kernel.console();
            // A console that is gone has nobody to tell.
            let _ = writeln!(out, "there is no /{image}; ctrl-t goes to the monitor");
            is_told = true;
        }
        pause(kernel);
    }
}

/// Runs a program at the terminal, to its end. `in_front`: ctrl-c ends its group; a shell for
/// people sees to that itself, and is not to be ended by it.
fn run(session: &Session, ends: Ends, path: &str, arguments: &str, in_front: bool) {
    let Ok(root) = with_files(session, |client| client.root()) else { return };
    let launch = Launch {
        kernel: ANY_KERNEL,
        path: path.as_bytes(),
        arguments: arguments.as_bytes(),
        environment: ENVIRONMENT,
        streams: [ends.programs; 3],
        root,
        folders: &[],
    };
    let begun = launch.begin(session);
    // What it was given is its own.
    let _ = with_files(session, |client| client.close(root));
    let said = match begun {
        Ok(pid) => {
            if in_front {
                // Its own group; where that cannot be said, ctrl-c ends nothing.
                let _ = with_files(session, |client| {
                    client.set_terminal(ends.programs, flag::GROUP, pid)
                });
            }
            said(end_of(session, pid))
        }
        Err(why) => Some(format!("does not begin: {}", explain(why).text())),
    };
    if let Some(said) = said {
        let mut out = session.kernel.console();
        let _ = writeln!(out, "\n/{path} {said}");
        session.kernel.scheduler.sleep_until(arch::time::soc_time() + 10 * PAUSE);
    }
    // Keys for the next one are lines until it says otherwise.
    let how = flag::COOKED | flag::GROUP;
    let _ = with_files(session, |client| client.set_terminal(ends.programs, how, 0));
}

/// What is to be said about an end that nobody wished for.
fn said((end, status): (End, u32)) -> Option<String> {
    match end {
        End::Exit => None,
        End::Signal => Some(format!("was ended by signal {status}")),
        End::Trap => Some(String::from("trapped; the log says where (`log` in the monitor)")),
        End::Lost => Some(String::from("was lost with its kernel")),
    }
}
