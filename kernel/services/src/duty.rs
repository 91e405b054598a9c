//! Whether this kernel serves the interrupts of the devices that several kernels use: the rule is
//! `kernel_power::duty`, the states are in the chip page.

use crate::kernel::Kernel;
use abi::boot::MAX_DOMAINS;
use abi::soc::{command, state};
use base::id::DomainId;
use kernel_power::duty::{self, State};

/// Looks at the states of all domains. To be called whenever one may have changed.
pub fn look(kernel: &Kernel) {
    if kernel.devices.are_shared() {
        kernel.devices.serve_shared(kernel, || server(kernel, None) == Some(kernel.me.index()));
    }
}

/// Decides whether the doorbells of shared devices end the coming rest of this domain, and
/// publishes that.
pub fn listens_at_rest(kernel: &Kernel) -> bool {
    let me = Some(kernel.me.index());
    let listens = kernel.devices.are_shared() && server(kernel, Some(State::Resting)) == me;
    kernel.soc.set_listens(listens);
    listens
}

/// Returns whether some domain hears the shared devices once this one is stopped. To be called
/// after the soc has published that it rests. Another one that rests and does not listen is woken:
/// it serves the devices then, and listens at its next rest.
pub fn is_settled(kernel: &Kernel, listens: bool) -> bool {
    match server(kernel, None) {
        Some(index) if index == kernel.me.index() => listens || !kernel.devices.are_shared(),
        Some(index) => {
            let other = DomainId(index as u8);
            if kernel.soc.state(other).1 == state::RESTING && !kernel.soc.listens(other) {
                // If it is awake by now, or dies, it or another one serves the devices.
                let _ = kernel.soc.request(command::WAKE, index as u64, 0);
            }
            true
        }
        None => true,
    }
}

/// Returns which domain serves the devices, with this kernel's state taken as `mine` if given.
pub fn server(kernel: &Kernel, mine: Option<State>) -> Option<usize> {
    let mut states = [State::Other; MAX_DOMAINS];
    let count = kernel.blob.domains().len().min(MAX_DOMAINS);
    for (index, to) in states.iter_mut().enumerate().take(count) {
        *to = match kernel.soc.state(DomainId(index as u8)).1 {
            state::RUNNING => State::Running,
            state::RESTING => State::Resting,
            _ => State::Other,
        };
    }
    if let Some(mine) = mine {
        states[kernel.me.index()] = mine;
    }
    duty::server(&states[..count])
}
