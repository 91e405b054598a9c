//! The procedures that kernels call on each other, and the interface through which
//! [`super::Peers`] has them executed.

use alloc::vec::Vec;
use base::id::{CoreId, DomainId, Epoch};
use kernel_msg::{Class, Refusal, Request};
use kernel_sched::SpawnError;

/// A procedure that a peer can call, with its number in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Procedure {
    /// Returns the payload. Urgent.
    Echo = 1,
    /// Returns the payload after a short sleep.
    SlowEcho = 2,
    /// Returns the payload, after calling the caller back with the same procedure; the first word
    /// is the depth of these nested calls.
    #[cfg(feature = "trials")]
    Nest = 3,
    /// Executes a command line of the monitor and returns its output.
    Run = 4,
    /// Powers this domain off, with its memory kept, after the reply.
    PowerOff = 5,
    /// Executes a request to a service ([`share::codec`]).
    Serve = 6,
    /// Wakes the caller that is parked under a token. Urgent; sent as a notice.
    Wake = 7,
    /// Releases a memory block to the pool, if this kernel can spare one; returns whether it did.
    GiveBlock = 8,
    /// Publishes what this kernel has counted of its power ([`abi::power::PowerSample`]).
    CountPower = 9,
    /// Begins a light thread of a process of the caller ([`abi::light::BeginLight`]).
    BeginLight = 10,
    /// Ends the light threads of a process of the caller, and unmaps its memory.
    EndLight = 11,
    /// Answered when this kernel has unmapped the memory of all processes of lives that are over.
    ForgetLight = 12,
    /// [`abi::light::LightNotice`]. Urgent; sent as a notice.
    Light = 13,
    /// Returns a part of a message's block ([`abi::channel::FetchBlock`]).
    FetchBlock = 14,
    /// Writes a message's block back, and returns where it is ([`abi::channel::LendBlock`]).
    LendBlock = 15,
    /// Answered when this kernel knows the homes that the caller has published
    /// ([`abi::homes::Homes`]).
    LookAtHomes = 16,
    /// Executes a request for a private pipe of this kernel, an end of which the caller's programs
    /// use (`fs::private::wire`).
    Pipe = 17,
}

impl Procedure {
    const ALL: &[Procedure] = &[
        Procedure::Echo,
        Procedure::SlowEcho,
        #[cfg(feature = "trials")]
        Procedure::Nest,
        Procedure::Run,
        Procedure::PowerOff,
        Procedure::Serve,
        Procedure::Wake,
        Procedure::GiveBlock,
        Procedure::CountPower,
        Procedure::BeginLight,
        Procedure::EndLight,
        Procedure::ForgetLight,
        Procedure::Light,
        Procedure::FetchBlock,
        Procedure::LendBlock,
        Procedure::LookAtHomes,
        Procedure::Pipe,
    ];

    /// Returns how the procedure is executed.
    pub fn class(self) -> Class {
        match self {
            Procedure::Echo | Procedure::Wake | Procedure::Light => Class::Urgent,
            _ => Class::Blockable,
        }
    }

    /// Returns the procedure with a message's number.
    pub fn from_code(code: u16) -> Result<Procedure, Refusal> {
        Procedure::ALL
            .iter()
            .copied()
            .find(|&procedure| procedure as u16 == code)
            .ok_or(Refusal::NoSuchProc)
    }
}

/// Executes the requests of peers.
pub trait Procedures: Sync {
    /// Executes an urgent request. Must not wait, and may take leaf locks only.
    fn urgent(&self, request: &Request, payload: &[u8], reply: &mut [u8])
    -> Result<usize, Refusal>;

    /// Executes a blockable request on a handler thread. May sleep and make calls, one level deeper
    /// than the request, after [`super::Peers::will_block`] (docs/design/messages.md, "Why nothing
    /// deadlocks", rules 4 and 5).
    fn blockable(&'static self, request: &Request, payload: Vec<u8>) -> Result<Vec<u8>, Refusal>;

    /// Called after a blockable request's reply was written, for work that must wait for that.
    fn answered(&self, request: &Request);

    /// Executes a message of the stream from a peer, which has `epoch`. Messages of a peer come one
    /// at a time, in the order in which they were sent. Must not wait, and may take leaf locks
    /// only, of ranks above `STREAM`. It may send messages to any peer.
    fn stream(&self, _from: DomainId, _epoch: Epoch, _payload: &[u8]) {}

    /// The stream to a peer had no room, and may have room now: try again. May come without need,
    /// and on several cores at once. The context is that of [`Procedures::stream`].
    fn stream_room(&self, _to: DomainId) {}

    /// Creates a handler thread on `core`, which calls [`super::Peers::work`] with `argument`.
    fn spawn_handler(&'static self, core: CoreId, argument: usize) -> Result<(), SpawnError>;
}

/// Returns an empty vector with a capacity of `bytes`. Without memory, the error is the refusal of
/// the peer's request.
pub fn with_room(bytes: usize) -> Result<Vec<u8>, Refusal> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| Refusal::NoMemory)?;
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_procedure_or_is_refused() {
        for &procedure in Procedure::ALL {
            assert_eq!(Procedure::from_code(procedure as u16), Ok(procedure));
        }
        for code in [0, 18, u16::MAX] {
            assert_eq!(Procedure::from_code(code), Err(Refusal::NoSuchProc));
        }
        let nest = Procedure::from_code(3);
        assert_eq!(nest.is_ok(), cfg!(feature = "trials"), "only tests call it");
    }

    #[test]
    fn procedures_that_may_wait_are_not_urgent() {
        let urgent = Procedure::ALL.iter().filter(|procedure| procedure.class() == Class::Urgent);
        assert!(urgent.eq([Procedure::Echo, Procedure::Wake, Procedure::Light].iter()));
    }
}
