//! Whether this kernel serves the interrupts of the devices that several kernels use: the rule is
//! `kernel_power::duty`, the states are in the chip page.

use crate::kernel::Kernel;
use abi::boot::MAX_DOMAINS;
use abi::soc::state;
use base::id::DomainId;
use kernel_power::duty::{self, State};

/// Looks at the states of all domains. To be called whenever one may have changed.
pub fn look(kernel: &Kernel) {
    if kernel.devices.are_shared() {
        kernel.devices.serve_shared(kernel, || server(kernel, None) == Some(kernel.me.index()));
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
