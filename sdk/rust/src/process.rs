//! Processes: the caller's identity, the list of processes, ends of children, signals, groups.

use crate::layout::{self, Listed, NO_HANG};
use crate::{Errno, ffi};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub use crate::layout::Identity;

/// Signals, with WASI's numbers.
pub mod signal {
    use alloc::string::{String, ToString};

    /// No signal; tests whether the process exists.
    pub const NONE: u32 = 0;
    /// Hangup: the terminal is gone.
    pub const HUP: u32 = 1;
    /// Interrupt from the keyboard.
    pub const INT: u32 = 2;
    /// Quit from the keyboard.
    pub const QUIT: u32 = 3;
    /// Abort.
    pub const ABRT: u32 = 6;
    /// Kill: cannot be handled.
    pub const KILL: u32 = 9;
    /// Write to a pipe without readers.
    pub const PIPE: u32 = 13;
    /// Termination request.
    pub const TERM: u32 = 15;
    /// The highest signal number.
    pub const LAST: u32 = 30;

    /// Names, indexed by number.
    pub const NAMES: [&str; 31] = [
        "NONE", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV",
        "USR2", "PIPE", "ALRM", "TERM", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR", "SYS",
    ];

    /// Parses a name (with or without SIG, in any case) or a number.
    pub fn parse(text: &str) -> Option<u32> {
        if let Ok(number) = text.parse::<u32>() {
            return (number <= LAST).then_some(number);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        NAMES.iter().position(|n| *n == name).map(|n| n as u32)
    }

    /// Returns all names in one line.
    pub fn names() -> String {
        NAMES.get(1..).unwrap_or_default().join(" ")
    }

    /// Returns what `kill -l` prints for an argument: the name of a number (above 128: of an exit
    /// status), or the number of a name.
    pub fn told(text: &str) -> Option<String> {
        let number = text.parse::<u32>().ok().map(|n| if n > 128 { n - 128 } else { n });
        match number.and_then(|n| NAMES.get(n as usize)) {
            Some(name) => Some(name.to_string()),
            None => parse(text).map(|number| number.to_string()),
        }
    }

    /// Parses the arguments of `kill`: `[-s SIGNAL | -n SIGNAL | -SIGNAL] [--] PROCESS...`. Returns
    /// the signal and the processes; the error is the word that is not a signal.
    pub fn chosen(arguments: &[String]) -> Result<(u32, &[String]), &str> {
        let (which, rest) = match arguments {
            [option] if option == "-s" || option == "-n" => return Err(option),
            [option, name, rest @ ..] if option == "-s" || option == "-n" => {
                (parse(name).ok_or(name.as_str())?, rest)
            }
            [first, rest @ ..] if first != "--" && first.starts_with('-') && !rest.is_empty() => {
                let name = first.trim_start_matches('-');
                (parse(name).ok_or(name)?, rest)
            }
            all => (TERM, all),
        };
        match rest {
            [first, rest @ ..] if first == "--" => Ok((which, rest)),
            rest => Ok((which, rest)),
        }
    }
}

/// Why a program trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Unknown.
    Other,
    /// Stack overflow.
    Stack,
    /// Memory access out of bounds.
    Memory,
    /// Table index out of bounds, or an empty or mismatched entry.
    Table,
    /// The program panicked or aborted.
    Unreachable,
    /// Division by zero, or an overflow of a conversion.
    Number,
    /// Memory allocation failed.
    NoMemory,
}

impl Trap {
    fn from_status(status: u32) -> Trap {
        match status {
            1 => Trap::Stack,
            2 => Trap::Memory,
            3 => Trap::Table,
            4 => Trap::Unreachable,
            5 => Trap::Number,
            6 => Trap::NoMemory,
            _ => Trap::Other,
        }
    }

