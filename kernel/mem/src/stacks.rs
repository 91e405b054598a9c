//! Kernel stacks with guards.
//!
//! A stack is a slot of [`SLOT`] bytes in a part of virtual memory of its own. Only the memory
//! above the slot's first page is mapped, and of that only [`STACK`] bytes: running over the end
//! faults. A released slot keeps its memory and is the next one handed out, so that a short-lived
//! thread costs neither mappings nor shootdowns; [`Stacks::trim`] gives it back.

use arch::lock::Lock;
use arch::mmu::PageTable;
use arch::types::{MapError, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use crate::ranks;

/// Bytes of address space a stack has, guard included.
pub const SLOT: u64 = 64 << 10;
/// Bytes of memory it has: twice what any was seen to use. An interrupt may come at its deepest.
pub const STACK: u64 = PAGE << ORDER;
const ORDER: u8 = 3;
/// Most stacks.
pub const MAX_STACKS: usize = 512;
/// Where the slots start: above what the linear map of any board reaches (64 TiB).
pub const AREA: VirtAddr = VirtAddr(0xffff_c000_0000_0000);

const _: () = assert!(STACK + PAGE <= SLOT);

/// A stack. Whoever has it owns it, until it is released.
#[derive(Debug, PartialEq, Eq)]
pub struct Stack {
    slot: u16,
}

impl Stack {
    /// Lowest usable address.
    pub fn bottom(&self) -> VirtAddr {
        AREA.plus(u64::from(self.slot) * SLOT + PAGE)
    }
    /// One past the highest: the initial stack pointer.
    pub fn top(&self) -> VirtAddr {
        self.bottom().plus(STACK)
    }
    /// The stack as its top, for those who keep it as a number.
    pub fn into_top(self) -> usize {
        self.top().0 as usize
    }
    /// The stack with that top, which [`Stack::into_top`] gave; `None` for another number.
    pub fn from_top(top: usize) -> Option<Stack> {
        let offset = (top as u64).checked_sub(AREA.0 + PAGE + STACK)?;
        let slot = u16::try_from(offset / SLOT).ok()?;
        let known = offset.is_multiple_of(SLOT) && (slot as usize) < MAX_STACKS;
        known.then_some(Stack { slot })
    }
}

/// Why there is no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackError {
    /// [`MAX_STACKS`] are in use.
    TooMany,
    /// No frames for it.
    NoMemory,
    /// The page table refused; see there.
    Map(MapError),
}

/// Slots: `free` first, with their memory, then never used or trimmed ones.
struct Slots {
    /// Released slots that are mapped, the last released on top.
    mapped: [u16; MAX_STACKS],
    mapped_count: usize,
    /// Slots without memory.
    bare: [u16; MAX_STACKS],
    bare_count: usize,
    /// Memory of each mapped slot.
    memory: [PhysAddr; MAX_STACKS],
}

/// All stacks of a kernel.
pub struct Stacks {
    slots: Lock<Slots>,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks::new()
    }
}

impl Stacks {
    /// None in use, none mapped.
    pub const fn new() -> Self {
        let mut bare = [0; MAX_STACKS];
        let mut i = 0;
        while i < MAX_STACKS {
            // The lowest slot is handed out first.
            bare[i] = (MAX_STACKS - 1 - i) as u16;
            i += 1;
        }
        let slots = Slots {
            mapped: [0; MAX_STACKS],
            mapped_count: 0,
            bare,
            bare_count: MAX_STACKS,
            memory: [PhysAddr(0); MAX_STACKS],
        };
        Stacks { slots: Lock::new(ranks::STACKS, slots) }
    }

    /// A stack, mapped; what is in it is undefined.
    pub fn allocate(
        &self,
        table: &Lock<PageTable>,
        frames: &dyn Frames,
    ) -> Result<Stack, StackError> {
        let slot = {
            let mut slots = self.slots.lock();
            if let Some(slot) = pop(slots.as_mapped()) {
                return Ok(Stack { slot });
            }
            pop(slots.as_bare()).ok_or(StackError::TooMany)?
        };
        // The page table's lock comes before ours, so the slot is ours alone meanwhile.
        let mapped = map(slot, table, frames);
        let mut slots = self.slots.lock();
        match mapped {
            Ok(memory) => {
                slots.memory[slot as usize] = memory;
                Ok(Stack { slot })
            }
            Err(error) => {
                push(slots.as_bare(), slot);
                Err(error)
            }
        }
    }

    /// Takes a stack back; nothing runs on it or refers to it any more.
    pub fn release(&self, stack: Stack) {
        push(self.slots.lock().as_mapped(), stack.slot);
    }

    /// Gives back the memory of released stacks beyond `keep`. `flush` reaches the translations of
    /// all cores of this domain and returns when they are gone. How many it gave back.
    pub fn trim(
        &self,
        keep: usize,
        table: &Lock<PageTable>,
        frames: &dyn Frames,
        flush: &dyn Fn(VirtAddr, u64),
    ) -> usize {
        let mut trimmed = 0;
        // Bounded: other cores may release meanwhile.
        while trimmed < MAX_STACKS {
            let (slot, memory) = {
                let mut slots = self.slots.lock();
                if slots.mapped_count <= keep {
                    break;
                }
                let Some(slot) = pop(slots.as_mapped()) else { break };
                (slot, slots.memory[slot as usize])
            };
            let start = Stack { slot }.bottom();
            if table.lock().unmap(start, STACK).is_err() {
                // Not as we mapped it: keep it as it is rather than free what may be in use.
                push(self.slots.lock().as_mapped(), slot);
                break;
            }
            flush(start, STACK);
            frames.free(memory, ORDER);
            push(self.slots.lock().as_bare(), slot);
            trimmed += 1;
        }
        trimmed
    }

    /// Stacks with memory that nobody uses.
    pub fn idle(&self) -> usize {
        self.slots.lock().mapped_count
    }
}

fn map(slot: u16, table: &Lock<PageTable>, frames: &dyn Frames) -> Result<PhysAddr, StackError> {
    let memory = frames.allocate(ORDER).ok_or(StackError::NoMemory)?;
    let start = Stack { slot }.bottom();
    let mapped = table.lock().map(frames, start, memory, STACK, Memory::Cached, Rights::ReadWrite);
    mapped.map(|()| memory).map_err(|error| {
        frames.free(memory, ORDER);
        if error == MapError::NoMemory { StackError::NoMemory } else { StackError::Map(error) }
    })
}

/// A stack of slots, and how many are on it.
type Pile<'a> = (&'a mut [u16; MAX_STACKS], &'a mut usize);

impl Slots {
    fn as_mapped(&mut self) -> Pile<'_> {
        (&mut self.mapped, &mut self.mapped_count)
    }
    fn as_bare(&mut self) -> Pile<'_> {
        (&mut self.bare, &mut self.bare_count)
    }
}

fn pop((slots, count): Pile<'_>) -> Option<u16> {
    *count = count.checked_sub(1)?;
    Some(slots[*count])
}

fn push((slots, count): Pile<'_>, slot: u16) {
    // There are as many places as slots, and a slot is in one place only: `Stack` is not `Clone`.
    slots[*count] = slot;
    *count += 1;
}

#[cfg(test)]
mod tests;
