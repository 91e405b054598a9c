//! What kernels ask of each other, and the port by which [`super::Peers`] has it done.

use alloc::vec::Vec;
use base::id::CoreId;
use kernel_msg::{Class, Refusal, Request};
use kernel_sched::SpawnError;

/// Procedures of a kernel; the number goes into the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Ask {
    /// The payload back; any context.
    Echo = 1,
    /// The payload back, after sleeping a moment.
    SlowEcho = 2,
    /// The payload back, after asking the caller the same as often as its first word says.
    #[cfg(feature = "trials")]
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
    const ALL: &[Ask] = &[
        Ask::Echo,
        Ask::SlowEcho,
        #[cfg(feature = "trials")]
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

    /// The procedure that a message names.
    pub fn from_code(code: u16) -> Result<Ask, Refusal> {
        Ask::ALL.iter().copied().find(|&ask| ask as u16 == code).ok_or(Refusal::NoSuchProc)
    }
}

/// What a kernel does for others.
pub trait Procedures: Sync {
    /// Runs an urgent request: no wait, no lock that is not a leaf.
    fn urgent(&self, request: &Request, payload: &[u8], reply: &mut [u8])
    -> Result<usize, Refusal>;

    /// Runs a blockable request on a handler thread; may sleep and call on. What may block tells
    /// the pool first, and calls at the level below the request's: rules 4 and 5 of
    /// `docs/design/messages.md`.
    fn blockable(&'static self, request: &Request, payload: Vec<u8>) -> Result<Vec<u8>, Refusal>;

    /// The request was served and its answer written: does what had to wait for that.
    fn answered(&self, request: &Request);

    /// Makes a handler thread, which calls [`super::Peers::work`] with `argument`.
    fn spawn_handler(&'static self, core: CoreId, argument: usize) -> Result<(), SpawnError>;
}

/// Memory for what another kernel asked for: it may ask when there is none.
pub fn with_room(bytes: usize) -> Result<Vec<u8>, Refusal> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| Refusal::NoMemory)?;
    Ok(room)
}
