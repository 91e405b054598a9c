//! Blocks of messages whose pages pass from one program of this kernel to another
//! ([`kernel_mem::spaces::Passing`]).
//!
//! Contract: while a block is on its way, its pages are promised to its sender again, so they are
//! taken only if there is room for that. They are frames of the kernel in no space, which are freed
//! with the block.

use super::{SPACES, is_inside, memory, promise_for_now};
use alloc::boxed::Box;
use base::addr::{PAGE, VirtAddr};
use kernel_contract::{Block, Passed};
use kernel_mem::spaces::Passing;
use kernel_node::shootdown::flush_all;

#[derive(Debug)]
struct Pages(Passing<'static>);

impl Passed for Pages {
    fn page(&self, number: usize) -> &[u8] {
        self.0.page(number)
    }

    fn put(self: Box<Self>, into: &mut [u8]) -> Result<(), Box<dyn Passed>> {
        let put = SPACES.put(place_of(into), self.0, &flush_all);
        put.map_err(|passing| Box::new(Pages(passing)) as Box<dyn Passed>)
    }
}

/// Returns the range that bytes of a program have.
fn place_of(bytes: &mut [u8]) -> (VirtAddr, u64) {
    (VirtAddr(bytes.as_mut_ptr() as u64), bytes.len() as u64)
}

/// Takes the pages of a program, which are zeros then, and a copy of what is left of the last one,
/// which must have memory. `None`: the bytes are as they were, and have to be copied.
pub fn take(bytes: &mut [u8]) -> Option<Block> {
    let length = bytes.len();
    let (pages, rest) = bytes.split_at_mut(length - length % PAGE as usize);
    let range = place_of(pages);
    if !is_inside(range.0.0) {
        return None;
    }
    // Until they are promised to the sender; and a page for the copy.
    let _promise = promise_for_now(range.1 + PAGE)?;
    let passing = SPACES.take(range, rest, memory()?, &flush_all)?;
    Some(Block::passed(Box::new(Pages(passing)), length))
}

/// Prepares a range of a program for pages that are put there.
pub fn reserve(room: &mut [u8]) -> bool {
    let (at, bytes) = place_of(room);
    memory().is_some_and(|from| SPACES.reserve_tables(at, bytes, from).is_ok())
}
