//! Runs a command on the first peer while this kernel works.

use super::{buffer, first_peer};
use alloc::vec::Vec;
use arch::lock::Lock;
use core::fmt::Write;
use kernel_msg::Level;
use kernel_platform::peers::{CallFailure, Procedure};
use kernel_services::kernel;
use kernel_services::session::{Failure, Session};

/// A command line for a peer.
type Words = kernel_node::print::Text<96>;

/// The peer's command, and its answer. One at a time.
struct Far {
    busy: bool,
    level: Level,
    line: Words,
    answer: Result<Vec<u8>, CallFailure>,
}

static FAR: Lock<Far> = Lock::new(
    kernel_node::ranks::TEST,
    Far { busy: false, level: Level(0), line: Words::new(), answer: Err(CallFailure::Busy) },
);

/// Runs `work` while the first peer runs the command `line`. Returns both results.
pub fn beside<R>(
    session: &Session,
    line: core::fmt::Arguments<'_>,
    work: impl FnOnce() -> R,
) -> Result<(R, Vec<u8>), Failure> {
    let kernel = session.kernel;
    let mut words = Words::new();
    words.write_fmt(line)?;
    let mut far = FAR.lock();
    if core::mem::replace(&mut far.busy, true) {
        return Err(Failure::Failed("the peer still runs another test; try again"));
    }
    (far.level, far.line) = (session.level, words);
    drop(far);
    let thread = kernel.spawn("far dma", None, run_far, 0);
    let here = work();
    if let Ok(thread) = thread {
        kernel.scheduler.join(thread);
    }
    let mut far = FAR.lock();
    far.busy = false;
    let answer = core::mem::replace(&mut far.answer, Err(CallFailure::Busy));
    Ok((here, answer?))
}

fn run_far(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    let Ok(peer) = first_peer(kernel) else {
        FAR.lock().answer = Err(CallFailure::PeerLost);
        return;
    };
    let mut far = FAR.lock();
    let (level, line) = (far.level, core::mem::replace(&mut far.line, Words::new()));
    drop(far);
    let Ok(mut answer) = buffer(abi::msg::MAX_PAYLOAD) else { return };
    let session = Session::at(kernel, level);
    let bytes = session.call(peer, Procedure::Run, line.as_bytes(), &mut answer);
    FAR.lock().answer = bytes.map(|bytes| {
        answer.truncate(bytes);
        answer
    });
}