    /// Returns a description.
    pub const fn text(self) -> &'static str {
        match self {
            Trap::Other => "trap",
            Trap::Stack => "stack overflow",
            Trap::Memory => "memory access out of bounds",
            Trap::Table => "bad indirect call",
            Trap::Unreachable => "aborted",
            Trap::Number => "arithmetic error",
            Trap::NoMemory => "out of memory",
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Exit(u32),
    /// It was ended by this signal.
    Signal(u32),
    /// It trapped.
    Trap(Trap),
    /// Its kernel died.
    Lost,
}

impl End {
    fn new(kind: u32, status: u32) -> End {
        match kind {
            1 => End::Exit(status),
            2 => End::Signal(status),
            3 => End::Trap(Trap::from_status(status)),
            _ => End::Lost,
        }
    }

    /// Returns whether it exited with code 0.
    pub fn success(self) -> bool {
        self == End::Exit(0)
    }

    /// Returns the status as a shell reports it: the exit code, or 128 plus the signal. A trap
    /// counts as the signal that it would be on Unix.
    pub fn code(self) -> u32 {
        match self {
            End::Exit(code) => code & 0xff,
            End::Signal(signal) => 128 + (signal & 0x7f),
            End::Trap(Trap::Unreachable) => 128 + 6,
            End::Trap(Trap::Number) => 128 + 8,
            End::Trap(Trap::Table) => 128 + 4,
            End::Trap(Trap::Stack | Trap::Memory) => 128 + 11,
            End::Trap(Trap::NoMemory) | End::Lost => 128 + 9,
            End::Trap(Trap::Other) => 128 + 5,
        }
    }
}

/// Result of waiting for a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Number of the child.
    pub pid: u32,
    /// How it ended.
    pub end: End,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
}

/// A process started by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pid: u32,
}

impl Child {
    pub(crate) const fn new(pid: u32) -> Child {
        Child { pid }
    }

    /// Returns the process number.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until it ends.
    pub fn wait(&self) -> Result<Ended, Errno> {
        wait(narrow(self.pid)?)
    }

    /// Returns how it ended, or `None` if it has not ended.
    pub fn try_wait(&self) -> Result<Option<Ended>, Errno> {
        try_wait(narrow(self.pid)?)
    }

    /// Sends it a signal.
    pub fn kill(&self, signal: u32) -> Result<(), Errno> {
        kill(narrow(self.pid)?, signal)
    }
}

fn narrow(pid: u32) -> Result<i32, Errno> {
    i32::try_from(pid).map_err(|_| Errno::SRCH)
}

fn ended(raw: layout::Ended) -> Ended {
    let end = End::new(raw.kind, raw.status);
    Ended { pid: raw.pid, end, cpu: raw.cpu, memory: raw.memory }
}

/// Waits for a child: a number, -1 for any, 0 for any in the caller's group, or (negative) any in a
/// group.
pub fn wait(pid: i32) -> Result<Ended, Errno> {
    ffi::wait(pid, 0).map(ended)
}

/// Does the same as [`wait`], without waiting.
pub fn try_wait(pid: i32) -> Result<Option<Ended>, Errno> {
    let raw = ffi::wait(pid, NO_HANG)?;
    Ok((raw.pid != 0).then(|| ended(raw)))
}

/// Sends a signal to a process or (negative) to a group; 0 is the caller's group.
pub fn kill(pid: i32, signal: u32) -> Result<(), Errno> {
    ffi::kill(pid, signal)
}

/// Moves a running process to the kernel with this number, with its memory, descriptors and waits.
/// Returns when it runs there. [`Errno::NOTSUP`] unless its program is installed with
/// `movable = true`; allowed as for [`kill`].
pub fn move_to(pid: u32, kernel: u32) -> Result<(), Errno> {
    ffi::move_to(pid, kernel)
}

/// Moves a process (0: the caller) to a group (0: a new one of its own).
pub fn set_group(pid: u32, group: u32) -> Result<(), Errno> {
    ffi::group(pid, group)
}

/// Returns the caller's identity.
pub fn identity() -> Result<Identity, Errno> {
    ffi::who()
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its kernel has not received the request yet.
    Waiting,
    /// Its kernel is loading it.
    Starting,
    /// It runs or waits.
    Running,
    /// It has ended; its parent has not waited for it yet.
    Ended(End),
}

