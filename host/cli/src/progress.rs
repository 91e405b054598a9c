//! Lines that tell a person what takes time: `name ...`, a reminder every ten seconds, the end.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REMINDER: Duration = Duration::from_secs(10);
/// A step shorter than this leaves no line.
const QUICK: Duration = Duration::from_millis(700);

/// A step that is under way; dropping it ends the reminders.
pub struct Step {
    name: String,
    start: Instant,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Step {
    /// Begins; the first line appears once the step proves not to be quick.
    pub fn begin(name: &str) -> Self {
        let (stop, stopped) = channel();
        let (shown, start) = (name.to_string(), Instant::now());
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(QUICK).is_ok() {
                return;
            }
            eprintln!("pen: {shown} ...");
            while stopped.recv_timeout(REMINDER).is_err() {
                eprintln!("pen: {shown}: {} s so far", start.elapsed().as_secs());
            }
        });
        Self { name: name.to_string(), start, stop: Some(stop), thread: Some(thread) }
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
