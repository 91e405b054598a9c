//! `aside`: a command on a thread of its own, for what has to go on while something else happens.

use super::line::LINE;
use super::{Command, Failure, Outcome, Session};
use crate::panic::Text;
use alloc::collections::VecDeque;
use arch::lock::Lock;
use core::fmt::Write;
use kernel_msg::Level;

pub const COMMANDS: &[Command] = &[Command {
    name: "aside",
    arguments: "COMMAND...",
    help: "run a command on a thread of its own; it talks to the early log",
    run: aside,
}];

/// Most bytes of what a command says that are kept.
const SAID: usize = 1024;

/// Lines that no thread has taken yet; each has a thread that will.
static LINES: Lock<VecDeque<Text<LINE>>> = Lock::new(crate::ranks::TEST, VecDeque::new());

fn aside(session: &Session, out: &mut dyn Write, words: &[&str]) -> Outcome {
    if words.is_empty() {
        return Err(Failure::Usage);
    }
    let mut line = Text::new();
    words.iter().try_for_each(|word| write!(line, "{word} "))?;
    let no_memory = Failure::Failed("no memory for a thread");
    {
        let mut lines = LINES.lock();
        if lines.try_reserve(1).is_err() {
            return Err(no_memory);
        }
        lines.push_back(line);
    }
    if session.kernel.spawn("aside", None, run, 0).is_err() {
        LINES.lock().pop_back();
        return Err(no_memory);
    }
    writeln!(out, "  begun; its answer goes to the early log")?;
    Ok(())
}

/// Nobody waits for this thread, so it calls like any other of this kernel.
fn run(_: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let Some(line) = LINES.lock().pop_front() else { return };
    let line = core::str::from_utf8(line.as_bytes()).unwrap_or("").trim_end();
    let mut said = Text::<SAID>::new();
    super::run(&Session::at(kernel, Level(0)), &mut said, line);
    let said = core::str::from_utf8(said.as_bytes()).unwrap_or("what it said is not text");
    crate::log!("{line}: {}", said.trim());
}
