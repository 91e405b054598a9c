//! The threads of processes, from `/proc/KERNEL/tasks` of each kernel that runs.
//!
//! Contract: a kernel that rests, or does not answer, is not asked: reading its file would wake it.
//! Its threads are not known then, and not shown.

use crate::power::Kernel;
use penumbra::process::Process;

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    pid: u32,
    /// Its number in the process; 0: the main thread.
    number: u32,
    /// Index of the kernel that runs it.
    kernel: usize,
    kind: String,
    state: String,
    core: u32,
    /// Core time in ms.
    cpu: u64,
}

/// The threads of all processes.
#[derive(Debug, Default)]
pub struct Threads(Vec<Thread>);

impl Threads {
    /// Asks the kernels.
    pub fn of(kernels: &[Kernel]) -> Threads {
        let mut all = Threads::default();
        for (index, kernel) in kernels.iter().enumerate() {
            if let Some(text) = kernel.read("tasks") {
                all.0.extend(Threads::parse(index, &text).0);
            }
        }
        all.0.sort_by_key(|thread| (thread.pid, thread.number));
        all
    }

    /// Parses the file of a kernel: a title, then lines of `PID NUMBER KIND STATE CORE MS`.
    pub fn parse(kernel: usize, text: &str) -> Threads {
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [pid, number, kind, state, core, cpu] = words[..] else { return None };
            Some(Thread {
                pid: pid.parse().ok()?,
                number: number.parse().ok()?,
                kernel,
                kind: kind.to_string(),
                state: state.to_string(),
                core: core.parse().ok()?,
                cpu: cpu.parse().ok()?,
            })
        };
        Threads(text.lines().skip(1).filter_map(line).collect())
    }

    /// Returns how many threads a process has; `-` if none is known.
    pub fn count(&self, process: &Process) -> String {
        match self.0.iter().filter(|thread| thread.pid == process.pid).count() {
            0 => "-".to_string(),
            some => some.to_string(),
        }
    }

    /// Formats a table of threads, with the names of their processes.
    pub fn table(&self, all: &[Process], kernels: &[Kernel]) -> String {
        let mut text = "  PID   TID KERNEL   KIND   STATE   CORE     TIME NAME\n".to_string();
        for thread in &self.0 {
            let name = all.iter().find(|process| process.pid == thread.pid);
            let name = name.map_or("-", |process| process.name.as_str());
            let kernel = kernels.get(thread.kernel).map_or("-", |kernel| kernel.name.as_str());
            let Thread { pid, number, kind, state, core, cpu, .. } = thread;
            let time = format!("{}.{:02}", cpu / 1000, cpu / 10 % 100);
            text.push_str(&format!(
                "{pid:5} {number:5} {kernel:8} {kind:6} {state:7} {core:>4} {time:>8} {name}\n"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_a_line() {
        let text = "  pid thread  kind    state    core   cpu ms\n      \
                    7      0  normal  running     1     1230\n      \
                    7      2  light   blocked     0        5\n";
        let threads = Threads::parse(0, text);
        let kernels = crate::power::parse("main state running\n");
        assert_eq!(
            threads.table(&[], &kernels),
            "  PID   TID KERNEL   KIND   STATE   CORE     TIME NAME\n    \
             7     0 main     normal running    1     1.23 -\n    \
             7     2 main     light  blocked    0     0.00 -\n"
        );
        assert_eq!(Threads::parse(0, "title\nno line\n").0, []);
    }
}
