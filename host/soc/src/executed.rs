//! How long the domains have executed, as far as the host can tell: the time of their QEMUs'
//! threads that run virtual processors (`/proc/PID/task/TID/schedstat`). In the lab it is the time
//! of the chip.

use std::fs;
use std::path::{Path, PathBuf};

/// The virtual processors of a domain.
#[derive(Debug, Default)]
pub struct Executed {
    process: u32,
    cores: Vec<Core>,
    total: u64,
}

#[derive(Debug)]
struct Core {
    thread: PathBuf,
    ns: u64,
}

impl Executed {
    /// Returns how long the domain whose QEMU is `process` has executed, in ns from any beginning;
    /// none if the host does not tell it for any core. Of several cores, the one counts that has
    /// executed least since the last call, unless it slept all the time: a core that its host did
    /// not run may be the one that others wait for.
    pub fn read(&mut self, process: u32) -> Option<u64> {
        self.read_in(process, &PathBuf::from(format!("/proc/{process}/task")))
    }

    /// Does the same for a process with its threads in `folder`.
    fn read_in(&mut self, process: u32, folder: &Path) -> Option<u64> {
        if self.process != process || self.cores.is_empty() {
            (self.process, self.cores) = (process, cores(folder));
        }
        let (mut least, mut is_measured) = (None, false);
        for core in &mut self.cores {
            let Some(ns) = time(&core.thread) else { continue };
            is_measured = true;
            let spent = ns.saturating_sub(std::mem::replace(&mut core.ns, ns));
            if spent > 0 || !sleeps(&core.thread) {
                least = Some(least.map_or(spent, |least: u64| least.min(spent)));
            }
        }
        self.total += least.unwrap_or(0);
        is_measured.then_some(self.total)
    }
}

/// Returns the threads of a QEMU that run virtual processors, by the names that `debug-threads` in
/// its command line gives them.
fn cores(folder: &Path) -> Vec<Core> {
    let Ok(threads) = fs::read_dir(folder) else { return vec![] };
    let threads = threads.filter_map(|thread| Some(thread.ok()?.path()));
    let runs = |thread: &PathBuf| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("CPU "))
    };
    threads.filter(runs).map(|thread| Core { ns: time(&thread).unwrap_or(0), thread }).collect()
}

/// The processor time of a thread, in ns. Linux says 0 if it does not count that time.
fn time(thread: &Path) -> Option<u64> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().filter(|ns| *ns > 0)
}

/// Returns whether a thread waits for something, such as the next interrupt.
fn sleeps(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()) != Some("R")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_computes_has_executed_and_one_that_sleeps_has_not() {
        let end = Instant::now() + Duration::from_millis(400);
        let name = |name: &str| std::thread::Builder::new().name(name.into());
        let busy = name("CPU 0/TCG").spawn(move || while Instant::now() < end {});
        let idle = name("CPU 1/TCG").spawn(|| std::thread::sleep(Duration::from_millis(400)));
        std::thread::sleep(Duration::from_millis(50));
        let mut executed = Executed::default();
        let first = executed.read(std::process::id()).expect("a time");
        std::thread::sleep(Duration::from_millis(250));
        let ns = executed.read(std::process::id()).expect("a time") - first;
        assert!((1_000_000..=300_000_000).contains(&ns), "{ns} ns");
        for thread in [busy, idle] {
            thread.expect("a thread").join().expect("no panic");
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(cores(Path::new("/proc/self/task")).len(), 0, "other threads do not count");
    }

    #[test]
    fn a_host_that_does_not_tell_the_time_of_threads_is_one_without_a_measurement() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut executed = Executed::default();
        assert_eq!(executed.read_in(7, &folder.path().join("missing")), None);
        assert_eq!(executed.read_in(7, folder.path()), None, "no threads");
        let thread = folder.path().join("8");
        fs::create_dir(&thread).expect("a folder");
        let put = |name: &str, text: &str| fs::write(thread.join(name), text).expect("a file");
        put("comm", "CPU 0/TCG\n");
        put("stat", "8 (CPU 0/TCG) R 1");
        assert_eq!(executed.read_in(7, folder.path()), None, "no schedstat");
        put("schedstat", "");
        assert_eq!(executed.read_in(7, folder.path()), None, "an empty one");
        put("schedstat", "0 0 0\n");
        assert_eq!(executed.read_in(7, folder.path()), None, "a kernel that does not count");
        put("schedstat", "500 0 1\n");
        assert_eq!(executed.read_in(7, folder.path()), Some(500));
        put("schedstat", "900 0 1\n");
        assert_eq!(executed.read_in(7, folder.path()), Some(900));
    }
}
