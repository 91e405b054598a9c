//! Disks with a driver in each of several kernels: the same replies, whatever happens to them.

use super::driver::{DISK, Drivers};
use super::tools::{assert_clean, make};
use crate::common::{Pair, Solo, token};
use abi::fs::{Errno, Op, Reply, Request, flag};
use base::id::{DomainId, Epoch};
use fs::exercise::exercise;
use fs::ext2::memory;
use fs::vfs::listener::PATIENCE;
use share::{Event, Token};

/// Runs the exercise with drivers set up by `how`. Returns how many I/Os each took, and the deaths.
pub fn exercised(block: usize, seed: u64, how: impl FnOnce(&mut Drivers)) -> (Vec<u64>, u64) {
    let mut solo = Solo::served(make(block, 16 * 1024, &[]), seed);
    how(solo.drivers.as_mut().unwrap());
    let mut solo = solo.mount();
    let limits = solo.limits();
    let mut pair = Pair::on(solo, limits);
    exercise(seed, 600, &mut |request, bulk| pair.ask(request, bulk))
        .unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
    pair.assert_clean();
    let drivers = pair.solo.drivers.as_ref().unwrap();
    let told = (drivers.took.clone(), drivers.deaths);
    assert_clean(&pair.solo.unmount(), &format!("seed {seed}, blocks of {block}"));
    told
}

#[test]
fn two_and_three_drivers_serve_one_disk() {
    for (seed, others) in [(1, &[0][..]), (2, &[3]), (3, &[0, 3]), (4, &[1, 3])] {
        let (took, _) = exercised(1024, seed, |drivers| {
            others.iter().for_each(|kernel| drivers.join(*kernel));
            drivers.most = 1 + seed as usize % 3;
        });
        assert!(took.iter().sum::<u64>() > 60, "{took:?}");
    }
}

/// The callers' kernel serves them: the others need not be woken.
#[test]
fn the_driver_of_the_callers_kernel_takes_the_ios() {
    let (took, _) = exercised(4096, 5, |drivers| drivers.join(0));
    assert!(took[1] > 5 * took[0], "{took:?}");
}

#[test]
fn missed_wakes_only_cost_time() {
    for seed in 10..13 {
        exercised(1024, seed, |drivers| {
            (0..seed as u8 % 2 + 1).for_each(|at| drivers.join([3, 0][at as usize]));
            (drivers.most, drivers.troubles) = (2, (300, 0));
        });
    }
}

/// Kernels die when they are woken, and with I/Os that they took.
#[test]
fn the_ios_of_dead_kernels_are_issued_to_the_others() {
    let mut deaths = 0;
    for seed in 20..26 {
        deaths += exercised(2048, seed, |drivers| {
            (0..seed as u8 % 2 + 1).for_each(|at| drivers.join([3, 0][at as usize]));
            (drivers.most, drivers.troubles) = (1 + seed as usize % 4, (50, 60));
            drivers.deadly = 100;
        })
        .1;
    }
    assert!(deaths > 20, "{deaths} deaths");
}

/// One driver never comes when it is woken: the others do its work.
#[test]
fn a_driver_that_never_comes_only_costs_time() {
    for (seed, deaf) in [(30, 0), (31, 2), (32, 3)] {
        exercised(1024, seed, |drivers| {
            [0, 3].iter().for_each(|kernel| drivers.join(*kernel));
            drivers.deafen(deaf);
            drivers.troubles = (20, 10);
        });
    }
}

const APP: Token = token_of(0, 1);
const STRONG: Token = token_of(0, 9);
const WEAK: Token = token_of(1, 9);

const fn token_of(kernel: u8, thread: u64) -> Token {
    Token { epoch: 1, kernel, reserved: 0, sequence: 0, thread }
}

/// A mounted file system, and two drivers that wait, the strong kernel's first.
struct Board {
    solo: Solo,
    root: u64,
}

impl Board {
    fn new() -> Board {
        let mut solo = Solo::served(make(1024, 4096, &[]), 1).mount();
        solo.drivers = None;
        solo.tell(Event::Gone(DomainId(2), Epoch(1)));
        let root = solo.ask_as(APP, Request::new(Op::Root, 0), &mut []).unwrap().handle;
        let mut board = Board { solo, root };
        assert_eq!(board.next(STRONG, 0), None);
        assert_eq!(board.next(WEAK, 0), None);
        board.solo.take_woken();
        board
    }

    fn next(&mut self, driver: Token, flags: u16) -> Option<Reply> {
        let next = Request { flags, ..Request::new(Op::NextIo, DISK) };
        self.solo.ask_as(driver, next, &mut [0; 4096])
    }

    /// A caller in this kernel looks up a name, for which a block is missing. Returns the woken.
    fn look_up(&mut self, kernel: u8) -> Vec<Token> {
        let open = Request { name: 10, flags: flag::READ, ..Request::new(Op::Open, self.root) };
        let mut path = *b"lost+found";
        assert_eq!(self.solo.ask_as(token(kernel, 1), open, &mut path), None);
        self.solo.take_woken()
    }

    fn done(&mut self, driver: Token, number: u64) -> Errno {
        let done = Request { flags: flag::GOOD, length: 1024, ..Request::new(Op::IoDone, number) };
        self.solo.ask_as(driver, done, &mut [0; 1024]).unwrap().errno()
    }
}

/// Returns what the I/O is, without its number.
fn what(reply: Option<Reply>) -> (u64, u64, u16) {
    let reply = reply.expect("there is an I/O");
    (reply.value, reply.other, reply.flags)
}

