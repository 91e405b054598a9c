//! A procedure that calls its caller back, to a given depth.

use alloc::vec::Vec;
use kernel_msg::{Refusal, Request};
use kernel_platform::peers::{Procedure, Terms, with_room};
use kernel_services::kernel::Kernel;

/// Executes [`Procedure::Nest`]. The first word of the payload is the depth.
pub fn nest(
    kernel: &'static Kernel,
    request: &Request,
    payload: Vec<u8>,
) -> Result<Vec<u8>, Refusal> {
    let depth = payload.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    if depth > 0 {
        let (mut onward, mut back) = (with_room(payload.len())?, with_room(payload.len())?);
        onward.extend_from_slice(&(depth - 1).to_le_bytes());
        onward.extend_from_slice(&payload[8..]);
        back.resize(payload.len(), 0);
        let _blocked = kernel.peers.will_block(kernel);
        let terms = Terms { level: request.level.deeper(), patience: None };
        let called =
            kernel.peers.call(kernel, terms, request.from, Procedure::Nest, &onward, &mut back);
        let bytes = called.map_err(|_| Refusal::Fault)?;
        if back[..bytes] != onward {
            return Err(Refusal::Fault);
        }
    }
    Ok(payload)
}
