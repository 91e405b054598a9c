//! The coherence sanitizer as shared by all processes of a board: the model of `lab-cache` over
//! words that all of them map, one lock, and the file of reports.
//!
//! The lock is a word that holds the process id of its holder. Most accesses need no lock (see
//! [`lab_cache::Glance`]). Without turns, cores of many processes race for it; accesses of two
//! domains that no synchronisation orders may then be seen in either order, as on a chip.
//!
//! **Lost lines.** When a domain cleans a line, its bytes are kept in a second file: they are what
//! memory holds if the domain changes the line again and then loses its power. They are restored
//! then. A line that was never cleaned gets a pattern that no program expects.

use crate::model::{CACHE, KEPT, Lab, Memory, REPORTS};
use crate::report::Report;
use crate::words;
use lab_cache::{Access, Atomic, Domain, Glance, LINE, Model, Path as Way, Violation, words_for};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Written to each word of a lost line that was never cleaned.
const LOST: u64 = 0xdead_cace_dead_cace;
/// Words of a line.
const WORDS: usize = (LINE / 8) as usize;
/// Number of attempts before the lock's holder is checked.
const LOOKS: u32 = 1000;
/// Time between two attempts after that.
const PAUSE: Duration = Duration::from_micros(100);
/// How long a living holder is waited for before a warning: longer than a loaded host keeps a
/// thread from running.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the sanitizer could not start.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// One of its files cannot be used.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// The state in the file is invalid.
    #[error("{CACHE}: {0}")]
    State(#[from] lab_cache::AttachError),
}

/// A process's access to the sanitizer.
pub struct Watch {
    memory: Memory,
    glance: Glance<'static>,
    model: Mutex<Model<'static>>,
    lock: &'static AtomicU64,
    ram: &'static [AtomicU64],
    kept: &'static [AtomicU64],
    reports: File,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch over {:#x} bytes", self.memory.bytes)
    }
}

/// Maintenance of a line that no barrier has completed yet.
#[derive(Clone, Copy, Debug)]
pub struct Cleaning {
    /// Whether the line is also invalidated.
    pub drops: bool,
    /// Whether the domain has written to it since.
    pub written: bool,
    /// Whether it was dirty when this began.
    changed: bool,
    /// Its contents at that time.
    bytes: [u64; WORDS],
}

/// Callback for reports.
type Told<'t> = &'t mut dyn FnMut(&Violation);

impl Watch {
    /// Opens the files of `folder`, creating missing ones; `ram` is the RAM file.
    pub fn open(folder: &Path, ram: &Path, lab: &Lab) -> Result<Watch, WatchError> {
        let memory = lab.memory.clone();
        let (base, bytes) = (memory.base, memory.bytes);
        let map = |path: &Path, count| {
            words::map(path, count).map_err(|e| WatchError::File(path.display().to_string(), e))
        };
        let count = words_for(bytes);
        let state = map(&folder.join(CACHE), count + WORDS)?;
        let model = Model::attach(state, base, bytes)?;
        let path = folder.join(REPORTS);
        let reports = OpenOptions::new().append(true).create(true).open(&path);
        let reports = reports.map_err(|e| WatchError::File(path.display().to_string(), e))?;
        Ok(Watch {
            glance: Glance::attach(state, base, bytes)?,
            model: Mutex::new(model),
            lock: &state[count],
            ram: map(ram, (bytes / 8) as usize)?,
            kept: map(&folder.join(KEPT), (bytes / 8) as usize)?,
            reports,
            memory,
        })
    }

    /// Returns the board's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the word of RAM at `pa`, or 0 outside of it.
    pub fn word(&self, pa: u64) -> u64 {
        let index = (pa.wrapping_sub(self.memory.base) / 8) as usize;
        self.ram.get(index).map_or(0, |word| word.load(RELAXED))
    }

    /// Handles a load.
    #[inline]
    pub fn load(&self, access: Access, way: Way) {
        let Access { domain, pa, len, .. } = access;
        match way {
            Way::Cached if self.glance.read(domain, pa, len) => {}
            Way::Cached => self.enter(|model, told| model.read(access, told)),
            Way::Uncached if self.glance.uncached_read(domain, pa, len) => {}
            Way::Uncached => self.enter(|model, told| model.uncached_read(access, told)),
        }
    }

