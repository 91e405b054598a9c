//! The instruction that faulted last on a core: whether its access reaches into a second page, and
//! whether it has retired since.
//!
//! An MMU says which byte it could not reach, not how many were wanted. But an access that crosses
//! into the next page faults twice at one place, in two pages that lie side by side, and begins in
//! the last bytes of the lower one; a loop that walks through memory does not. Then both pages are
//! asked for at once, the lower one first ([`crate::Access::crosses`]), or two cores that fight for
//! two pages could take them from each other for ever.

/// Most bytes that an instruction reaches into the next page.
const WIDEST: u64 = 64;

/// Of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    pc: u64,
    /// Which byte it could not reach.
    at: u64,
}

impl Instruction {
    /// The instruction at `pc` cannot reach byte `at`. The first byte of the lower page, if it
    /// crosses pages of `page` bytes and shows it now.
    pub fn faulted(&mut self, pc: u64, at: u64, page: u64) -> Option<u64> {
        let before = core::mem::replace(self, Instruction { pc, at });
        let (low, high) = (before.at.min(at), before.at.max(at));
        let neighbours = high / page == low / page + 1;
        let starts_at_the_end = page - low % page < WIDEST;
        (before.pc == pc && neighbours && starts_at_the_end).then_some(low / page * page)
    }

    /// This core has come to `pc`: has the instruction retired? Once.
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
    fn an_access_that_crosses_is_seen_at_its_second_fault() {
        let mut core = Instruction::default();
        assert_eq!(core.faulted(100, 2 * PAGE - 3, PAGE), None);
        assert_eq!(core.faulted(100, 2 * PAGE, PAGE), Some(PAGE));
        // The upper page first, because the lower one was there; then that one is gone.
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
    fn it_has_retired_where_the_core_is_elsewhere() {
        let mut core = Instruction::default();
        assert!(!core.has_retired(7), "none has faulted");
        core.faulted(100, PAGE, PAGE);
        assert!(!core.has_retired(100), "interrupted before it was executed again");
        assert!(core.has_retired(104));
        assert!(!core.has_retired(104), "once");
    }
}
