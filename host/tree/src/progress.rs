//! Lines that tell a person what takes time: `name ...`, a reminder every eight seconds, the end.
//! During a first run each says how far the whole is ([`plan`]).

pub mod cargo;
mod plan;

use plan::Plan;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REMINDER: Duration = Duration::from_secs(8);
/// A step shorter than this leaves no line.
const QUICK: Duration = Duration::from_millis(700);

/// A step that is under way; dropping it ends the reminders.
pub struct Step {
    name: String,
    start: Instant,
    done: Arc<Units>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How many of how many units of the step are done, in one word: `of << 32 | done`.
#[derive(Default)]
struct Units(AtomicU64);

impl Units {
    fn set(&self, done: u32, of: u32) {
        self.0.store(u64::from(of) << 32 | u64::from(done), Ordering::Relaxed);
    }

    /// Nothing until the first ones are known.
    fn get(&self) -> Option<(u32, u32)> {
        let word = self.0.load(Ordering::Relaxed);
        let (done, of) = (word as u32, (word >> 32) as u32);
        (of > 0).then_some((done, of))
    }
}

impl Step {
    /// Begins; the first line appears once the step proves not to be quick.
    pub fn begin(name: &str) -> Self {
        Self::begin_stage("", name)
    }

    /// The same for a stage of `stages.txt`.
    pub fn begin_stage(stage: &str, name: &str) -> Self {
        let (stop, stopped) = channel();
        let (shown, stage, start) = (name.to_string(), stage.to_string(), Instant::now());
        let done = Arc::new(Units::default());
        let units = done.clone();
        let thread = std::thread::spawn(move || {
            let plan = Plan::of_this_run();
            let at = || plan.as_ref().map_or(String::new(), |plan| plan.at(&stage));
            if stopped.recv_timeout(QUICK).is_err() {
                eprintln!("pen: {}{shown} ...", at());
                while stopped.recv_timeout(REMINDER).is_err() {
                    let seconds = start.elapsed().as_secs();
                    let count = units.get().map_or(String::new(), |(done, of)| {
                        plan::set_done(&stage, f64::from(done) / f64::from(of));
                        format!("{done} of {of} crates, ")
                    });
                    eprintln!("pen: {}{shown}: {count}{seconds} s so far", at());
                }
            }
            plan::set_done(&stage, 1.0);
        });
        Self { name: name.to_string(), start, done, stop: Some(stop), thread: Some(thread) }
    }

    /// From now on `done` of `of` units of it are done.
    pub fn set_done(&self, done: u32, of: u32) {
        self.done.set(done, of);
    }

    /// Ends with its time; quick steps leave no line.
    pub fn done(mut self) -> Duration {
        self.end();
        let took = self.start.elapsed();
        if took > QUICK {
            eprintln!("pen: {}: done, {:.1} s", self.name, took.as_secs_f64());
        }
        took
    }

    fn end(&mut self) {
        if let (Some(stop), Some(thread)) = (self.stop.take(), self.thread.take()) {
            // The thread may have gone already only if it panicked; nothing depends on it.
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.end();
    }
}
