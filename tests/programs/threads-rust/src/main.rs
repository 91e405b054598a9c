//! Threads of Rust's standard library, each used once in earnest. Prints `ok NAME` for each check,
//! or a reason, and ends with 1. Files are made in the current directory.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Condvar, Mutex, Once, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;

type Outcome = Result<(), String>;
type Check = fn() -> Outcome;

fn main() -> ExitCode {
    let checks: [(&str, Check); 5] = [
        ("join", join),
        ("locks", locks),
        ("channel", channel),
        ("local", local),
        ("files", files),
    ];
    for (name, check) in checks {
        if let Err(why) = check() {
            eprintln!("{name}: {why}");
            return ExitCode::FAILURE;
        }
        println!("ok {name}");
    }
    ExitCode::SUCCESS
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, expected: T, what: &str) -> Outcome {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}

fn lost(_: Box<dyn std::any::Any + Send>) -> String {
    "a thread has no result".to_string()
}

fn join() -> Outcome {
    let threads: Vec<_> = (0..THREADS).map(|i| thread::spawn(move || vec![i; 1000])).collect();
    for (i, handle) in (0..).zip(threads) {
        expect(handle.join().map_err(lost)?, vec![i; 1000], "a thread's result")?;
    }
    let big = thread::Builder::new().stack_size(1 << 20).spawn(deep).map_err(|e| e.to_string())?;
    expect(big.join().map_err(lost)?, 500 * 1024, "a large stack")
}

/// Needs half a megabyte of stack.
fn deep() -> usize {
    let bytes = std::hint::black_box([1u8; 500 * 1024]);
    bytes.iter().map(|byte| usize::from(*byte)).sum()
}

fn locks() -> Outcome {
    let (sum, largest, once) = (Mutex::new(0), RwLock::new(0), Once::new());
    let (begun, all) = (AtomicU64::new(0), Barrier::new(THREADS as usize));
    thread::scope(|scope| {
        for i in 0..THREADS {
            let (sum, largest, once, begun, all) = (&sum, &largest, &once, &begun, &all);
            scope.spawn(move || {
                all.wait();
                once.call_once(|| {
                    begun.fetch_add(1, Ordering::Relaxed);
                });
                for _ in 0..1000 {
                    // A poisoned lock is found below, by what it holds.
                    sum.lock().map(|mut sum| *sum += i).unwrap_or_default();
                }
                largest.write().map(|mut most| *most = i.max(*most)).unwrap_or_default();
            });
        }
    });
    expect(begun.into_inner(), 1, "what happens once")?;
    expect(largest.into_inner().ok(), Some(THREADS - 1), "a value under a read-write lock")?;
    expect(sum.into_inner().ok(), Some(1000 * THREADS * (THREADS - 1) / 2), "a sum under a mutex")?;
    timed_wait()
}

fn timed_wait() -> Outcome {
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    let (begun, wait) = (Instant::now(), Duration::from_millis(30));
    let guard = lock.lock().map_err(|e| e.to_string())?;
    let waited = changed.wait_timeout_while(guard, wait, |()| true).map_err(|e| e.to_string())?;
    expect(waited.1.timed_out(), true, "the end of a timed wait")?;
    expect(begun.elapsed() >= wait, true, "the whole of a timed wait")
}

fn channel() -> Outcome {
    let (sender, receiver) = mpsc::sync_channel(4);
    for i in 0..THREADS {
        let sender = sender.clone();
        thread::spawn(move || (0..100).try_for_each(|k| sender.send(i * 100 + k)));
    }
    drop(sender);
    let mut all: Vec<u64> = receiver.iter().collect();
    all.sort_unstable();
    expect(all, (0..THREADS * 100).collect(), "what a channel passes on")?;
    let parked = thread::spawn(thread::park);
    parked.thread().unpark();
    parked.join().map_err(lost)
}

static DROPPED: AtomicU64 = AtomicU64::new(0);

struct Counted(Cell<u64>);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0.get(), Ordering::Relaxed);
    }
}

thread_local! {
    static OWN: Counted = const { Counted(Cell::new(0)) };
}

/// Does a thread's variable keep its value while all others set theirs?
fn keeps(value: u64, all: &Barrier) -> bool {
    OWN.with(|own| own.0.set(value));
    all.wait();
    OWN.with(|own| own.0.get() == value)
}

fn local() -> Outcome {
    let all = Barrier::new(THREADS as usize);
    let kept = thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|i| {
                scope.spawn({
                    let all = &all;
                    move || keeps(i, all)
                })
            })
            .collect();
        threads.into_iter().all(|handle| handle.join().unwrap_or(false))
    });
    expect(kept, true, "a thread's own variable")?;
    expect(OWN.with(|own| own.0.get()), 0, "main's own variable")?;
    expect(DROPPED.load(Ordering::Relaxed), THREADS * (THREADS + 1) / 2, "destructors")
}

fn files() -> Outcome {
    let threads: Vec<_> = (0..4).map(|i| thread::spawn(move || one_file(i))).collect();
    threads.into_iter().try_for_each(|handle| handle.join().map_err(lost)?)
}

fn one_file(number: u32) -> Outcome {
    let path = format!("threads-rust.{number}");
    for round in 0..20 {
        let text = format!("{number} {round} ").repeat(200);
        std::fs::write(&path, &text).map_err(|e| format!("{path}: {e}"))?;
        let read = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        expect(read == text, true, "a file's text")?;
    }
    std::fs::remove_file(&path).map_err(|e| format!("{path}: {e}"))
}
