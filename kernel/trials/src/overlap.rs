//! `overlap`: both kernels make random requests to the file service at the same time. Each request
//! is recorded with its reply and the times of its start and end. `host/linear` checks whether some
//! order explains them, that is, whether the service is linearizable.

use super::first_peer;
use super::{Command, Failure, Outcome, Session, number};
use abi::fs::{Op, Poll, Reply, Request, flag, ready};
use abi::msg::MAX_PAYLOAD;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::prng::Prng;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_msg::Level;
use kernel_node::print::Text;
use kernel_platform::peers::Procedure;
use kernel_services::files::{explain, with_client};
use zerocopy::IntoBytes;

pub const COMMANDS: &[Command] = &[Command {
    name: "overlap",
    arguments: "SEED CALLS",
    help: "random file requests from both kernels at once; prints a record of each",
    run: overlap,
}];

/// Most calls of a kernel.
const MOST: u64 = 200;
/// The names of files and directories.
const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
/// Number of handles that both kernels use: a directory, two files, both ends of a pipe.
const HANDLES: usize = 5;

/// The records of this kernel's requests.
static LINES: Lock<Vec<String>> = Lock::new(kernel_node::ranks::TEST, Vec::new());
/// Arguments of this kernel's thread: seed, number of requests, handles.
static PLAN: [AtomicU64; 2 + HANDLES] = [const { AtomicU64::new(0) }; 2 + HANDLES];

fn overlap(session: &Session, out: &mut dyn Write, words: &[&str]) -> Outcome {
    match words.first() {
        Some(&"run") => {
            plan(words.iter().skip(1).filter_map(|word| word.parse().ok()));
            work(session)
        }
        Some(&"line") => {
            let at = number(words, 1, 0)? as usize;
            let line = LINES.lock().get(at).cloned();
            line.map_or(Ok(()), |line| Ok(writeln!(out, "{line}")?))
        }
        Some(_) => both(session, out, words),
        None => Err(Failure::Usage),
    }
}

fn plan(numbers: impl Iterator<Item = u64>) {
    PLAN.iter().zip(numbers).for_each(|(word, number)| word.store(number, Ordering::Relaxed));
    LINES.lock().clear();
}

/// Runs both kernels, then prints the records of both.
fn both(session: &Session, out: &mut dyn Write, words: &[&str]) -> Outcome {
    let (seed, calls) = (number(words, 0, 1)?, number(words, 1, 40)?.min(MOST));
    let peer = first_peer(session.kernel)?;
    plan([seed, calls].into_iter());
    let handles = begin(session)?;
    handles
        .iter()
        .zip(&PLAN[2..])
        .for_each(|(handle, word)| word.store(*handle, Ordering::Relaxed));
    let mut line = Text::<{ kernel_monitor::commands::LINE }>::new();
    write!(line, "overlap run {} {calls}", seed ^ 1 << 32)?;
    handles.iter().try_for_each(|handle| write!(line, " {handle}"))?;
    let no_memory = |_| Failure::Failed("no memory for a thread");
    let here = session.kernel.spawn("overlap", None, thread, 0).map_err(no_memory)?;
    let there = session.call(peer, Procedure::Run, line.as_bytes(), &mut [0; 256]);
    session.kernel.scheduler.join(here);
    there?;
    let own = core::mem::take(&mut *LINES.lock());
    own.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let mut answer = super::buffer(MAX_PAYLOAD)?;
    for at in 0.. {
        let mut line = Text::<40>::new();
        write!(line, "overlap line {at}")?;
        let bytes = session.call(peer, Procedure::Run, line.as_bytes(), &mut answer)?;
        if bytes == 0 {
            break;
        }
        out.write_str(core::str::from_utf8(&answer[..bytes]).unwrap_or("?\n"))?;
    }
    Ok(())
}

fn thread(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    // If it fails, records are missing, which `host/linear` detects.
    let _ = work(&Session::at(kernel, Level(0)));
}

