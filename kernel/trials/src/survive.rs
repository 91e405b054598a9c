//! `survive`: [`mixed`](super::mixed) on this kernel and on its first peer at once, while the peer
//! may die and be stopped at any moment. Afterwards both must serve again. `there`: a command on
//! the peer, in such circumstances.

use super::mixed::{self, KINDS_OF_ROUNDS, answers, deaths};
use super::{Command, Failure, Outcome, Session, buffer, first_peer, joined, number};
use abi::msg::MAX_PAYLOAD;
use alloc::format;
use alloc::string::String;
use arch::lock::Lock;
use core::fmt::Write;
use kernel_msg::Level;
use kernel_platform::peers::Procedure;
use kernel_services::kernel;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "survive",
        arguments: "SEED [ROUNDS]",
        help: "`mixed` on this kernel and its first peer at once; the peer may die meanwhile",
        run: survive,
    },
    Command {
        name: "there",
        arguments: "COMMAND...",
        help: "run a command in the first peer, again whenever the peer dies meanwhile",
        run: there,
    },
];

/// The peer's part: what to do, then what it has answered.
static FAR: Lock<Option<(u64, u64)>> = Lock::new(kernel_node::ranks::TEST, None);
static ANSWER: Lock<Option<Result<String, String>>> = Lock::new(kernel_node::ranks::TEST, None);

fn survive(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let seed: u64 = arguments.first().and_then(|word| word.parse().ok()).ok_or(Failure::Usage)?;
    let rounds = number(arguments, 1, 2 * KINDS_OF_ROUNDS)?;
    let good = [
        part(session, out, (seed, rounds))?,
        // Everything has happened that will, or happens now.
        part(session, out, (seed + 1, KINDS_OF_ROUNDS))?,
    ];
    match good {
        [true, true] => Ok(writeln!(out, "  survived {} deaths", deaths(session.kernel))?),
        _ => Err(Failure::Failed("an answer was wrong")),
    }
}

/// Both kernels work. Returns whether all answers were right.
fn part(session: &Session, out: &mut dyn Write, what: (u64, u64)) -> Result<bool, Failure> {
    let scheduler = &session.kernel.scheduler;
    *FAR.lock() = Some(what);
    let no_memory = Failure::Failed("no memory for a thread");
    let far = session.kernel.spawn("far", None, far, 0).map_err(|_| no_memory)?;
    let here = mixed::run(session, what.0, what.1);
    scheduler.join(far);
    let there = ANSWER.lock().take().unwrap_or_else(|| Err("no answer".into()));
    for (name, said) in [("here", &here), ("there", &there)] {
        let (Ok(text) | Err(text)) = said;
        writeln!(out, "  {name}: {text}")?;
    }
    Ok(here.is_ok() && there.is_ok())
}

fn far(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    let Some((seed, rounds)) = FAR.lock().take() else { return };
    let session = Session::at(kernel, Level(0));
    let answer = work_there(&session, format!("mixed {seed} {rounds}").as_bytes());
    let is_good = |text: &String| text.ends_with("nothing wrong");
    let answer = answer.and_then(|text| if is_good(&text) { Ok(text) } else { Err(text) });
    *ANSWER.lock() = Some(answer);
}

fn there(session: &Session, out: &mut dyn Write, words: &[&str]) -> Outcome {
    if words.is_empty() {
        return Err(Failure::Usage);
    }
    match work_there(session, joined(words)?.as_bytes()) {
        Ok(text) if text.starts_with('!') => {
            writeln!(out, "  {text}")?;
            Err(Failure::Failed("the command failed there"))
        }
        Ok(text) => Ok(writeln!(out, "  {text}")?),
        Err(why) => {
            writeln!(out, "  {why}")?;
            Err(Failure::Failed("the peer is lost"))
        }
    }
}

/// Runs a command on the first peer, again after each of its deaths. Returns what it printed.
fn work_there(session: &Session, line: &[u8]) -> Result<String, String> {
    let kernel = session.kernel;
    let peer = first_peer(kernel).map_err(|why| String::from(why.text()))?;
    let mut answer = buffer(MAX_PAYLOAD).map_err(|why| String::from(why.text()))?;
    loop {
        let died = answers(session, peer)?;
        match session.call(peer, Procedure::Run, line, &mut answer) {
            Ok(bytes) => {
                let text = core::str::from_utf8(&answer[..bytes]).unwrap_or("no text");
                return Ok(text.trim().into());
            }
            Err(why) => {
                // One that hangs is silent at once, and reset when another kernel waits for it.
                answers(session, peer)?;
                if kernel.soc.deaths(peer) == died {
                    return Err(format!("lost, though it has not died: {}", why.text()));
                }
            }
        }
    }
}
