//! What this kernel does for others: the procedures behind [`Ask`].

use crate::kernel::Kernel;
use crate::monitor::Session;
use crate::peers::Terms;
use crate::power::OffError;
use abi::msg::MAX_PAYLOAD;
use alloc::vec::Vec;
use kernel_msg::{Class, Refusal, Request};

/// Procedures of a kernel; the number goes into the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Ask {
    /// The payload back; any context.
    Echo = 1,
    /// The payload back, after sleeping a moment.
    SlowEcho = 2,
    /// The payload back, after asking the caller the same as often as its first word says.
    Nest = 3,
    /// Runs a line of the monitor; answers its text.
    Run = 4,
    /// Powers this domain off, memory kept, right after the answer.
    PowerOff = 5,
    /// Executes a request of a service ([`share::codec`]).
    Serve = 6,
    /// Wakes whoever is parked under a token. A notice: nothing comes back.
    Wake = 7,
    /// Gives a block to the pool; answers whether it did.
    GiveBlock = 8,
}

impl Ask {
    const ALL: [Ask; 8] = [
        Ask::Echo,
        Ask::SlowEcho,
        Ask::Nest,
        Ask::Run,
        Ask::PowerOff,
        Ask::Serve,
        Ask::Wake,
        Ask::GiveBlock,
    ];

    /// How it may be run.
    pub fn class(self) -> Class {
        match self {
            Ask::Echo | Ask::Wake => Class::Urgent,
            _ => Class::Blockable,
        }
    }

    fn from_code(code: u16) -> Result<Ask, Refusal> {
        Ask::ALL.into_iter().find(|&ask| ask as u16 == code).ok_or(Refusal::NoSuchProc)
    }
}

/// Runs an urgent request: no wait, no lock that is not a leaf.
pub fn urgent(
    kernel: &Kernel,
    request: &Request,
    payload: &[u8],
    reply: &mut [u8],
) -> Result<usize, Refusal> {
    match Ask::from_code(request.proc)? {
        Ask::Echo => {
            reply.get_mut(..payload.len()).ok_or(Refusal::TooLarge)?.copy_from_slice(payload);
            Ok(payload.len())
        }
        Ask::Wake => kernel.services.heard_wake(kernel, payload),
        _ => Err(Refusal::Refused),
    }
}

/// Runs a blockable request on a handler thread; may sleep and call on. What may block tells the
/// pool first, and calls at the level below the request's: rules 4 and 5 of
/// `docs/design/messages.md`.
pub fn blockable(
    kernel: &'static Kernel,
    request: &Request,
    mut payload: Vec<u8>,
) -> Result<Vec<u8>, Refusal> {
    match Ask::from_code(request.proc)? {
        Ask::Echo | Ask::Wake => Err(Refusal::Refused),
        Ask::Serve => kernel.services.serve(kernel, request, &payload),
        Ask::SlowEcho => {
            let moment = 20_000 + payload.len() as u64 * 50;
            let _blocked = kernel.peers.handlers.will_block(kernel);
            kernel.scheduler.sleep_until(arch::time::soc_time() + moment);
            Ok(payload)
        }
        Ask::Nest => nest(kernel, request, payload),
        Ask::Run => {
            let line = core::str::from_utf8(&payload).map_err(|_| Refusal::Refused)?;
            let mut text = Answer(with_room(MAX_PAYLOAD)?);
            let _blocked = kernel.peers.handlers.will_block(kernel);
            let session = Session::at(kernel, request.level.deeper());
            crate::monitor::run(&session, &mut text, line);
            Ok(text.0)
        }
        Ask::GiveBlock => {
            let answer = crate::balloon::give_block(kernel, request.from)?;
            payload.clear();
            payload.extend_from_slice(&answer);
            Ok(payload)
        }
        Ask::PowerOff => {
            kernel.power_off_soon().map_err(|why| match why {
                OffError::UnderWay => Refusal::Refused,
                OffError::NoMemory => Refusal::NoMemory,
            })?;
            payload.truncate(8);
            Ok(payload)
        }
    }
}

/// The request was served and its answer written: does what had to wait for that.
pub fn answered(kernel: &Kernel, request: &Request) {
    if Ask::from_code(request.proc) == Ok(Ask::PowerOff) {
        kernel.answered_power_off();
    }
}

fn nest(kernel: &'static Kernel, request: &Request, payload: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    let depth = payload.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    if depth > 0 {
        let (mut onward, mut back) = (with_room(payload.len())?, with_room(payload.len())?);
        onward.extend_from_slice(&(depth - 1).to_le_bytes());
        onward.extend_from_slice(&payload[8..]);
        back.resize(payload.len(), 0);
        let _blocked = kernel.peers.handlers.will_block(kernel);
        let terms = Terms { level: request.level.deeper(), patience: None };
        let called = kernel.peers.call(terms, request.from, Ask::Nest, &onward, &mut back);
        let bytes = called.map_err(|_| Refusal::Fault)?;
        if back[..bytes] != onward {
            return Err(Refusal::Fault);
        }
    }
    Ok(payload)
}

/// Memory for what another kernel asked for: it may ask when there is none.
fn with_room(bytes: usize) -> Result<Vec<u8>, Refusal> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| Refusal::NoMemory)?;
    Ok(room)
}

/// Text of an answer, cut where a reply ends; it has that much room from the start.
struct Answer(Vec<u8>);

impl core::fmt::Write for Answer {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = MAX_PAYLOAD - self.0.len();
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.extend_from_slice(&text.as_bytes()[..end]);
        if end == text.len() { Ok(()) } else { Err(core::fmt::Error) }
    }
}
