//! `aside`: runs commands on a thread of their own, so that the monitor can do something else
//! meanwhile.

use super::{Command, Failure, Outcome, Session};
use arch::lock::Lock;
use core::fmt::Write;
use kernel_monitor::commands::LINE;
use kernel_msg::Level;
use kernel_node::print::Text;

pub const COMMANDS: &[Command] = &[Command {
    name: "aside",
    arguments: "COMMAND... [then COMMAND...]...",
    help: "run commands on a thread of their own; their output goes to the early log",
    run: aside,
}];

/// Most bytes of a command's output that are logged.
const SAID: usize = 1024;

/// Most commands that wait for their threads to start.
const MOST: usize = 4;

/// Command lines that their threads have not taken yet. The index is the thread's argument.
static LINES: Lock<[Option<Text<LINE>>; MOST]> =
    Lock::new(kernel_node::ranks::TEST, [const { None }; MOST]);

fn aside(session: &Session, out: &mut dyn Write, words: &[&str]) -> Outcome {
    if words.is_empty() {
        return Err(Failure::Usage);
    }
    let place =
        claim(super::joined(words)?).ok_or(Failure::Failed("too many commands wait to begin"))?;
    if session.kernel.spawn("aside", None, run, place).is_err() {
        LINES.lock()[place] = None;
        return Err(Failure::Failed("no memory for a thread"));
    }
    writeln!(out, "  begun; its answer goes to the early log")?;
    Ok(())
}

fn claim(line: Text<LINE>) -> Option<usize> {
    let mut lines = LINES.lock();
    let place = lines.iter().position(Option::is_none)?;
    lines[place] = Some(line);
    Some(place)
}

/// The thread of a command. No handler waits for it, so its calls have level 0.
fn run(place: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let Some(line) = LINES.lock()[place].take() else { return };
    let line = core::str::from_utf8(line.as_bytes()).unwrap_or("").trim_end();
    for line in line.split(" then ") {
        let mut said = Text::<SAID>::new();
        kernel_monitor::commands::run(&Session::at(kernel, Level(0)), &mut said, line);
        let said = core::str::from_utf8(said.as_bytes()).unwrap_or("what it said is not text");
        kernel_node::log!("{line}: {}", said.trim());
    }
}
