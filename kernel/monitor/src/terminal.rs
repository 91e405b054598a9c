//! The system console as a terminal (`fs::vfs::terminal`), if the board's command line contains
//! `init=PROGRAM`: after the boot script, that program runs there, and is started again whenever it
//! ends. Ctrl-t switches between the terminal and the monitor.
//!
//! ```text
//!   keys --thread "monitor"--> the monitor, or Keys --> the terminal --> programs
//!   text <--thread "screen"--- the terminal <-- programs
//!           thread "init"      /bin/sh /etc/rc, then PROGRAM again and again
//! ```
//! With `console=DOMAIN` on the command line, the terminal and the program are there while that
//! domain lives. After a restart of the file service, a new terminal is made. A kernel that does
//! not have the console any more closes its terminal, which ends the programs there; another kernel
//! has another terminal.

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
use kernel_programs::processes::explain;
use kernel_programs::processes::launch::{Launch, end_of, signal_group};
use kernel_sched::WaitQueue;
use kernel_services::duty;
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;
use kernel_terminal::{KeyAction, Keys, MONITOR_KEY};

/// Runs the boot script.
const SHELL: &str = "bin/sh";
/// The boot script.
const SCRIPT: &str = "etc/rc";
/// Environment of the programs on the console.
const ENVIRONMENT: &[u8] = b"PATH=/bin\0HOME=/home\0PWD=/\0TERM=vt100\0";
/// How long to wait for the file system with the program before the user is informed, in ns.
const MOUNTING: u64 = 15_000_000_000;
/// Polling interval, in ns.
const PAUSE: u64 = 100_000_000;

/// Handles of both ends of the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends {
    screen: u64,
    programs: u64,
}

static ENDS: Lock<Option<Ends>> = Lock::new(kernel_node::ranks::TERMINAL, None);
/// Whether the console shows the terminal; otherwise it shows the monitor.
static IN_FRONT: AtomicBool = AtomicBool::new(true);
/// Wait queue of the threads that wait until the terminal is shown, or is this kernel's.
static CAME_TO_FRONT: WaitQueue = WaitQueue::new();

/// This kernel has the console.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// The threads exist.
static RUNS: AtomicBool = AtomicBool::new(false);

/// Starts the terminal, if the command line requests it. Returns whether it did.
pub fn start(kernel: &'static Kernel) -> bool {
    if kernel.option("init=").is_none() {
        return false;
    }
    IS_OURS.store(true, Ordering::Relaxed);
    CAME_TO_FRONT.wake_all(&kernel.scheduler);
    if RUNS.load(Ordering::Relaxed) {
        return true;
    }
    let begun = kernel.spawn("screen", None, screen, 0).is_ok();
    let begun = begun && kernel.spawn("init", None, init, 0).is_ok();
    if !begun {
        kernel_node::log!("no memory for the threads of the terminal");
    }
    RUNS.store(begun, Ordering::Relaxed);
    begun
}

/// Gives up the terminal: another kernel has the console.
pub fn leave(kernel: &'static Kernel) {
    IS_OURS.store(false, Ordering::Relaxed);
    let ends = ENDS.lock().take();
    let Some(ends) = ends else { return };
    close(&Session::at(kernel, Level(0)), ends);
}

fn close(session: &Session, ends: Ends) {
    for handle in [ends.screen, ends.programs] {
        // Fails only if the service has restarted; then there is no such handle.
        let _ = with_files(session, |client| client.close(handle));
    }
}

fn await_console(kernel: &Kernel) {
    kernel.scheduler.wait(&CAME_TO_FRONT, || IS_OURS.load(Ordering::Relaxed));
}

/// Handles a key, if it is for the terminal.
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
        KeyAction::Echo(bytes) => kernel.console().show(&bytes),
        KeyAction::Send(bytes, whole) => {
            if whole {
                kernel.console().show(b"\n");
            }
            give(&session, ends, &bytes);
        }
        KeyAction::EndOfInput => give(&session, ends, &[]),
        KeyAction::Interrupt => {
            kernel.console().show(b"^C\n");
            if group != 0 {
                signal_group(&session, group, signal::INT);
            }
        }
        KeyAction::Monitor => return away(kernel),
    }
    Pressed::Taken
}

/// What became of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    /// The terminal has handled it.
    Taken,
    /// It is for the monitor.
    Monitors,
    /// It has switched from the terminal to the monitor.
    Away,
}

fn away(kernel: &'static Kernel) -> Pressed {
    IN_FRONT.store(false, Ordering::Relaxed);
    kernel.console().show(b"\nmonitor: ctrl-t switches back to the terminal\n");
    Pressed::Away
}

fn to_front(kernel: &'static Kernel) {
    kernel.console().show(b"\n");
    IN_FRONT.store(true, Ordering::Relaxed);
    CAME_TO_FRONT.wake_all(&kernel.scheduler);
}

/// Writes keys to the terminal. If its buffer is full, they are dropped and the bell rings: this
/// thread must not wait for a program.
fn give(session: &Session, ends: Ends, bytes: &[u8]) {
    let mut polls = [Poll { handle: ends.screen, want: ready::WRITE, ..Poll::default() }];
    let given = with_files(session, |client| match client.poll(&mut polls, 0)? {
        1 => client.write(ends.screen, bytes),
        _ => Err(Errno::Again),
    });
    if given.is_err() {
        session.kernel.console().show(b"\x07");
    }
}

