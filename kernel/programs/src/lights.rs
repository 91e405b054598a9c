//! Processes whose threads run on two kernels in turn: light threads, on the weak kernel, while all
//! others wait (docs/design/light-threads.md). This is what both kernels do alike; which processes
//! there are, and their threads, is in `processes::light`.
//!
//! ```text
//!   a thread enters --> turn: is it this kernel's? --> memory: mapped at the first access
//!                        |  not yet: it waits
//!   the turn ends: descriptors into the book --> memory: unmapped, written back --> a notice
//! ```
//! Contract: memory of the process, its book and its descriptors are used only by a thread that has
//! entered and has not left. So this kernel and the other one never use them at the same time, and
//! what one has written back is what the other finds.
//!
//! - [`turn`]: the turn of one process; [`list`]: all of them; [`ending`]: how one ends
//! - `side`: what a turn does, as a state machine; [`waiting`], `waits`: for notifications
//! - [`memory`]: the memory of a process; [`book`]: what describes it; [`frames`]: of what it is
//!   made; `raw`: access to it by address

pub mod book;
pub mod ending;
pub mod frames;
pub mod list;
pub mod memory;
mod raw;
pub mod side;
pub mod turn;
pub mod waiting;
mod waits;

use base::addr::VirtAddr;

/// Handles a fault at `address`, if that is memory of such a process: maps the page. Returns
/// whether it is mapped; `None` for other addresses.
#[cold]
#[inline(never)]
pub fn fault(address: VirtAddr) -> Option<bool> {
    list::of_memory(address).map(|turn| turn.memory.fault(address))
}
