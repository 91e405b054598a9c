//! Accounts: how many handles and pipes each process tree and each branch of one has
//! (`abi::quota`).
//!
//! Contract: [`Accounts::room`] checks and reserves, [`Accounts::charge`] then cannot fail. What is
//! charged to a branch counts for its tree too. An account exists as long as something is charged
//! to it; the owners of two accounts differ.

use abi::fs::Errno;
use abi::quota::{
    Budget, HANDLES, PIPES, Quota, RESERVED_HANDLES, RESERVED_PIPES, SMALL_HANDLES, SMALL_PIPES,
    SYSTEM_HANDLES, SYSTEM_PIPES,
};
use alloc::vec::Vec;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Handles,
    Pipes,
}

impl Resource {
    fn limit(self, budget: Budget) -> u32 {
        match self {
            Resource::Handles => budget.handles.into(),
            Resource::Pipes => budget.pipes(),
        }
    }

    /// Returns how many there can be in all, as long as a tree has `own` of them, the new ones
    /// included.
    fn most_for_tree(self, own: u32) -> u32 {
        let (all, small, reserved, system) = match self {
            Resource::Handles => (HANDLES, SMALL_HANDLES, RESERVED_HANDLES, SYSTEM_HANDLES),
            Resource::Pipes => (PIPES, SMALL_PIPES, RESERVED_PIPES, SYSTEM_PIPES),
        };
        all - if own <= small { system } else { reserved }
    }
}

#[derive(Clone, Copy, Debug)]
struct Account {
    owner: u32,
    /// Owner of the tree's account; 0 if this is one.
    tree: u32,
    handles: u32,
    pipes: u32,
}

impl Account {
    fn count(&mut self, what: Resource) -> &mut u32 {
        match what {
            Resource::Handles => &mut self.handles,
            Resource::Pipes => &mut self.pipes,
        }
    }
}

/// The accounts of all trees.
#[derive(Debug, Default)]
pub struct Accounts {
    /// Sorted by owner.
    all: Vec<Account>,
}

impl Accounts {
    fn find(&self, owner: u32) -> Result<usize, usize> {
        self.all.binary_search_by_key(&owner, |account| account.owner)
    }

    fn used(&self, owner: u32, what: Resource) -> u32 {
        let account = self.find(owner).ok().and_then(|at| self.all.get(at));
        account.map_or(0, |account| *account.clone().count(what))
    }

    /// Returns whether the tree and the branch are what the accounts say they are.
    fn is_consistent(&self, quota: Quota) -> bool {
        let is_below = |owner: u32, tree: u32| {
            let account = self.find(owner).ok().and_then(|at| self.all.get(at));
            account.is_none_or(|account| account.tree == tree)
        };
        let Quota { tree, branch } = quota;
        let is_branch = branch.owner == 0 || is_below(branch.owner, tree.owner);
        branch.owner != tree.owner && is_below(tree.owner, 0) && is_branch
    }

    /// Checks that the quota allows `more` of `what` while there are `all` of them, and reserves
    /// memory for [`Accounts::charge`]. Fails with `Nfile`; with `Inval` if the quota contradicts
    /// the accounts.
    pub fn room(&mut self, quota: Quota, what: Resource, more: u32, all: u32) -> Result<(), Errno> {
        if quota.tree.owner == 0 {
            return Ok(());
        }
        if !self.is_consistent(quota) {
            return Err(Errno::Inval);
        }
        let after = |budget: Budget| self.used(budget.owner, what).saturating_add(more);
        let is_over = quota.budgets().any(|budget| after(budget) > what.limit(budget));
        if is_over || all.saturating_add(more) > what.most_for_tree(after(quota.tree)) {
            return Err(Errno::Nfile);
        }
        self.all.try_reserve(2).map_err(|_| Errno::Nfile)
    }

    /// Charges `more` of `what`. Returns the account for [`Accounts::release`], 0 for the system.
    pub fn charge(&mut self, quota: Quota, what: Resource, more: u32) -> u32 {
        let mut tree = 0;
        for budget in quota.budgets() {
            let at = self.find(budget.owner).unwrap_or_else(|at| {
                let account = Account { owner: budget.owner, tree, handles: 0, pipes: 0 };
                self.all.insert(at, account);
                at
            });
            if let Some(account) = self.all.get_mut(at) {
                *account.count(what) += more;
            }
            tree = budget.owner;
        }
        tree
    }

    /// Takes one of `what` from an account, and from that of its tree.
    pub fn release(&mut self, owner: u32, what: Resource) {
        let mut next = owner;
        while next != 0 {
            let Ok(at) = self.find(next) else { return };
            let Some(account) = self.all.get_mut(at) else { return };
            let count = account.count(what);
            *count = count.saturating_sub(1);
            next = account.tree;
            if account.handles == 0 && account.pipes == 0 {
                self.all.remove(at);
            }
        }
    }

    /// Returns the number of accounts.
    pub fn count(&self) -> usize {
        self.all.len()
    }
}
