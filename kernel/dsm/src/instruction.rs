//! The last faulting instruction of a core: whether its access crosses into a second page, and
//! whether it has retired.
//!
//! An MMU reports the address that faulted, not the size of the access. An access that crosses into
//! the next page faults twice at one program counter, in two adjacent pages, and starts in the last
//! bytes of the lower one; a loop that walks through memory does not. Both pages are then requested
//! together, the lower one first ([`crate::Access::crosses`]). Otherwise two cores that need the
//! same two pages could take them from each other forever.

/// Limit on the bytes that an access reaches into the next page.
const WIDEST: u64 = 64;

/// The last fault of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    pc: u64,
    /// The address that faulted.
    at: u64,
}

impl Instruction {
    /// Records a fault of the instruction at `pc` on address `at`. If it completes the pattern of
    /// an access that crosses pages of `page` bytes, returns the lower page's address.
    pub fn faulted(&mut self, pc: u64, at: u64, page: u64) -> Option<u64> {
        let before = core::mem::replace(self, Instruction { pc, at });
        let (low, high) = (before.at.min(at), before.at.max(at));
        let neighbours = high / page == low / page + 1;
        let starts_at_the_end = page - low % page < WIDEST;
        (before.pc == pc && neighbours && starts_at_the_end).then_some(low / page * page)
    }

    /// Returns true once if the faulting instruction has retired, given that the core is at `pc`
    /// now.
    pub fn has_retired(&mut self, pc: u64) -> bool {
        let retired = self.pc != 0 && self.pc != pc;
        if retired {
            *self = Instruction::default();
        }
        retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    #[test]
    fn a_crossing_access_is_detected_at_its_second_fault() {
        let mut core = Instruction::default();
        assert_eq!(core.faulted(100, 2 * PAGE - 3, PAGE), None);
        assert_eq!(core.faulted(100, 2 * PAGE, PAGE), Some(PAGE));
        // The upper page faults first, because the lower one was held; then that one is taken away.
        assert_eq!(core.faulted(104, 4 * PAGE, PAGE), None);
        assert_eq!(core.faulted(104, 4 * PAGE - 1, PAGE), Some(3 * PAGE));
    }

    #[test]
    fn loops_and_other_instructions_do_not_cross() {
        let mut core = Instruction::default();
        assert_eq!(core.faulted(100, PAGE, PAGE), None);
        assert_eq!(core.faulted(100, 2 * PAGE, PAGE), None, "a loop that fills memory");
        assert_eq!(core.faulted(100, 3 * PAGE - 8, PAGE), None, "the same page again");
        assert_eq!(core.faulted(104, 3 * PAGE, PAGE), None, "another instruction");
        assert_eq!(core.faulted(104, 5 * PAGE, PAGE), None, "far away");
    }

    #[test]
    fn an_instruction_has_retired_once_the_core_is_elsewhere() {
        let mut core = Instruction::default();
        assert!(!core.has_retired(7), "none has faulted");
        core.faulted(100, PAGE, PAGE);
        assert!(!core.has_retired(100), "interrupted before it was executed again");
        assert!(core.has_retired(104));
        assert!(!core.has_retired(104), "once");
    }
}