/// Makes the handles that both kernels use.
fn begin(session: &Session) -> Result<[u64; HANDLES], Failure> {
    // In a directory of its own, because the root also contains mounts.
    let top = done(asked(session, Request::new(Op::Root, 0), &mut [])?)?.handle;
    let named = |op, flags| Request { name: 1, flags, ..Request::new(op, top) };
    done(asked(session, named(Op::Mkdir, 0), &mut b"o".to_vec())?)?;
    let open = named(Op::Open, flag::READ | flag::DIRECTORY);
    let root = done(asked(session, open, &mut b"o".to_vec())?)?.handle;
    let flags = flag::READ | flag::WRITE | flag::CREATE | flag::APPEND;
    let open = Request { name: 1, flags, ..Request::new(Op::Open, root) };
    let first = done(asked(session, open, &mut b"a".to_vec())?)?.handle;
    let second = done(asked(session, open, &mut b"b".to_vec())?)?.handle;
    let pipe = done(asked(session, Request::new(Op::Pipe, 0), &mut [])?)?;
    Ok([root, first, second, pipe.handle, pipe.other])
}

fn done(reply: Reply) -> Result<Reply, Failure> {
    if reply.error == 0 { Ok(reply) } else { Err(Failure::Failed(explain(reply.errno()))) }
}

fn work(session: &Session) -> Outcome {
    let numbers = PLAN.each_ref().map(|word| word.load(Ordering::Relaxed));
    let [seed, calls, handles @ ..] = numbers;
    let mut random = Prng::new(seed);
    let mut spare = 0;
    for count in 0..calls.min(MOST) {
        let (request, mut bulk) = draw(&mut random, &handles, count as u8, &mut spare);
        asked(session, request, &mut bulk)?;
    }
    Ok(())
}

/// Returns a random request. `spare` counts the bytes that this kernel has written to the pipe and
/// not requested again: it reads only such bytes, so no reader waits forever.
fn draw(
    random: &mut Prng,
    handles: &[u64; HANDLES],
    byte: u8,
    spare: &mut u64,
) -> (Request, Vec<u8>) {
    let [root, first, second, reads, writes] = *handles;
    let name = |random: &mut Prng| NAMES[random.below(4) as usize];
    let file = if random.chance(1, 2) { first } else { second };
    let named = |op, flags, name: &[u8]| {
        (Request { name: 1, flags, ..Request::new(op, root) }, name.to_vec())
    };
    let with =
        |request: Request, bulk: Vec<u8>| (Request { length: bulk.len() as u64, ..request }, bulk);
    match random.below(13) {
        0 => named(Op::Mkdir, 0, name(random)),
        1 => named(Op::Unlink, 0, name(random)),
        2 => named(Op::StatPath, 0, name(random)),
        3 => named(Op::Rmdir, 0, name(random)),
        4 => {
            let two = Request { name: 1, other: 1, second: root, ..Request::new(Op::Rename, root) };
            (two, [name(random), name(random)].concat())
        }
        5..7 => with(Request::new(Op::Write, file), vec![byte; 3]),
        7 => with(Request { flags: flag::AT, ..Request::new(Op::Read, file) }, vec![0; 40]),
        8 => (Request::new(Op::Stat, file), Vec::new()),
        9 => with(Request::new(Op::Readdir, root), vec![0; 600]),
        10 if *spare > 0 => {
            *spare -= 1;
            with(Request::new(Op::Read, reads), vec![0; 1])
        }
        11 => {
            let poll = Poll { handle: reads, want: ready::READ, ..Poll::default() };
            with(Request::new(Op::Poll, 0), poll.as_bytes().to_vec())
        }
        _ => {
            *spare += 2;
            with(Request::new(Op::Write, writes), vec![byte; 2])
        }
    }
}

/// Makes a request and records it: the kernel, the earliest start and the latest end that its clock
/// allows, then request, bytes sent, reply, and bytes received in hexadecimal.
fn asked(session: &Session, request: Request, bulk: &mut [u8]) -> Result<Reply, Failure> {
    let mut line = String::new();
    let sent = bulk.to_vec();
    let invoked = arch::time::soc_time();
    let reply = with_client(session, |client| Ok((client.0)(request, bulk)))?;
    let returned = arch::time::soc_time();
    let error = session.kernel.soc.clock_error();
    let (earliest, latest) = (invoked.saturating_sub(error), returned + error);
    write!(line, "call {} {earliest} {latest}", session.kernel.me.0)?;
    let filled = &bulk[..(reply.filled as usize).min(bulk.len())];
    for piece in [request.as_bytes(), &sent, reply.as_bytes(), filled] {
        write!(line, " x")?;
        piece.iter().try_for_each(|byte| write!(line, "{byte:02x}"))?;
    }
    LINES.lock().push(line);
    Ok(reply)
}