#[test]
fn a_near_driver_is_woken() {
    assert_eq!(Board::new().look_up(1), [WEAK]);
    assert_eq!(Board::new().look_up(0), [STRONG]);
    assert_eq!(Board::new().look_up(5), [STRONG], "none is near: the first");
}

#[test]
fn a_driver_that_does_not_come_is_not_the_only_hope() {
    let mut board = Board::new();
    assert_eq!(board.look_up(1), [WEAK]);
    assert_eq!(board.look_up(1), []);
    board.solo.now += PATIENCE;
    assert_eq!(board.look_up(1), [WEAK, STRONG]);
    let taken = board.next(STRONG, 0).unwrap();
    assert_eq!(board.next(WEAK, 0), None, "an I/O is taken once");
    assert_eq!(board.done(STRONG, taken.handle), Errno::Success);
}

/// A kernel that dies after it was woken, or after it took the I/O, leaves it to the other.
#[test]
fn a_death_wakes_the_other_driver_at_once() {
    for takes in [false, true] {
        let mut board = Board::new();
        assert_eq!(board.look_up(1), [WEAK]);
        let taken = takes.then(|| board.next(WEAK, 0).unwrap());
        assert_eq!(board.solo.take_woken(), []);
        board.solo.tell(Event::Gone(DomainId(1), Epoch(1)));
        assert_eq!(board.solo.take_woken(), [STRONG]);
        let again = board.next(STRONG, 0);
        taken.inspect(|taken| assert_eq!(what(again), what(Some(*taken))));
        taken.inspect(|taken| assert_eq!(board.done(WEAK, taken.handle), Errno::Badf));
        assert_eq!(board.done(STRONG, again.unwrap().handle), Errno::Success);
    }
}

/// The thread that was woken gave up, so that the other one is needed.
#[test]
fn a_driver_that_gives_up_leaves_the_work_to_the_other() {
    let mut board = Board::new();
    assert_eq!(board.look_up(1), [WEAK]);
    board.solo.tell(Event::Cancel(WEAK));
    assert_eq!(board.solo.take_woken(), [STRONG]);
}

/// RESTARTED reissues what the caller's kernel had taken, and nothing of the others.
#[test]
fn a_restarted_driver_gets_its_own_ios_again() {
    let mut board = Board::new();
    board.look_up(1);
    let taken = board.next(WEAK, 0).unwrap();
    assert_eq!(board.next(STRONG, flag::RESTARTED), None);
    assert_eq!(what(board.next(WEAK, flag::RESTARTED)), what(Some(taken)));
    assert_eq!(board.done(WEAK, taken.handle), Errno::Badf, "it has another number now");
}

/// A kernel rests for long with an I/O that it took. No other kernel gets it, and it counts once.
#[test]
fn an_io_of_a_kernel_that_rests_is_not_taken_twice() {
    let mut board = Board::new();
    board.look_up(1);
    let taken = board.next(WEAK, 0).unwrap();
    board.solo.now += 10 * PATIENCE;
    assert_eq!(board.look_up(0), [WEAK], "the I/O is taken, so its taker has to continue");
    assert_eq!(board.next(STRONG, 0), None);
    assert_eq!(board.done(WEAK, taken.handle), Errno::Success);
    assert_eq!(board.done(WEAK, taken.handle), Errno::Badf);
}

/// Both kernels mount their disk. The second one learns that it is mounted, wherever it wanted it,
/// and without waiting for the disk. A directory that is covered is another matter.
#[test]
fn the_second_mount_of_a_disk_is_busy_and_a_covered_directory_exists() {
    let image = make(1024, 16 * 1024, &[]);
    let wanted = memory(&image[1024..2048]).unwrap();
    let mut solo = Solo::new(8 << 20);
    let root = solo.root();
    for name in [b"disk".as_slice(), b"other"] {
        solo.with(|c| c.mkdir(root, name)).unwrap();
    }
    let mut mount = |kernel, name: &[u8], disk, flags| {
        solo.with_as(token(kernel, 9), |c| c.mount(root, name, disk, wanted, flags))
    };
    assert_eq!(mount(0, b"disk", DISK, 0), Ok(()));
    assert_eq!(mount(1, b"disk", DISK, 0), Err(Errno::Busy));
    assert_eq!(mount(1, b"other", DISK, 0), Err(Errno::Busy));
    assert_eq!(mount(1, b".", DISK, flag::TOP), Err(Errno::Busy));
    assert_eq!(mount(1, b"missing", DISK, 0), Err(Errno::Busy));
    assert_eq!(mount(0, b".", 2, flag::TOP), Ok(()));
    assert_eq!(mount(1, b".", 2, flag::TOP), Err(Errno::Busy));
}

#[test]
fn a_covered_directory_is_not_mistaken_for_a_mounted_disk() {
    let mut solo = Solo::new(8 << 20);
    let root = solo.root();
    solo.with(|c| c.mkdir(root, b"disk")).unwrap();
    solo.with(|c| c.mount(root, b"disk", 0, 100_000, 0)).unwrap();
    let mut mount = |name: &[u8], flags| solo.with(|c| c.mount(root, name, DISK, 1 << 20, flags));
    assert_eq!(mount(b"disk", 0), Err(Errno::Exist));
    assert_eq!(mount(b".", 0), Err(Errno::Inval), "the root is replaced with TOP only");
}
