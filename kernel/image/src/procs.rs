//! The procedures that peers can call in this kernel ([`Procedure`]).

use crate::power::{self, OffError};
use abi::msg::MAX_PAYLOAD;
use alloc::vec::Vec;
use base::id::{CoreId, DomainId, Epoch, Life};
use kernel_msg::{Refusal, Request};
use kernel_platform::peers::{Procedure, Procedures, with_room};
use kernel_programs::processes::{forget, light, pipes};
use kernel_sched::{PRIORITY_SERVE, SpawnError};
use kernel_services::kernel::{self, Kernel};
use kernel_services::procedures;
use kernel_services::session::Session;

/// The procedures of this kernel. Requests of peers are entry points, so this gets the kernel from
/// [`kernel::get`]; no request comes before the kernel is assembled.
pub struct OurProcedures;

impl Procedures for OurProcedures {
    fn urgent(
        &self,
        request: &Request,
        payload: &[u8],
        reply: &mut [u8],
    ) -> Result<usize, Refusal> {
        let kernel = kernel::get().ok_or(Refusal::Refused)?;
        if Procedure::from_code(request.proc) == Ok(Procedure::Light) {
            return light::heard(kernel, request, payload);
        }
        procedures::urgent(kernel, request, payload, reply)
    }

    fn blockable(&'static self, request: &Request, payload: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        blockable(kernel::get().ok_or(Refusal::Refused)?, request, payload)
    }

    fn answered(&self, request: &Request) {
        if Procedure::from_code(request.proc) == Ok(Procedure::PowerOff)
            && let Some(kernel) = kernel::get()
        {
            power::answered_power_off(kernel);
        }
    }

    fn stream(&self, kernel: DomainId, epoch: Epoch, payload: &[u8]) {
        let Some(own) = kernel::get() else { return };
        let from = Life { kernel, epoch };
        match pipes::is_ours(payload) {
            true => pipes::hear(own, from, payload),
            false => procedures::stream(own, from, payload),
        }
    }

    fn stream_room(&self, _: DomainId) {
        if let Some(kernel) = kernel::get() {
            procedures::stream_room(kernel);
            pipes::stream_room(kernel);
        }
    }

    fn spawn_handler(&'static self, core: CoreId, argument: usize) -> Result<(), SpawnError> {
        let kernel = kernel::get().ok_or(SpawnError::NoMemory)?;
        let made = kernel.scheduler.spawn("handler", PRIORITY_SERVE, Some(core), handler, argument);
        made.map(|_| ())
    }
}

/// Entry of a handler thread.
fn handler(argument: usize) {
    let Some(kernel) = kernel::get() else { return };
    kernel.peers.work(kernel, &OurProcedures, argument);
}

fn blockable(
    kernel: &'static Kernel,
    request: &Request,
    mut payload: Vec<u8>,
) -> Result<Vec<u8>, Refusal> {
    match Procedure::from_code(request.proc)? {
        #[cfg(feature = "trials")]
        Procedure::Nest => kernel_trials::nest(kernel, request, payload),
        Procedure::Run => {
            let line = core::str::from_utf8(&payload).map_err(|_| Refusal::Refused)?;
            let mut text = Answer(with_room(MAX_PAYLOAD)?);
            let _blocked = kernel.peers.will_block(kernel);
            let session = Session::at(kernel, request.level.deeper());
            kernel_monitor::commands::run(&session, &mut text, line);
            Ok(text.0)
        }
        Procedure::PowerOff => {
            power::power_off_soon(kernel).map_err(|why| match why {
                OffError::UnderWay => Refusal::Refused,
                OffError::NoMemory => Refusal::NoMemory,
            })?;
            payload.truncate(8);
            Ok(payload)
        }
        Procedure::BeginLight => {
            let _blocked = kernel.peers.will_block(kernel);
            let session = Session::at(kernel, request.level.deeper());
            let begun = light::begin_here(&session, request, &payload);
            Ok((begun as u64).to_le_bytes().to_vec())
        }
        Procedure::EndLight => {
            let _blocked = kernel.peers.will_block(kernel);
            let ran = light::end_here(kernel, request, &payload);
            Ok(ran.to_le_bytes().to_vec())
        }
        Procedure::Pipe => {
            let session = Session::at(kernel, request.level.deeper());
            pipes::serve(&session, request, &payload)
        }
        Procedure::ForgetLight => {
            let _blocked = kernel.peers.will_block(kernel);
            if forget::here(kernel) { Ok(payload) } else { Err(Refusal::Refused) }
        }
        _ => procedures::blockable(kernel, request, payload),
    }
}

/// Text of a reply, cut off at the size of a message. Its memory is allocated first, so no write
/// fails for lack of memory.
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
