//! Kernel stacks with guard pages.
//!
//! A stack is a slot of [`SLOT`] bytes in a separate part of virtual memory. The slot's first page
//! is not mapped, and above it only [`STACK`] bytes are, so a stack overflow faults. A released
//! slot keeps its memory and is the next one to be reused, so that a short-lived thread causes
//! neither mappings nor shootdowns; [`Stacks::trim`] frees that memory.

use arch::lock::Lock;
use arch::mmu::PageTable;
use arch::types::{MapError, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use crate::ranks;

/// Address space per stack, including the guard.
pub const SLOT: u64 = 64 << 10;
/// Memory per stack: twice the deepest use seen, because an interrupt may come at that point.
pub const STACK: u64 = PAGE << ORDER;
const ORDER: u8 = 3;
pub const MAX_STACKS: usize = 512;
/// Start of the slots, above the linear map of any board (64 TiB).
pub const AREA: VirtAddr = VirtAddr(0xffff_c000_0000_0000);

const _: () = assert!(STACK + PAGE <= SLOT);

/// A stack, owned by its holder until it is released.
#[derive(Debug, PartialEq, Eq)]
pub struct Stack {
    slot: u16,
}

impl Stack {
    /// Returns the lowest usable address.
    pub fn bottom(&self) -> VirtAddr {
        AREA.plus(u64::from(self.slot) * SLOT + PAGE)
    }
    /// Returns the initial stack pointer, one past the highest address.
    pub fn top(&self) -> VirtAddr {
        self.bottom().plus(STACK)
    }
    /// Converts the stack to its top address, for owners that store a number.
    pub fn into_top(self) -> usize {
        self.top().0 as usize
    }
    /// Converts back a value of [`Stack::into_top`]; `None` for other numbers.
    pub fn from_top(top: usize) -> Option<Stack> {
        let offset = (top as u64).checked_sub(AREA.0 + PAGE + STACK)?;
        let slot = u16::try_from(offset / SLOT).ok()?;
        let known = offset.is_multiple_of(SLOT) && (slot as usize) < MAX_STACKS;
        known.then_some(Stack { slot })
    }
}

/// Why no stack was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackError {
    /// [`MAX_STACKS`] are in use.
    TooMany,
    NoMemory,
    Map(MapError),
}

/// Free slots: mapped ones are reused before those without memory.
struct Slots {
    /// Released slots with memory, the most recent last.
    mapped: [u16; MAX_STACKS],
    mapped_count: usize,
    /// Slots without memory.
    bare: [u16; MAX_STACKS],
    bare_count: usize,
    /// Memory of each mapped slot.
    memory: [PhysAddr; MAX_STACKS],
}

/// The stacks of a kernel.
pub struct Stacks {
    slots: Lock<Slots>,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks::new()
    }
}

impl Stacks {
    pub const fn new() -> Self {
        let mut bare = [0; MAX_STACKS];
        let mut i = 0;
        while i < MAX_STACKS {
            // The lowest slot is allocated first.
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

    /// Allocates a mapped stack with undefined contents. A core that has cached that nothing is
    /// mapped there could not handle the fault, because its handler would use the stack, too. So
    /// `flush` must then flush the TLBs of all cores of this domain.
    pub fn allocate(
        &self,
        table: &Lock<PageTable>,
        frames: &dyn Frames,
        flush: &dyn Fn(VirtAddr, u64),
    ) -> Result<Stack, StackError> {
        let slot = {
            let mut slots = self.slots.lock();
            if let Some(slot) = pop(slots.as_mapped()) {
                return Ok(Stack { slot });
            }
            pop(slots.as_bare()).ok_or(StackError::TooMany)?
        };
        // The page table's lock ranks before ours, so it is taken without ours; the slot is ours
        // alone.
        let mapped = map(slot, table, frames);
        if mapped.is_ok() && arch::mmu::CACHES_INVALID {
            flush(Stack { slot }.bottom(), STACK);
        }
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

    /// Releases a stack that is no longer used.
    pub fn release(&self, stack: Stack) {
        push(self.slots.lock().as_mapped(), stack.slot);
    }

    /// Frees the memory of released stacks beyond `keep` and returns how many. `flush` must flush
    /// the TLBs of all cores of this domain before it returns.
    pub fn trim(
        &self,
        keep: usize,
        table: &Lock<PageTable>,
        frames: &dyn Frames,
        flush: &dyn Fn(VirtAddr, u64),
    ) -> usize {
        let mut trimmed = 0;
        // Bounded, because other cores may release stacks meanwhile.
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
                // Not mapped as expected: keep it rather than free memory that may be in use.
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

    /// Returns the number of released stacks with memory.
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

/// A stack of slot numbers and its height.
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
    // There is room for all slots, and a slot is on one pile only: `Stack` is not `Clone`.
    slots[*count] = slot;
    *count += 1;
}

#[cfg(test)]
mod tests;
