//! Quotas of process trees: handles and pipes.

use crate::common::{Solo, token};
use abi::fs::{Errno, Op, Request};
use abi::quota::{
    Budget, HANDLES, PIPES, Quota, RESERVED_HANDLES, RESERVED_PIPES, SMALL_HANDLES, SMALL_PIPES,
    SYSTEM_HANDLES, SYSTEM_PIPES,
};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use share::Event;
use std::collections::BTreeSet;

const BUDGET: u64 = 1 << 20;

/// The quota of the root of tree `owner`.
fn tree(owner: u32) -> Quota {
    Quota::default().of_child(owner)
}

/// Opens the root directory for a process with this quota.
fn open(solo: &mut Solo, quota: Quota) -> Result<u64, Errno> {
    done(solo.ask(Request::new(Op::Root, 0).with_quota(quota), &mut []))
}

fn done(reply: abi::fs::Reply) -> Result<u64, Errno> {
    if reply.error == 0 { Ok(reply.handle) } else { Err(reply.errno()) }
}

/// Opens until it fails with `Nfile`. Returns how many were opened.
fn fill(solo: &mut Solo, quota: Quota) -> u32 {
    let opened =
        (0..).map_while(|_| open(solo, quota).map_err(|e| assert_eq!(e, Errno::Nfile)).ok());
    opened.count() as u32
}

#[test]
fn a_tree_gets_half_of_the_handles_and_its_bystanders_the_rest() {
    let mut solo = Solo::new(BUDGET);
    assert_eq!(fill(&mut solo, tree(7)), HANDLES / 2);
    assert_eq!(fill(&mut solo, tree(7).of_child(8)), 0, "a branch is part of its tree");
    assert_eq!(fill(&mut solo, tree(9)), HANDLES / 2 - RESERVED_HANDLES);
    // Both are at their limit; a third tree starts all the same, and so does the system.
    assert_eq!(fill(&mut solo, tree(10)), SMALL_HANDLES);
    assert_eq!(fill(&mut solo, Quota::default()), RESERVED_HANDLES - SMALL_HANDLES);
}

#[test]
fn many_trees_leave_handles_for_the_system() {
    let mut solo = Solo::new(BUDGET);
    let all: u32 = (2..600).map(|owner| fill(&mut solo, tree(owner))).sum();
    assert_eq!(all, HANDLES - SYSTEM_HANDLES);
    assert_eq!(fill(&mut solo, Quota::default()), SYSTEM_HANDLES);
}

#[test]
fn a_branch_gets_half_of_its_tree_and_a_duplicate_counts() {
    let mut solo = Solo::new(BUDGET);
    let (branch, beside) = (tree(7).of_child(8), tree(7).of_child(9));
    assert_eq!(fill(&mut solo, branch), HANDLES / 4);
    let handle = open(&mut solo, beside).unwrap();
    let dup = |quota| Request::new(Op::Dup, handle).with_quota(quota);
    assert_eq!(done(solo.ask(dup(branch), &mut [])), Err(Errno::Nfile));
    let second = done(solo.ask(dup(beside), &mut [])).unwrap();
    // Given back to the tree that has it, not to the one that closes it.
    assert_eq!(solo.ask(Request::new(Op::Close, second), &mut []).errno(), Errno::Success);
    assert_eq!(fill(&mut solo, beside), HANDLES / 4 - 1);
    assert_eq!(fill(&mut solo, tree(7)), 0);
}

#[test]
fn pipes_have_limits_of_their_own() {
    let mut solo = Solo::new(BUDGET);
    let mut pipes = |quota: Quota| {
        let mut made = 0;
        while solo.ask(Request::new(Op::Pipe, 0).with_quota(quota), &mut []).error == 0 {
            made += 1;
        }
        made
    };
    assert_eq!(pipes(tree(7)), PIPES / 2);
    assert_eq!(pipes(tree(8)), PIPES / 2 - RESERVED_PIPES);
    let more: u32 = (9..30).map(|owner| pipes(tree(owner))).sum();
    assert_eq!(more, RESERVED_PIPES - SYSTEM_PIPES);
    assert_eq!(pipes(Quota::default()), SYSTEM_PIPES);
    let mut few = tree(40);
    few.lower(40, Budget { handles: 9, ..Budget::default() });
    assert_eq!(few.tree.pipes(), SMALL_PIPES);
}

#[test]
fn a_quota_that_contradicts_the_accounts_is_refused() {
    let mut solo = Solo::new(BUDGET);
    open(&mut solo, tree(7).of_child(8)).unwrap();
    for quota in [tree(8), tree(9).of_child(8), tree(9).of_child(7), tree(9).of_child(9)] {
        assert_eq!(open(&mut solo, quota), Err(Errno::Inval), "{quota:?}");
    }
    assert_eq!(solo.vfs.accounts(), 2);
}

/// A handle that a history has open.
#[derive(Clone, Copy)]
struct Open {
    handle: u64,
    /// Index of the quota that it is charged to.
    quota: usize,
    kernel: u8,
    /// Number of the pipe that it is an end of.
    pipe: Option<usize>,
}

