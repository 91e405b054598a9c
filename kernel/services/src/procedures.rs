//! The procedures that every kernel executes for its peers. Those that need programs, a monitor or
//! power states are executed elsewhere.

use crate::kernel::Kernel;
use crate::{duty, power};
use abi::channel::{FetchBlock, LendBlock, LentAt};
use alloc::vec::Vec;
use base::id::Life;
use kernel_msg::{Refusal, Request};
use kernel_platform::peers::{Procedure, with_room};
use zerocopy::{FromBytes, IntoBytes};

/// Executes an urgent request.
pub fn urgent(
    kernel: &'static Kernel,
    request: &Request,
    payload: &[u8],
    reply: &mut [u8],
) -> Result<usize, Refusal> {
    match Procedure::from_code(request.proc)? {
        Procedure::Echo => {
            let reply = reply.get_mut(..payload.len()).ok_or(Refusal::TooLarge)?;
            reply.copy_from_slice(payload);
            Ok(payload.len())
        }
        Procedure::Wake => kernel.services.heard_wake(kernel, payload),
        _ => Err(Refusal::Refused),
    }
}

/// Executes a message of a peer's stream.
pub fn stream(kernel: &Kernel, from: Life, payload: &[u8]) {
    kernel.channels.heard(kernel, &kernel.peers, from, payload);
}

/// Continues a stream that had no room.
pub fn stream_room(kernel: &Kernel) {
    kernel.channels.stream_room(kernel, &kernel.peers);
}

/// Executes a blockable request on a handler thread. Refuses all other procedures.
pub fn blockable(
    kernel: &'static Kernel,
    request: &Request,
    mut payload: Vec<u8>,
) -> Result<Vec<u8>, Refusal> {
    match Procedure::from_code(request.proc)? {
        Procedure::Serve => kernel.services.serve(kernel, request, &payload),
        Procedure::SlowEcho => {
            let moment = 20_000 + payload.len() as u64 * 50;
            let _blocked = kernel.peers.will_block(kernel);
            kernel.scheduler.sleep_until(arch::time::soc_time() + moment);
            Ok(payload)
        }
        Procedure::GiveBlock => {
            let balloons = kernel.balloons.as_ref().ok_or(Refusal::Refused)?;
            let _blocked = kernel.peers.will_block(kernel);
            let answer = balloons.give_block(kernel, &kernel.peers, request.from);
            payload.clear();
            payload.extend_from_slice(&answer);
            Ok(payload)
        }
        Procedure::CountPower => {
            power::publish(kernel);
            payload.clear();
            Ok(payload)
        }
        Procedure::LookAtHomes => {
            duty::look(kernel);
            payload.clear();
            Ok(payload)
        }
        Procedure::FetchBlock => {
            let fetch = FetchBlock::read_from_bytes(&payload).map_err(|_| Refusal::Refused)?;
            kernel.channels.part_of_block(&fetch)
        }
        Procedure::LendBlock => {
            let lend = LendBlock::read_from_bytes(&payload).map_err(|_| Refusal::Refused)?;
            let mut answer = with_room(size_of::<LentAt>())?;
            if let Some(at) = kernel.channels.lend_block(&lend)? {
                answer.extend_from_slice(at.as_bytes());
            }
            Ok(answer)
        }
        _ => Err(Refusal::Refused),
    }
}
