//! `episode`: a light task as K2 measures one (its figure 6). A thread prepares it, and sleeps
//! until a given time, so that this kernel can rest. Then it does the work once, at full speed.
//!
//! `episode report` prints its parts as phases of the lab, named as those of Linux:
//! ```text
//! inactive_before | wake | work | idle, 5 s | inactive_after
//!   1 s before the time     what the kernels do then is up to them   1 s
//! ```

use super::table6::Copier;
use super::{Command, Failure, Outcome, Session};
use arch::lock::Lock;
use core::fmt::Write;
use kernel_msg::Level;

pub const COMMANDS: &[Command] = &[Command {
    name: "episode",
    arguments: "MS dma BYTES|report",
    help: "in MS ms, copy by DMA once; report: the times of what was done",
    run: episode,
}];

/// Time between the end of the work and the end of the idle part, as for Linux, in ns.
const IDLE: u64 = 5_000_000_000;
/// Time before and after that also counts, in ns.
const INACTIVE: u64 = 1_000_000_000;

/// Soc times of what was done, in ns.
#[derive(Clone, Copy)]
struct Times {
    due: u64,
    start: u64,
    end: u64,
}

impl Times {
    /// Returns when the last part ends.
    fn over(&self) -> u64 {
        self.end + IDLE + INACTIVE
    }
}

enum State {
    None,
    /// When, and of how many bytes.
    Planned(u64, u64),
    Prepared,
    Done(Times, Outcome),
}

static STATE: Lock<State> = Lock::new(kernel_node::ranks::TEST, State::None);

fn episode(session: &Session, out: &mut dyn Write, words: &[&str]) -> Outcome {
    let [ms, "dma", bytes] = words else {
        return if *words == ["report"] { report(out) } else { Err(Failure::Usage) };
    };
    let bytes = bytes.parse().map_err(|_| Failure::Usage)?;
    let ms: u64 = ms.parse().map_err(|_| Failure::Usage)?;
    let due = arch::time::soc_time().saturating_add(ms.saturating_mul(1_000_000));
    let mut state = STATE.lock();
    if matches!(*state, State::Planned(..) | State::Prepared) {
        return Err(Failure::Failed("another episode has not ended"));
    }
    *state = State::Planned(due, bytes);
    drop(state);
    match session.kernel.spawn("episode", None, run, 0) {
        Ok(_) => Ok(writeln!(out, "  planned in {ms} ms")?),
        Err(_) => {
            *STATE.lock() = State::None;
            Err(Failure::Failed("no memory for a thread"))
        }
    }
}

/// The thread. No handler waits for it, so its calls have level 0.
fn run(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let State::Planned(due, bytes) = core::mem::replace(&mut *STATE.lock(), State::Prepared) else {
        return;
    };
    let (times, outcome) = copy(&Session::at(kernel, Level(0)), due, bytes);
    *STATE.lock() = State::Done(times, outcome);
}

fn copy(session: &Session, due: u64, bytes: u64) -> (Times, Outcome) {
    let failed = |why| (Times { due, start: due, end: due }, Err(why));
    let mut copier = match Copier::new(session, bytes) {
        Ok(copier) => copier,
        Err(why) => return failed(why),
    };
    session.kernel.scheduler.sleep_until(due);
    let start = arch::time::soc_time();
    let outcome = copier.copies(1);
    let times = Times { due, start, end: arch::time::soc_time() };
    // The comparison is no part of the episode.
    session.kernel.scheduler.sleep_until(times.over() + INACTIVE);
    (times, outcome.and_then(|()| copier.check()))
}

fn report(out: &mut dyn Write) -> Outcome {
    let mut state = STATE.lock();
    let (times, outcome) = match core::mem::replace(&mut *state, State::None) {
        State::Done(times, outcome) => (times, outcome),
        other => {
            *state = other;
            return Err(Failure::Failed("no episode has ended"));
        }
    };
    drop(state);
    outcome?;
    if times.over() > arch::time::soc_time() {
        return Err(Failure::Failed("the episode is not over"));
    }
    let parts = [
        ("inactive_before", times.due.saturating_sub(INACTIVE)),
        ("wake", times.due),
        ("work", times.start),
        ("idle", times.end),
        ("inactive_after", times.end + IDLE),
        ("end", times.over()),
    ];
    parts.into_iter().try_for_each(|(name, at)| Ok(writeln!(out, "phase {name} {at}")?))
}
