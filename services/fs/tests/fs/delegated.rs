//! A private pipe that two kernels use: random histories of its home and its guest ([`world`]).

mod world;

use abi::fs::{Errno, Op, Request, flag};
use base::id::{DomainId, Epoch, Life};
use fs::private::far::{Added, Closed, Far, Room, Wrote};
use fs::private::wire::{Ask, MOST, Outcome};
use fs::private::{Answer, Side};
use world::{GUEST, HOME, IsDone, READER, WRITER, World};

/// Closes everything, and checks that nothing is left.
fn close_all(world: &mut World) {
    for side in [READER, WRITER] {
        (0..world.adding[side]).for_each(|_| world.add(side));
    }
    world.settle();
    world.assert_answered();
    (0..2).for_each(|_| {
        world.cancel();
        world.settle();
    });
    assert!(world.reads.is_empty(), "each ask has its answer");
    for side in [READER, WRITER] {
        while world.distant[side] != 0 {
            world.distant[side] -= 1;
            let closed = world.far.close(world.handles[side]).expect("it was open");
            world.after(side, closed);
        }
        world.settle();
        (0..world.local[side]).for_each(|_| world.close_at_home(side));
    }
    assert!(world.pipe.is_free() && world.far.count() == 0);
    assert_eq!(world.serves, [[false; 2]; 2]);
}

#[test]
fn bytes_arrive_in_order_and_once_on_two_kernels() {
    let (mut answers, mut left, mut read) = (0, 0, 0);
    for seed in 0..3000 {
        let mut world = World::new(seed);
        if seed % 5 == 0 {
            let flags = flag::NONBLOCK;
            let request = Request { flags, ..Request::new(Op::SetFlags, world.handles[READER]) };
            world.is_nonblocking = world.pipe.ask(&request, &mut []).is_done();
        }
        (0..600).for_each(|_| world.step());
        close_all(&mut world);
        assert!(world.read <= world.written, "seed {seed}");
        (answers, left, read) = (answers + world.answers, left + world.left, read + world.read);
    }
    assert!(answers > 20_000 && left > 500 && read > 100_000, "{answers} {left} {read}");
}

#[test]
fn the_death_of_the_guest_closes_its_ends() {
    for seed in 0..2000 {
        let mut world = World::new(seed);
        (0..200).for_each(|_| world.step());
        world.has_died();
        world.pipe.forget_guest(|life| life == GUEST);
        world.close_over();
        for side in [READER, WRITER] {
            if world.serves[1][side] {
                world.close_served(1, side);
            }
            (0..world.local[side]).for_each(|_| world.close_at_home(side));
        }
        assert!(world.pipe.is_free() && world.serves == [[false; 2]; 2], "seed {seed}");
        assert!(!world.pipe.is_asked());
    }
}

#[test]
fn the_death_of_the_home_ends_what_was_asked() {
    for seed in 0..2000 {
        let mut world = World::new(seed);
        (0..200).for_each(|_| world.step());
        world.has_died();
        let mut woken = Vec::new();
        world.far.kernels_died(|life| life == HOME, &mut |thread| woken.push(thread));
        let asks = [std::mem::take(&mut world.reads), std::mem::take(&mut world.writes)].concat();
        assert_eq!(woken.len(), asks.len());
        for id in asks {
            let taken = world.far.take(id, &mut [0; MOST]);
            assert_eq!(taken.map(|taken| taken.0), Some(Outcome::Failed(Errno::Io)));
        }
        for side in [READER, WRITER] {
            (0..world.distant[side]).for_each(|_| {
                let closed = world.far.close(world.handles[side]).expect("it was open");
                assert!(!matches!(closed, Closed::Home(..)));
            });
        }
        assert_eq!(world.far.count(), 0, "seed {seed}");
    }
}

#[test]
fn a_third_kernel_makes_the_pipe_leave() {
    let mut world = World::new(1);
    world.pass(WRITER);
    let third = Life { kernel: DomainId(2), epoch: Epoch(1) };
    assert_eq!(world.pipe.offer(world.handles[0], third), Answer::Leave);
    let mut ask = |op| world.pipe.ask_for_guest(third, &Request::new(op, world.handles[0]));
    assert_eq!(ask(Op::Dup), Answer::Leave);
    assert!(matches!(ask(Op::Stat), Answer::Done(reply) if reply.errno() == Errno::Badf));
}

#[test]
fn a_guest_that_asks_too_much_is_at_fault() {
    let mut world = World::new(1);
    world.pass(READER);
    world.add(READER);
    let mut ask = |id| world.pipe.hear(GUEST, id, world.handles[READER], Ask::Read(1)).is_ok();
    assert_eq!((0..40).filter(|id| ask(*id)).count(), 2 * fs::private::ASKS);
    let mut far = Far::new();
    assert_eq!(far.add(world.handles[READER]), Added::Yes);
    let id = far.ask(world.handles[READER], 1, Room::Read(4)).unwrap();
    for (outcome, bytes) in
        [(Outcome::Moved(5), &[0; 5][..]), (Outcome::Moved(3), &[0; 2]), (Outcome::Elsewhere, &[0])]
    {
        assert!(far.answered(HOME, id, outcome, bytes).is_err());
    }
    assert_eq!(far.answered(GUEST, id, Outcome::Moved(0), &[]), Ok(None));
    assert_eq!(far.answered(HOME, id + 32, Outcome::Moved(0), &[]), Ok(None));
}

#[test]
fn a_thread_that_only_writes_continues_to_write() {
    let (mut wrote, mut now) = (Wrote::default(), 0);
    let mut step = |handle, side, after| {
        now += after;
        wrote.continues(handle, side, now)
    };
    assert!((0..8).all(|_| !step(1, Side::Writer, 10_000)));
    assert!(step(1, Side::Writer, 10_000));
    for (handle, side, after) in
        [(1, Side::Reader, 10_000), (2, Side::Writer, 10_000), (2, Side::Writer, 1_000_000)]
    {
        assert!(!step(handle, side, after), "a read, another end, a pause begin again");
        assert!((0..7).all(|_| !step(handle, Side::Writer, 10_000)));
    }
}
