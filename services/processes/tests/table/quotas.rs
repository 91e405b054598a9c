//! Quotas of process trees: processes and start data.

use crate::common::*;
use abi::process::{Errno, Op, PROCESSES, Request, flag};
use abi::program::BEGIN_BYTES;
use abi::quota::{Budget, Quota, RESERVED_PROCESSES};
use base::prng::Prng;
use processes::client::{News, Running};
use std::collections::BTreeMap;

const TREE: usize = PROCESSES / 2;

/// Starts processes until it fails with `Again`. Returns their numbers.
fn fill(world: &mut World, parent: u32) -> Vec<u32> {
    let mut all = vec![];
    while let Some(pid) = try_run(world, parent) {
        all.push(pid);
    }
    all
}

/// Starts a process; `None` if that fails with `Again`.
fn try_run(world: &mut World, parent: u32) -> Option<u32> {
    let (request, mut bulk) = spawn(1, parent, 0);
    let token = world.token(0);
    match world.ask(token, request, &mut bulk) {
        Some(reply) => {
            assert_eq!(reply.errno(), Errno::Again);
            None
        }
        None => {
            let pid = world.fetch(1);
            world.with(1, |c| c.begun(pid, Quota::default(), Ok(0))).unwrap();
            world.again(token, request, &mut bulk).unwrap();
            world.take_woken();
            Some(pid)
        }
    }
}

#[test]
fn a_tree_gets_half_of_the_places_and_its_bystanders_the_rest() {
    let mut world = World::new();
    let (one, other) = (world.shell(), world.shell());
    let children = fill(&mut world, one);
    assert_eq!(children.len(), TREE - 1);
    assert_eq!(try_run(&mut world, children[0]), None, "a branch is part of its tree");
    assert_eq!(fill(&mut world, other).len(), TREE - RESERVED_PROCESSES - 1);
    // The system alone gets the rest.
    for _ in 0..RESERVED_PROCESSES {
        world.run(0, 0, flag::WATCHED);
    }
    assert_eq!(try_run(&mut world, 0), None);
}

#[test]
fn a_branch_gets_half_of_its_tree() {
    let mut world = World::new();
    let root = world.shell();
    let branch = world.run(1, root, 0);
    assert_eq!(fill(&mut world, branch).len(), TREE / 2 - 1);
    assert_eq!(fill(&mut world, root).len(), TREE / 2 - 1);
}

#[test]
fn a_process_counts_in_its_tree_after_its_parents_have_ended() {
    let mut world = World::new();
    let root = world.shell();
    let branch = world.run(1, root, 0);
    let orphan = world.run(1, branch, 0);
    world.with(1, |c| c.ended(branch, abi::process::End::Exit, 0, Default::default())).unwrap();
    world.with(0, |c| c.ended(root, abi::process::End::Exit, 0, Default::default())).unwrap();
    assert_eq!(world.about(orphan).unwrap().parent, 0);
    // The ended root is kept for its watcher and counts until then.
    assert_eq!(fill(&mut world, orphan).len(), TREE / 2 - 1);
    // Numbers of the tree and the branch are not given again as long as they count.
    assert!(world.about(branch).is_none());
}

#[test]
fn a_kernel_lowers_the_budget_that_a_process_began() {
    let mut world = World::new();
    let (request, mut bulk) = spawn(1, 0, flag::WATCHED);
    let token = world.park(0, request, &mut bulk);
    let Some(News::Begin { pid, mut quota, .. }) = world.next(1) else { panic!("no process") };
    assert_eq!(quota, Quota::default().of_child(pid));
    quota.lower(pid, Budget { processes: 4, handles: 100, ..Budget::default() });
    world.with(1, |c| c.begun(pid, quota, Ok(0))).unwrap();
    world.again(token, request, &mut bulk).unwrap();
    world.take_woken();
    let (request, mut bulk) = spawn(1, pid, 0);
    let token = world.park(0, request, &mut bulk);
    let Some(News::Begin { pid: child, quota: of_child, .. }) = world.next(1) else {
        panic!("no child")
    };
    assert_eq!(of_child, quota.of_child(child));
    assert_eq!((of_child.branch.processes, of_child.branch.handles), (2, 50));
    // A budget that another process began stays, and none rises.
    let mut raised = of_child;
    (raised.tree.processes, raised.branch.processes) = (1, 100);
    world.with(1, |c| c.begun(child, raised, Ok(0))).unwrap();
    world.again(token, request, &mut bulk).unwrap();
    world.take_woken();
    assert_eq!(fill(&mut world, child).len(), 1);
    assert_eq!(fill(&mut world, pid).len(), 1);
}

