//! `pipe`: one kernel writes a pattern to a pipe, another one reads and checks it. Both wait when
//! the pipe is full or empty.

use super::first_peer;
use super::{Command, Failure, Outcome, Session, buffer, number};
use abi::msg::MAX_PAYLOAD;
use alloc::vec;
use base::prng::Prng;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_msg::Level;
use kernel_node::print::Text;
use kernel_platform::peers::Procedure;
use kernel_services::files::with_client;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "pipe",
        arguments: "[BYTES]",
        help: "send bytes through a pipe, to another kernel if there is one, and check them",
        run: pipe,
    },
    Command { name: "drain", arguments: "HANDLE", help: "the other end of `pipe`", run: drain },
];

/// Most bytes in one write.
const PIECE: u64 = 3000;

static HANDLE: AtomicU64 = AtomicU64::new(0);
static LEVEL: AtomicU64 = AtomicU64::new(0);
/// Bytes that were received correctly.
static DRAINED: AtomicU64 = AtomicU64::new(0);

/// Returns byte `at` of the pattern.
fn pattern(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

fn pipe(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let bytes = number(arguments, 0, 100_000)? as u64;
    let (reads, writes) = with_client(session, |client| client.pipe(0))?;
    HANDLE.store(reads, Ordering::Relaxed);
    LEVEL.store(u64::from(session.level.0), Ordering::Relaxed);
    DRAINED.store(0, Ordering::Relaxed);
    let reader = kernel.spawn("drain", None, reader, 0);
    let written = match reader {
        Ok(_) => fill(session, writes, bytes),
        Err(_) => Err(Failure::Failed("no memory for a thread")),
    };
    with_client(session, |client| client.close(writes))?;
    if let Ok(reader) = reader {
        kernel.scheduler.join(reader);
    }
    // Fails if the reader has closed it.
    let _ = with_client(session, |client| client.close(reads));
    written?;
    let drained = DRAINED.load(Ordering::Relaxed);
    writeln!(out, "  {drained} of {bytes} bytes came as they were sent")?;
    if drained == bytes { Ok(()) } else { Err(Failure::Failed("bytes are missing or wrong")) }
}

fn fill(session: &Session, handle: u64, bytes: u64) -> Outcome {
    let mut prng = Prng::new(bytes);
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + 1 + prng.below(PIECE));
        let mut piece: vec::Vec<u8> = (at..end).map(pattern).collect();
        while !piece.is_empty() {
            let some = with_client(session, |client| client.write(handle, &piece))?;
            piece.drain(..some);
        }
        at = end;
    }
    Ok(())
}

/// Thread: lets another kernel read the pipe, or reads it here if there is none.
fn reader(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let session = Session::at(kernel, Level(LEVEL.load(Ordering::Relaxed) as u8));
    let handle = HANDLE.load(Ordering::Relaxed);
    let mut line = Text::<40>::new();
    let (Ok(mut answer), Ok(())) = (buffer(MAX_PAYLOAD), write!(line, "drain {handle}")) else {
        return;
    };
    let good = match first_peer(kernel) {
        Ok(peer) => {
            let called = session.call(peer, Procedure::Run, line.as_bytes(), &mut answer);
            let text = called.ok().and_then(|bytes| core::str::from_utf8(&answer[..bytes]).ok());
            text.and_then(|text| text.trim().split(' ').next()?.parse().ok())
        }
        Err(_) => drained(&session, handle).ok(),
    };
    DRAINED.store(good.unwrap_or(0), Ordering::Relaxed);
}

fn drain(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let [handle] = arguments else { return Err(Failure::Usage) };
    let handle = handle.parse().map_err(|_| Failure::Usage)?;
    let good = drained(session, handle)?;
    Ok(writeln!(out, "  {good} bytes as they should be")?)
}

/// Reads the pipe to its end. Returns the number of bytes before the first wrong one.
fn drained(session: &Session, handle: u64) -> Result<u64, Failure> {
    let mut prng = Prng::new(handle);
    let (mut at, mut good) = (0, 0);
    loop {
        let mut piece = vec![0; 1 + prng.below(PIECE) as usize];
        let bytes = with_client(session, |client| client.read(handle, &mut piece))?;
        if bytes == 0 {
            return Ok(good);
        }
        for &byte in &piece[..bytes] {
            good += u64::from(good == at && byte == pattern(at));
            at += 1;
        }
    }
}
