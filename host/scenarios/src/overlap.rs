//! Both kernels use one file service concurrently; the history must be linearizable.

use super::{Failure, PATIENCE, Rig};
use abi::fs::{Reply, Request};
use fs::model::Model;
use fs::vfs::BUDGET;
use linear::files::{Ask, Files, Got};
use linear::{Call, check};
use zerocopy::FromBytes;

/// Number of requests of each kernel.
const CALLS: u64 = 60;
/// Number of requests before those, which both build on.
const BEFORE: u64 = 6;
/// Maximum number of steps of the search.
const STEPS: u64 = 2_000_000;

/// Checks one history; no file may exist before.
pub fn explained(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    history(rig)
}

/// The same at the prompt.
pub fn history(rig: &mut Rig) -> Result<(), Failure> {
    let text = rig.ask("main", &format!("overlap 1 {CALLS}"), PATIENCE)?;
    let wrong = |line: &str| Failure::Wrong(format!("not a line that describes a call: {line}"));
    let lines = text.lines().filter(|line| line.starts_with("call "));
    let calls = lines.map(|line| parse(line.trim()).ok_or_else(|| wrong(line)));
    let mut history = calls.collect::<Result<Vec<_>, _>>()?;
    history.sort_by_key(|call| call.invoked);
    let of_shadow = history.iter().filter(|call| call.who == 1).count() as u64;
    if of_shadow != CALLS || history.len() as u64 != 2 * CALLS + BEFORE {
        return Err(Failure::Wrong(format!("{} calls, {of_shadow} of shadow", history.len())));
    }
    // Times are widened by the clocks' errors, so calls of one kernel overlap too: each gets a
    // caller of its own.
    history.iter_mut().zip(0..).for_each(|(call, who)| call.who = who);
    match check(&Files, Model::new(BUDGET), &history, STEPS) {
        // The number of overlapping calls depends on the host.
        Ok(_) => Ok(()),
        Err(failure) => Err(Failure::Wrong(failure.describe(&history))),
    }
}

/// `call CALLER INVOKED RETURNED xREQUEST xBULK xREPLY xFILLED`
fn parse(line: &str) -> Option<Call<Ask, Got>> {
    let mut words = line.split(' ').skip(1);
    let mut number = || words.next()?.parse::<u64>().ok();
    let (who, invoked, returned) = (number()?, number()?, number()?);
    let mut piece = || bytes(words.next()?);
    let request = Request::read_from_bytes(&piece()?).ok()?;
    let bulk = piece()?;
    let reply = Reply::read_from_bytes(&piece()?).ok()?;
    let got = Got { reply, filled: piece()? };
    Some(Call { who: who as u32, ask: Ask { request, bulk }, reply: Some(got), invoked, returned })
}

fn bytes(word: &str) -> Option<Vec<u8>> {
    let digits = word.strip_prefix('x')?;
    let pair = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}