    /// Handles a store of any width.
    #[inline]
    pub fn store(&self, access: Access, way: Way) {
        let Access { domain, pa, len, .. } = access;
        let settled = match way {
            Way::Cached if len > 8 => self.glance.wide_write(domain, pa, len),
            Way::Cached => self.glance.write(domain, pa, len),
            Way::Uncached => len <= 8 && self.glance.uncached_write(domain, pa, len),
        };
        if !settled {
            self.enter(|model, told| match way {
                _ if len > 8 => model.atomic(access, Atomic::WideStore, way, told),
                Way::Cached => model.write(access, told),
                Way::Uncached => model.uncached_write(access, told),
            });
        }
    }

    /// Handles the load of an exclusive pair.
    #[inline]
    pub fn exclusive(&self, access: Access, way: Way) {
        let Access { domain, pa, len, .. } = access;
        if way == Way::Uncached || !self.glance.exclusive(domain, pa, len) {
            self.enter(|model, told| model.atomic(access, Atomic::ExclusiveLoad, way, told));
        }
    }

    /// Handles a read-modify-write, or the store of an exclusive pair.
    #[inline]
    pub fn change(&self, access: Access, way: Way) {
        let Access { domain, pa, len, .. } = access;
        if way == Way::Uncached || !self.glance.change(domain, pa, len) {
            self.enter(|model, told| model.atomic(access, Atomic::Change, way, told));
        }
    }

    /// Handles an instruction fetch.
    pub fn fetch(&self, domain: Domain, pa: u64, len: u64) {
        self.enter(|model, told| model.fetch(domain, pa, len, told));
    }

    /// Handles a device's read; `registers` identifies the device.
    pub fn device_read(&self, pa: u64, len: u64, registers: u64) {
        if !self.glance.device_read(pa, len) {
            self.enter(|model, told| model.device_read(pa, len, registers, told));
        }
    }

    /// Handles a device's write.
    pub fn device_write(&self, pa: u64, len: u64, registers: u64) {
        self.enter(|model, told| model.device_write(pa, len, registers, told));
    }

    /// Starts maintenance of the line at `pa`: takes its bytes before later stores.
    pub fn begin(&self, domain: Domain, pa: u64, drops: bool) -> Cleaning {
        let bytes = std::array::from_fn(|at| {
            self.line(self.ram, pa).get(at).map_or(0, |word| word.load(RELAXED))
        });
        let changed = self.glance.write(domain, pa & !(LINE - 1), 8);
        Cleaning { drops, written: false, changed, bytes }
    }