/// A random history and its own count of what is open.
struct History {
    solo: Solo,
    random: Prng,
    quotas: Vec<Quota>,
    open: Vec<Open>,
    /// The quota that each pipe is charged to.
    pipes: Vec<usize>,
    epochs: [u16; 2],
}

impl History {
    fn is_of(&self, quota: usize, owner: u32) -> bool {
        self.quotas[quota].budgets().any(|budget| budget.owner == owner)
    }

    /// Returns the pipes that have an open end.
    fn live_pipes(&self) -> BTreeSet<usize> {
        self.open.iter().filter_map(|open| open.pipe).collect()
    }

    /// Returns whether the quota allows these many more handles and pipes.
    fn allows(&self, at: usize, handles: usize, pipes: usize) -> bool {
        self.quotas[at].budgets().all(|budget| {
            let is_of = |at: usize| self.is_of(at, budget.owner);
            let own = self.open.iter().filter(|open| is_of(open.quota)).count();
            let own_pipes = self.live_pipes().into_iter().filter(|at| is_of(self.pipes[*at]));
            own + handles <= usize::from(budget.handles)
                && own_pipes.count() + pipes <= budget.pipes() as usize
        })
    }

    /// Returns how many accounts there must be.
    fn accounts(&self) -> usize {
        let of_handles = self.open.iter().map(|open| open.quota);
        let all = of_handles.chain(self.live_pipes().into_iter().map(|at| self.pipes[at]));
        let owners = all.flat_map(|at| self.quotas[at].budgets()).map(|budget| budget.owner);
        owners.collect::<BTreeSet<_>>().len()
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    fn ask(&mut self, kernel: u8, request: Request) -> abi::fs::Reply {
        let mut caller = token(kernel, 1);
        caller.epoch = self.epochs[usize::from(kernel)];
        self.solo.ask_as(caller, request, &mut []).unwrap()
    }

    fn operate(&mut self) {
        let (quota, kernel) = (self.below(self.quotas.len()), self.random.below(2) as u8);
        let any = if self.open.is_empty() { None } else { Some(self.below(self.open.len())) };
        match (self.random.below(16), any) {
            (0..4, _) => self.add((quota, kernel), Op::Root, None),
            (4..6, _) => self.add((quota, kernel), Op::Pipe, None),
            (6..10, Some(any)) => self.add((quota, kernel), Op::Dup, Some(self.open[any])),
            (10..15, Some(any)) => {
                // Any kernel may close it, for a process of any tree.
                let close = Request::new(Op::Close, self.open.swap_remove(any).handle);
                assert_eq!(self.ask(kernel, close.with_quota(self.quotas[quota])).error, 0);
            }
            (15, _) if self.random.chance(1, 8) => {
                let epoch = &mut self.epochs[usize::from(kernel)];
                let gone = Event::Gone(DomainId(kernel), Epoch(*epoch));
                *epoch += 1;
                self.solo.tell(gone);
                self.open.retain(|open| open.kernel != kernel);
            }
            _ => {}
        }
    }

    /// Makes handles; the service must refuse exactly what the quota does not allow.
    fn add(&mut self, (quota, kernel): (usize, u8), op: Op, from: Option<Open>) {
        let request = Request::new(op, from.map_or(0, |open| open.handle));
        let (handles, pipes) = if op == Op::Pipe { (2, 1) } else { (1, 0) };
        let is_allowed = self.allows(quota, handles, pipes);
        let reply = self.ask(kernel, request.with_quota(self.quotas[quota]));
        let wanted = if is_allowed { Errno::Success } else { Errno::Nfile };
        assert_eq!(reply.errno(), wanted, "{request:?} {:?}", self.quotas[quota]);
        if reply.error != 0 {
            return;
        }
        let mut pipe = from.and_then(|open| open.pipe);
        if op == Op::Pipe {
            pipe = Some(self.pipes.len());
            self.pipes.push(quota);
            self.open.push(Open { handle: reply.other, quota, kernel, pipe });
        }
        self.open.push(Open { handle: reply.handle, quota, kernel, pipe });
    }
}

#[test]
fn random_histories_agree_with_a_count_and_leave_no_account() {
    let mut refused = 0;
    for seed in 0..200 {
        let mut quotas = vec![];
        for root in [10, 20, 30] {
            let mut quota = tree(root);
            quota.lower(root, Budget { handles: 24, ..Budget::default() });
            quotas.extend([quota, quota.of_child(root + 1), quota.of_child(root + 2)]);
        }
        let (solo, random) = (Solo::new(BUDGET), Prng::new(seed));
        let (open, pipes, epochs) = (vec![], vec![], [1; 2]);
        let mut history = History { solo, random, quotas, open, pipes, epochs };
        for _ in 0..400 {
            history.operate();
            assert_eq!(history.solo.vfs.accounts(), history.accounts(), "seed {seed}");
            refused += u32::from((0..9).any(|at| !history.allows(at, 1, 0)));
        }
        for open in std::mem::take(&mut history.open) {
            assert_eq!(history.ask(0, Request::new(Op::Close, open.handle)).error, 0);
        }
        assert_eq!((history.solo.vfs.accounts(), history.solo.vfs.census()), (0, (0, 0)));
    }
    assert!(refused > 1000, "{refused} states with a full budget");
}