/// A process in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process number.
    pub pid: u32,
    /// Parent's number; 0: the system.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Index of its kernel.
    pub kernel: u16,
    /// State.
    pub state: State,
    /// soc time of the spawn request, in ns.
    pub began: u64,
    /// CPU time in ns, as last reported by its kernel.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
    /// Number of requests to services.
    pub messages: u64,
    /// Name.
    pub name: String,
}

impl From<&Listed> for Process {
    fn from(raw: &Listed) -> Process {
        let end = raw.name.iter().position(|b| *b == 0).unwrap_or(raw.name.len());
        let name = raw.name.get(..end).unwrap_or_default();
        Process {
            pid: raw.pid,
            parent: raw.parent,
            group: raw.group,
            kernel: raw.kernel,
            state: match raw.state {
                1 => State::Waiting,
                2 => State::Starting,
                3 => State::Running,
                _ => State::Ended(End::new(raw.kind, raw.status)),
            },
            began: raw.began,
            cpu: raw.cpu,
            memory: raw.memory,
            messages: raw.messages,
            name: String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// Lists all processes, by number.
pub fn list() -> Result<Vec<Process>, Errno> {
    const STEP: usize = 32;
    // Numbers rise with each request, so this ends.
    let (mut found, mut above) = (Vec::new(), 0);
    loop {
        let mut room = vec![Listed::default(); STEP];
        let filled = ffi::list(above, &mut room)?;
        let news = room.iter().take(filled).filter(|l| l.pid > above).map(Process::from);
        let before = found.len();
        found.extend(news);
        match found.last() {
            Some(last) if found.len() > before => above = last.pid,
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_the_codes_of_a_shell() {
        assert_eq!(End::new(1, 7).code(), 7);
        assert!(End::new(1, 0).success());
        assert_eq!(End::new(2, 15).code(), 143);
        assert_eq!(End::new(3, 2), End::Trap(Trap::Memory));
        assert_eq!(End::new(3, 2).code(), 139);
        assert_eq!(End::new(4, 0), End::Lost);
        assert_eq!(End::new(77, 0), End::Lost);
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal::parse("TERM"), Some(15));
        assert_eq!(signal::parse("sigkill"), Some(9));
        assert_eq!(signal::parse("30"), Some(30));
        assert_eq!(signal::parse("31"), None);
        assert_eq!(signal::parse("NEVER"), None);
        assert_eq!(signal::NAMES[signal::PIPE as usize], "PIPE");
    }

    #[test]
    fn arguments_name_a_signal_and_whom() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<String>>();
        let chosen = |text: &str| {
            let words = words(text);
            signal::chosen(&words).map(|(s, rest)| (s, rest.join(" "))).map_err(String::from)
        };
        for (text, which, whom) in [
            ("5", 15, "5"),
            ("-9 5 %1", 9, "5 %1"),
            ("-SIGINT -- -7", 2, "-7"),
            ("-s HUP 5", 1, "5"),
            ("-n 3 -- 5", 3, "5"),
            ("-- -5", 15, "-5"),
            ("-5", 15, "-5"),
            ("--", 15, ""),
        ] {
            assert_eq!(chosen(text), Ok((which, whom.into())), "{text}");
        }
        assert_eq!(chosen("-NEVER 5"), Err("NEVER".into()));
        assert_eq!(chosen("-s never 5"), Err("never".into()));
        assert_eq!(chosen("-s"), Err("-s".into()));
        assert_eq!(signal::chosen(&[]), Ok((15, &[][..])));
        let told = |text| signal::told(text);
        assert_eq!(
            [told("143"), told("9"), told("term")].map(Option::unwrap),
            ["TERM", "KILL", "15"]
        );
        assert_eq!([told("99"), told("never"), told("")], [None, None, None]);
        assert!(signal::names().starts_with("HUP INT") && signal::names().ends_with("SYS"));
    }

    #[test]
    fn a_listed_name_ends_at_its_nul() {
        let mut raw = Listed { pid: 5, state: 3, ..Listed::default() };
        raw.name[..2].copy_from_slice(b"sh");
        let process = Process::from(&raw);
        assert_eq!((process.name.as_str(), process.state), ("sh", State::Running));
        raw.name = [b'x'; 32];
        assert_eq!(Process::from(&raw).name.len(), 32);
    }
}