    /// Completes cleans of these lines, by address. A line written since its maintenance began may
    /// hold changes that memory lacks, so it counts as not cleaned; but memory has the bytes of
    /// that time.
    pub fn clean<'c>(
        &self,
        domain: Domain,
        lines: impl IntoIterator<Item = (&'c u64, &'c Cleaning)>,
    ) {
        self.enter(|model, _| {
            for (&pa, line) in lines {
                let dirty = model.is_dirty(domain, pa);
                if dirty && (line.changed || !line.written) {
                    let kept = self.line(self.kept, pa).iter().zip(line.bytes);
                    kept.for_each(|(word, value)| word.store(value, RELAXED));
                    model.saved(pa);
                }
                match (line.written, line.drops) {
                    (true, _) => {}
                    (false, true) => model.clean_invalidate(domain, pa),
                    (false, false) => model.clean(domain, pa),
                }
            }
        });
    }

    /// Invalidates a line.
    pub fn invalidate(&self, domain: Domain, pa: u64) {
        self.enter(|model, _| model.invalidate(domain, pa));
    }

    /// Makes a domain's writes visible to its own fetches: of one line, or of all.
    pub fn unify(&self, domain: Domain, line: Option<u64>) {
        self.enter(|model, _| match line {
            Some(pa) => model.unify(domain, pa),
            None => model.unify_all(domain),
        });
    }

    /// Handles the power-off of a domain, which `returns` if it continues later. Its emulator has
    /// written the ranges `loaded` meanwhile. Returns how many lines were lost.
    pub fn lose(&self, domain: Domain, loaded: &[(u64, u64)], returns: bool) -> usize {
        let mut count = 0;
        self.enter(|model, _| {
            loaded.iter().for_each(|&(from, to)| model.forget(from, to - from));
            let lost = if returns { model.power_off(domain) } else { model.death(domain) };
            for line in lost {
                count += 1;
                if line.saved {
                    self.copy(line.pa, self.kept, self.ram);
                } else {
                    self.line(self.ram, line.pa).iter().for_each(|w| w.store(LOST, RELAXED));
                }
            }
        });
        count
    }

    /// Handles a cold boot of the domain, with memory that its emulator has loaded.
    pub fn boots(&self, domain: Domain, loaded: &[(u64, u64)]) {
        self.enter(|model, _| {
            model.reset(domain);
            loaded.iter().for_each(|&(from, to)| model.forget(from, to - from));
        });
    }

    fn line(&self, words: &'static [AtomicU64], pa: u64) -> &'static [AtomicU64] {
        let first = ((pa & !(LINE - 1)).wrapping_sub(self.memory.base) / 8) as usize;
        words.get(first..first.saturating_add(WORDS)).unwrap_or_default()
    }

    fn copy(&self, pa: u64, from: &'static [AtomicU64], to: &'static [AtomicU64]) {
        let words = self.line(from, pa).iter().zip(self.line(to, pa));
        words.for_each(|(from, to)| to.store(from.load(RELAXED), RELAXED));
    }

    /// Passes an event to the model, with the lock held; reports go to the file.
    #[cold]
    #[inline(never)]
    fn enter(&self, event: impl FnOnce(&mut Model<'static>, Told<'_>)) {
        let mut found = Vec::new();
        {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            let _held = Held::take(self.lock);
            let before = model.untold();
            event(&mut model, &mut |violation| found.push(Report::from(violation)));
            if before == 0 && model.untold() != 0 {
                found.push(Report::more());
            }
        }
        for report in found {
            self.tell(&report);
        }
    }

    /// Adds a report to the file.
    pub fn tell(&self, report: &Report) {
        let line = serde_json::to_string(report).map(|text| text + "\n");
        // One write per line, so that lines of several processes do not mix.
        let written = line.map(|line| (&self.reports).write_all(line.as_bytes()));
        if !matches!(written, Ok(Ok(()))) {
            eprintln!("The sanitizer's report could not be written: {report:?}.");
        }
    }
}

const RELAXED: Ordering = Ordering::Relaxed;

/// The lock of all processes, held while this lives.
struct Held {
    lock: &'static AtomicU64,
    me: u64,
}

impl Held {
    /// Waits for the lock. It is taken only from a dead holder: one that a debugger or a signal has
    /// stopped will continue what it has begun.
    fn take(lock: &'static AtomicU64) -> Held {
        let me = u64::from(std::process::id());
        let mut waited = (0, Instant::now());
        for look in 0u32.. {
            let Err(holder) = lock.compare_exchange_weak(0, me, Ordering::Acquire, RELAXED) else {
                break;
            };
            if look < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            // An update that a dead holder left incomplete concerns one line only.
            let dead = !lives(holder);
            if dead && lock.compare_exchange(holder, me, Ordering::Acquire, RELAXED).is_ok() {
                break;
            }
            if waited.0 != holder {
                waited = (holder, Instant::now());
            } else if waited.1.elapsed() > PATIENCE {
                eprintln!("The sanitizer waits for process {holder}, which does not continue.");
                waited.1 = Instant::now();
            }
            std::thread::sleep(PAUSE);
        }
        Held { lock, me }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // If another process has taken it, it is left alone.
        let _ = self.lock.compare_exchange(self.me, 0, Ordering::Release, RELAXED);
    }
}

/// Returns whether the process runs. A zombie does not.
fn lives(process: u64) -> bool {
    if process == 0 {
        return true;
    }
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    state.is_ok_and(|text| {
        let state = text.rsplit(") ").next().and_then(|rest| rest.chars().next());
        !matches!(state, Some('Z' | 'X'))
    })
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
