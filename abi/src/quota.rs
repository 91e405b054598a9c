//! Quotas of process trees.
//!
//! A process that the system starts is the root of a *tree*: itself and all that it and they start.
//! Each process that the root starts begins a *branch*: itself and all that it and they start. A
//! process uses the budget of its tree and, unless it is the root, that of its branch. It keeps
//! both when its parent ends.
//!
//! ```text
//!   system --> shell (tree: half of all) --> make (branch: half of the tree) --> cc, ld, ...
//!                                       \-> sort (branch: half of the tree)
//! ```
//! The process table counts processes, the file service handles and pipes. Each refuses what
//! exceeds a budget, and keeps a reserve that trees cannot take from the system. Kernels carry the
//! quota of a process with its requests; the services trust them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of processes, including those that have ended and were not reaped.
pub const PROCESSES: usize = 256;
/// Maximum number of handles of the file service.
pub const HANDLES: u32 = 16_384;
/// Maximum number of pipes of the file service.
pub const PIPES: u32 = 256;

/// Places for processes that only the system may start processes in.
pub const RESERVED_PROCESSES: usize = 16;
/// Handles that trees get only as long as they have fewer than [`SMALL_HANDLES`].
pub const RESERVED_HANDLES: u32 = 1024;
/// Handles that no tree gets.
pub const SYSTEM_HANDLES: u32 = 256;
/// Handles that a tree can rely on while others use theirs.
pub const SMALL_HANDLES: u32 = 64;
/// Pipes that trees get only as long as they have fewer than [`SMALL_PIPES`].
pub const RESERVED_PIPES: u32 = 32;
/// Pipes that no tree gets.
pub const SYSTEM_PIPES: u32 = 8;
/// Pipes that a tree can rely on while others use theirs, and that every budget includes.
pub const SMALL_PIPES: u32 = 4;
/// Every budget includes one pipe for so many handles.
const HANDLES_OF_A_PIPE: u32 = 64;

/// What a tree or a branch may use at the same time.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Budget {
    /// Number of the process that the tree or branch began with; 0: there is none.
    pub owner: u32,
    /// Maximum number of processes, ended ones that were not reaped included.
    pub processes: u16,
    /// Maximum number of handles.
    pub handles: u16,
}

impl Budget {
    /// Returns the budget of a tree that begins with process `owner`.
    pub const fn of_tree(owner: u32) -> Budget {
        Budget { owner, processes: PROCESSES as u16 / 2, handles: HANDLES as u16 / 2 }
    }

    /// Returns the budget of a branch of this tree that begins with process `owner`.
    pub const fn branch(self, owner: u32) -> Budget {
        let (processes, handles) = (self.processes.div_ceil(2), self.handles.div_ceil(2));
        Budget { owner, processes, handles }
    }

    /// Returns the maximum number of pipes.
    pub const fn pipes(self) -> u32 {
        let pipes = self.handles as u32 / HANDLES_OF_A_PIPE;
        if pipes < SMALL_PIPES { SMALL_PIPES } else { pipes }
    }

    /// Packs it into a word of a request.
    pub const fn word(self) -> u64 {
        self.owner as u64 | (self.processes as u64) << 32 | (self.handles as u64) << 48
    }

    /// Returns the budget in a word of a request.
    pub const fn of_word(word: u64) -> Budget {
        Budget { owner: word as u32, processes: (word >> 32) as u16, handles: (word >> 48) as u16 }
    }

    /// Lowers each limit to that of `other`, if that is not 0.
    fn lower(&mut self, other: Budget) {
        let lower = |own: &mut u16, other: u16| {
            if other != 0 {
                *own = other.min(*own);
            }
        };
        lower(&mut self.processes, other.processes);
        lower(&mut self.handles, other.handles);
    }
}

/// The budgets that a process uses. The default is that of the system, which has no limits.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Quota {
    pub tree: Budget,
    /// Without an owner for the root of a tree.
    pub branch: Budget,
}

impl Quota {
    /// Returns the quota of process `child`, started by a process with this quota.
    pub const fn of_child(self, child: u32) -> Quota {
        match self {
            Quota { tree: Budget { owner: 0, .. }, .. } => {
                Quota { tree: Budget::of_tree(child), branch: self.branch }
            }
            Quota { tree, branch: Budget { owner: 0, .. } } => {
                Quota { tree, branch: tree.branch(child) }
            }
            _ => self,
        }
    }

    /// Lowers the budget that process `pid` began to `limits`, each 0 or a maximum. For a process
    /// that began none, nothing changes.
    pub fn lower(&mut self, pid: u32, limits: Budget) {
        self.lower_to(pid, Quota { tree: limits, branch: limits });
    }

    /// Does the same with the limits of the corresponding budget of `other`.
    pub fn lower_to(&mut self, pid: u32, other: Quota) {
        for (budget, limits) in [(&mut self.tree, other.tree), (&mut self.branch, other.branch)] {
            if budget.owner == pid {
                budget.lower(limits);
            }
        }
    }

    /// Returns its budgets, the outer one first.
    pub fn budgets(self) -> impl Iterator<Item = Budget> {
        [self.tree, self.branch].into_iter().filter(|budget| budget.owner != 0)
    }

    /// Packs it into two words of a request.
    pub const fn words(self) -> [u64; 2] {
        [self.tree.word(), self.branch.word()]
    }

    /// Returns the quota in two words of a request. Without a tree it is the system's.
    pub fn of_words([tree, branch]: [u64; 2]) -> Quota {
        match Budget::of_word(tree) {
            Budget { owner: 0, .. } => Quota::default(),
            tree => Quota { tree, branch: Budget::of_word(branch) },
        }
    }
}

const _: () = assert!(size_of::<Quota>() == 16 && HANDLES <= u16::MAX as u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_may_have_half_of_all_and_a_branch_half_of_that() {
        let root = Quota::default().of_child(7);
        assert_eq!(root.tree, Budget { owner: 7, processes: 128, handles: 8192 });
        assert_eq!(root.branch, Budget::default());
        let child = root.of_child(8);
        assert_eq!(child.tree, root.tree);
        assert_eq!(child.branch, Budget { owner: 8, processes: 64, handles: 4096 });
        assert_eq!(child.of_child(9), child);
        assert_eq!(Quota::of_words(child.words()), child);
        assert_eq!((root.tree.pipes(), child.branch.pipes()), (128, 64));
    }

    #[test]
    fn only_the_first_process_of_a_budget_lowers_it() {
        let limits = Budget { owner: 0, processes: 3, handles: 0 };
        let mut quota = Quota::default().of_child(7).of_child(8);
        let before = quota;
        quota.lower(9, limits);
        assert_eq!(quota, before);
        quota.lower(8, limits);
        assert_eq!(quota.branch, Budget { processes: 3, ..before.branch });
        assert_eq!(quota.tree, before.tree);
        quota.lower(8, Budget { processes: 100, ..limits });
        assert_eq!(quota.branch.processes, 3);
        quota.lower(7, Budget { handles: 20, ..limits });
        assert_eq!((quota.tree.processes, quota.tree.handles), (3, 20));
        assert_eq!((quota.tree.branch(9).processes, quota.tree.pipes()), (2, SMALL_PIPES));
    }
}
