//! Shared frames as a service: the allocator of `kernel_mem::frames` over a range in the service's
//! arena.
//!
//! The frames that a kernel needs for itself are never shared, whatever the board says: handling a
//! fault on a shared page must not require shared memory.

use abi::service::Arena;
use alloc::vec::Vec;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use kernel_mem::frames::MAX_ORDER;
use kernel_mem::frames::zone::Zone;
use share::{Answer, Effects, Event, Service};

/// Number of frames in the range.
const FRAMES: usize = 1024;
/// The largest block that is handed out: 1 MiB.
const LARGEST: u8 = 8;
const CHUNK: usize = (PAGE as usize) << LARGEST;

/// Memory of the arena, aligned to the largest block. Its frames are accessed by address only.
#[repr(align(1048576))]
struct Chunk {
    _bytes: [u8; CHUNK],
}

const _: () = assert!(align_of::<Chunk>() == CHUNK && LARGEST <= MAX_ORDER);
/// The arena holds the range, the padding for its alignment, and what the arena's allocator rounds
/// up.
const _: () = match abi::service::FRAMES.arena {
    Arena::Bytes(bytes) => assert!(bytes == FRAMES as u64 * PAGE + 2 * CHUNK as u64),
    Arena::Rest => panic!("the arena of frames has a size of its own"),
};

/// Kinds of requests and replies, the first word of both.
pub mod kind {
    /// Request `[ALLOCATE, order]`: the reply is `[DONE, address]` or [`NONE`].
    pub const ALLOCATE: u64 = 1;
    /// Request `[FREE, order, address]`: the reply is [`DONE`] or [`NONE`].
    pub const FREE: u64 = 2;
    /// Reply: the request was performed.
    pub const DONE: u64 = 3;
    /// Reply: no block is free, or the block to free was not allocated.
    pub const NONE: u64 = 4;
}

/// The state of the service.
pub struct SharedFrames {
    /// Owns the range's memory by its capacity; it has no elements.
    range: Vec<Chunk>,
    zone: Option<Zone<FRAMES>>,
}

impl SharedFrames {
    /// Returns the zone, which is created by the first call.
    fn zone(&mut self) -> Option<&mut Zone<FRAMES>> {
        if self.zone.is_none() {
            self.range.try_reserve_exact(FRAMES * PAGE as usize / CHUNK).ok()?;
            let start = VirtAddr(self.range.as_ptr() as u64).to_phys();
            self.zone = Some(Zone::new(start));
        }
        self.zone.as_mut()
    }

    fn asked(&mut self, [kind, order, at]: [u64; 3]) -> Option<u64> {
        let order = u8::try_from(order).ok().filter(|&order| order <= LARGEST)?;
        let zone = self.zone()?;
        match kind {
            kind::ALLOCATE => zone.allocate(order).map(|block| block.0),
            kind::FREE => zone.free(PhysAddr(at), order).ok().map(|()| 0),
            _ => None,
        }
    }
}

impl Service for SharedFrames {
    type Request = [u64; 3];
    type Reply = [u64; 2];
    const NAME: &'static str = abi::service::FRAMES.name;

    fn start(_: u32) -> SharedFrames {
        SharedFrames { range: Vec::new(), zone: None }
    }

    fn sent(_: &[u64; 3], _: usize) -> usize {
        0
    }

    fn filled(_: &[u64; 2]) -> usize {
        0
    }

    fn step(
        &mut self,
        _: u64,
        event: Event<'_, [u64; 3]>,
        _: &mut dyn Effects,
    ) -> Answer<[u64; 2]> {
        match event {
            Event::Request { request, .. } | Event::Again { request, .. } => {
                let answer = self.asked(*request);
                Answer::Done(answer.map_or([kind::NONE, 0], |at| [kind::DONE, at]))
            }
            // Frames have no owners, so those of a dead kernel are lost until the service restarts.
            Event::Cancel(_) | Event::Gone(..) | Event::Timer | Event::Device => Answer::NoReply,
        }
    }
}