#[test]
fn adopted_processes_count_as_before_the_restart() {
    let mut world = World::new();
    let root = Quota::default().of_child(10);
    let adopt =
        |pid, parent, quota| Running { pid, parent, kernel: 1, quota, ..Running::default() };
    world.with(1, |c| c.adopt(adopt(10, 0, root))).unwrap();
    for pid in 11..11 + TREE as u32 - 1 {
        world.with(1, |c| c.adopt(adopt(pid, 10, root.of_child(pid)))).unwrap();
    }
    assert_eq!(try_run(&mut world, 10), None);
    world.with(1, |c| c.ended(11, abi::process::End::Exit, 0, Default::default())).unwrap();
    assert_eq!(try_run(&mut world, 10), None, "it was not reaped");
    assert_eq!(world.done(0, wait(10, 11), &mut []).pid, 11);
    assert!(try_run(&mut world, 10).is_some());
}

#[test]
fn start_data_of_one_tree_leave_room_for_others_and_for_the_system() {
    let mut world = World::new();
    let (one, other) = (world.shell(), world.shell());
    let mut ask = |parent: u32, bytes: usize| {
        let mut bulk = vec![1; bytes];
        let length = bytes as u32;
        let request = Request { kernel: 2, parent, length, ..Request::new(Op::Spawn) };
        let token = world.token(0);
        world.ask(token, request, &mut bulk).map_or(Errno::Success, |reply| reply.errno())
    };
    assert_eq!(ask(one, BEGIN_BYTES), Errno::Success);
    assert_eq!(ask(one, BEGIN_BYTES), Errno::Nomem);
    assert_eq!(ask(one, BEGIN_BYTES / 2), Errno::Success);
    assert_eq!(ask(other, BEGIN_BYTES), Errno::Nomem);
    assert_eq!(ask(other, BEGIN_BYTES / 2), Errno::Success);
    assert_eq!(ask(other, 1), Errno::Nomem);
    assert_eq!(ask(0, BEGIN_BYTES), Errno::Success);
}

/// Random processes start and end others; the table refuses exactly what a count of its own does.
#[test]
fn random_histories_agree_with_a_count() {
    let (mut started, mut refused) = (0, 0);
    for seed in 0..60 {
        let (mut world, mut random) = (World::new(), Prng::new(seed));
        // The quota of each process that the table knows.
        let mut quotas: BTreeMap<u32, Quota> = BTreeMap::new();
        for _ in 0..600 {
            let all: Vec<u32> = quotas.keys().copied().collect();
            let any = (!all.is_empty()).then(|| all[random.below(all.len() as u64) as usize]);
            let parent = any.filter(|_| !random.chance(1, 16));
            if let Some(pid) = any.filter(|_| random.chance(2, 5)) {
                let ended = |c: &mut processes::client::Client<'_>| {
                    c.ended(pid, abi::process::End::Exit, 0, Default::default())
                };
                world.with(1, ended).unwrap();
                let parent = world.about(pid).map_or(0, |listed| listed.parent);
                if parent != 0 {
                    assert_eq!(world.done(0, wait(parent, pid as i32), &mut []).pid, pid);
                }
                quotas.remove(&pid);
                continue;
            }
            let from = parent.map_or(Quota::default(), |parent| quotas[&parent]);
            let count = |owner| {
                let is_of = |quota: &&Quota| quota.budgets().any(|budget| budget.owner == owner);
                quotas.values().filter(is_of).count()
            };
            let mut budgets = from.budgets();
            let allowed = budgets.all(|b| count(b.owner) < usize::from(b.processes));
            let pid = begin(&mut world, parent.unwrap_or(0), &mut random);
            assert_eq!(pid.is_some(), allowed, "seed {seed}: {from:?}");
            started += u32::from(allowed);
            refused += u32::from(!allowed);
            quotas.extend(pid);
        }
        for pid in quotas.into_keys() {
            world
                .with(1, |c| c.ended(pid, abi::process::End::Exit, 0, Default::default()))
                .unwrap();
        }
    }
    assert!(started > 5000 && refused > 500, "{started} started, {refused} refused");
}

/// Starts a process, with low limits if it begins a tree. Returns its number and quota.
fn begin(world: &mut World, parent: u32, random: &mut Prng) -> Option<(u32, Quota)> {
    let (request, mut bulk) = spawn(1, parent, 0);
    let token = world.token(0);
    if let Some(reply) = world.ask(token, request, &mut bulk) {
        assert_eq!(reply.errno(), Errno::Again);
        return None;
    }
    let Some(News::Begin { pid, mut quota, .. }) = world.next(1) else { panic!("no process") };
    let processes = 3 + random.below(8) as u16;
    if parent == 0 {
        quota.lower(pid, Budget { processes, ..Budget::default() });
    }
    world.with(1, |c| c.begun(pid, quota, Ok(0))).unwrap();
    assert_eq!(world.again(token, request, &mut bulk).unwrap().pid, pid);
    world.take_woken();
    Some((pid, quota))
}