/// Thread: copies the output of programs to the console, while it shows the terminal.
fn screen(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let mut bytes = [0; 512];
    loop {
        await_console(kernel);
        let ends = *ENDS.lock();
        let read = match ends {
            Some(ends) => with_files(&session, |client| client.read(ends.screen, &mut bytes)),
            None => Err(Errno::Badf),
        };
        match read {
            Ok(count @ 1..) => {
                kernel.scheduler.wait(&CAME_TO_FRONT, || IN_FRONT.load(Ordering::Relaxed));
                if IS_OURS.load(Ordering::Relaxed) {
                    kernel.console().show(bytes.get(..count).unwrap_or_default());
                }
            }
            _ => pause(kernel),
        }
    }
}

fn pause(kernel: &Kernel) {
    kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE);
}

/// Thread: runs the boot script, then the console's program, again and again.
fn init(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let Some(program) = kernel.option("init=") else { return };
    let program = program.trim_start_matches('/');
    let session = Session::at(kernel, Level(0));
    await_program(&session, program);
    let mut is_first = true;
    loop {
        await_console(kernel);
        let Some(ends) = ends(&session) else {
            pause(kernel);
            continue;
        };
        if core::mem::take(&mut is_first)
            && duty::starts_board(kernel)
            && is_there(&session, SCRIPT)
        {
            run(&session, ends, SHELL, &format!("sh\0/{SCRIPT}\0"), true);
        }
        let name = program.rsplit('/').next().unwrap_or(program);
        run(&session, ends, program, &format!("{name}\0"), false);
        pause(kernel);
    }
}

/// Returns the terminal. Makes a new one if there is none, or the file service does not know it.
fn ends(session: &Session) -> Option<Ends> {
    let known = *ENDS.lock();
    if let Some(ends) = known
        && with_files(session, |client| client.set_terminal(ends.programs, 0, 0)).is_ok()
    {
        return Some(ends);
    }
    let made = with_files(session, |client| client.terminal(flag::CONSOLE)).ok();
    let ends = made.map(|(screen, programs)| Ends { screen, programs });
    let is_ours = {
        let mut known = ENDS.lock();
        *known = ends.filter(|_| IS_OURS.load(Ordering::Relaxed));
        known.is_some()
    };
    if let (Some(ends), false) = (ends, is_ours) {
        // The console has gone to another kernel meanwhile.
        close(session, ends);
    }
    ends.filter(|_| is_ours)
}

fn is_there(session: &Session, path: &str) -> bool {
    let path = path.as_bytes();
    let found = with_files(session, |client| {
        client.at_root(|client, root| client.stat_path(root, path, flag::FOLLOW))
    });
    found.is_ok()
}

/// Waits for the program's image: its file system may be mounted later.
fn await_program(session: &Session, program: &str) {
    let kernel = session.kernel;
    let image = format!("{program}.{}", isa::name(arch::cpu::ISA));
    let deadline = arch::time::soc_time() + MOUNTING;
    let mut is_reported = false;
    while !is_there(session, &image) {
        if !is_reported && arch::time::soc_time() > deadline {
            let mut out = kernel.console();
            // Nothing else can be done if the console is gone.
            let _ = writeln!(out, "there is no /{image}; ctrl-t switches to the monitor");
            is_reported = true;
        }
        pause(kernel);
    }
}

/// Runs a program on the terminal until it ends. With `in_front`, its group is the terminal's
/// foreground group, which ctrl-c ends. An interactive shell sets the foreground group itself, and
/// must not be ended by ctrl-c.
fn run(session: &Session, ends: Ends, path: &str, arguments: &str, in_front: bool) {
    let Ok(root) = with_files(session, |client| client.root()) else { return };
    let kernel =
        duty::named_home(session.kernel).map_or(ANY_KERNEL, |_| session.kernel.me.0.into());
    let launch = Launch {
        kernel,
        path: path.as_bytes(),
        arguments: arguments.as_bytes(),
        environment: ENVIRONMENT,
        streams: [ends.programs; 3],
        root,
        folders: &[],
    };
    let begun = launch.begin(session);
    // The process has a handle of its own.
    let _ = with_files(session, |client| client.close(root));
    let said = match begun {
        Ok(pid) => {
            if in_front {
                // If this fails, ctrl-c ends nothing.
                let _ = with_files(session, |client| {
                    client.set_terminal(ends.programs, flag::GROUP, pid)
                });
            }
            describe_end(end_of(session, pid))
        }
        Err(why) => Some(format!("does not start: {}", explain(why).text())),
    };
    if let Some(said) = said.filter(|_| IS_OURS.load(Ordering::Relaxed)) {
        let mut out = session.kernel.console();
        let _ = writeln!(out, "\n/{path} {said}");
        session.kernel.scheduler.sleep_until(arch::time::soc_time() + 10 * PAUSE);
    }
    // The next program starts in line mode, without a foreground group.
    let how = flag::COOKED | flag::GROUP;
    let _ = with_files(session, |client| client.set_terminal(ends.programs, how, 0));
}

/// Returns a text about an end that was not an exit.
fn describe_end((end, status): (End, u32)) -> Option<String> {
    match end {
        End::Exit => None,
        End::Signal => Some(format!("was ended by signal {status}")),
        End::Trap => Some(String::from("trapped; the log says where (`log` in the monitor)")),
        End::Lost => Some(String::from("was lost with its kernel")),
    }
}
