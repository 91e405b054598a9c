//! Two kernels that share one arena, and deaths: in a step, and with a lost page.

use super::*;
use crate::outbox::Outbox;
use crate::service::Token;
use abi::lock::LockWord;
use base::port::Exclusive;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;

/// The panic payload of an access to lost memory.
struct Lost;

/// Counts; request 0 accesses lost memory, if there is any.
struct Counter {
    lives: u32,
    count: u64,
}

thread_local! {
    /// The number of further memory accesses that hit lost memory.
    static LOSSES: Cell<u32> = const { Cell::new(0) };
}

fn touch() {
    let left = LOSSES.get();
    if left > 0 {
        LOSSES.set(left - 1);
        panic_any(Lost);
    }
}

impl Service for Counter {
    type Request = u64;
    type Reply = u64;
    const NAME: &'static str = "counter";
    fn start(lives: u32) -> Self {
        touch();
        Counter { lives, count: 0 }
    }
    fn sent(_: &u64, _: usize) -> usize {
        0
    }
    fn filled(_: &u64) -> usize {
        0
    }
    fn step(&mut self, _: u64, event: Event<'_, u64>, _: &mut dyn Effects) -> Answer<u64> {
        let Event::Request { request: &request, .. } = event else { return Answer::NoReply };
        self.count += request;
        if request == 0 {
            touch();
        }
        Answer::Done(u64::from(self.lives) << 32 | self.count)
    }
}

struct NoHeap;

impl Current for NoHeap {
    fn heap() -> usize {
        0
    }
    fn set_heap(_: usize) -> usize {
        0
    }
}

/// What two kernels share besides the arena.
struct Chip {
    /// The words of the lock.
    words: [Cell<LockWord>; 2],
    mended: Cell<u32>,
}

impl Chip {
    /// The second kernel dies in a step of this life.
    fn dies_in(&self, life: u32) {
        self.words[1].set(LockWord::default().in_life(life).attempt().fenced());
    }
}

struct Kernel {
    /// Its view of the arena.
    arena: RefCell<Arena>,
    chip: Rc<Chip>,
    me: usize,
    whole: Cell<bool>,
    /// Keeps the lock after its steps.
    keeps: Cell<bool>,
}

impl Kernel {
    fn release(&self) {
        let word = &self.chip.words[self.me];
        self.keeps.set(false);
        word.set(word.get().ended());
    }
}

impl Exclusive<Arena> for Kernel {
    fn exclusively<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> R {
        let word = &self.chip.words[self.me];
        if word.get().is_idle() {
            word.set(word.get().attempt());
        }
        let result = work(&mut self.arena.borrow_mut());
        if !self.keeps.get() {
            word.set(word.get().ended());
        }
        result
    }
}

impl Custody for Kernel {
    fn enter(&self) -> Option<Known> {
        let known = self.chip.words.iter().map(Cell::get).fold(Known::default(), Known::with);
        self.renew(known.life);
        Some(known)
    }
    fn holding(&self) -> u64 {
        self.chip.words[self.me].get().0
    }
    fn renew(&self, life: u32) {
        let word = &self.chip.words[self.me];
        word.set(word.get().in_life(life));
    }
    fn is_whole(&self) -> bool {
        self.whole.get()
    }
    fn mend(&self) {
        self.whole.set(true);
        self.chip.mended.set(self.chip.mended.get() + 1);
    }
    fn attempt(&self, work: impl FnOnce()) -> bool {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(()) => true,
            Err(why) if why.is::<Lost>() => false,
            Err(why) => std::panic::resume_unwind(why),
        }
    }
}

type Counting = Instance<Counter, Kernel, NoHeap>;

fn leaked() -> Arena {
    let memory = Box::leak(vec![0u8; 1 << 17].into_boxed_slice());
    let skip = memory.as_ptr().align_offset(4096);
    Arena::of(&mut memory[skip..skip + (1 << 16)]).unwrap()
}

fn two() -> (Rc<Chip>, [Counting; 2]) {
    let arena = leaked();
    let chip = Rc::new(Chip { words: Default::default(), mended: Cell::new(0) });
    let kernel = |me| {
        let (arena, chip) = (RefCell::new(arena.twin()), Rc::clone(&chip));
        let (whole, keeps) = (Cell::new(true), Cell::new(false));
        Counting::new(Kernel { arena, chip, me, whole, keeps })
    };
    let kernels = [kernel(0), kernel(1)];
    (chip, kernels)
}

fn ask(kernel: &Counting, request: u64) -> (Result<u64, StepError>, bool) {
    let mut outbox = Outbox::new();
    let event = Event::Request { token: Token::default(), request: &request, bulk: &mut [] };
    let answer = kernel.step(0, event, &mut outbox).map(|answer| match answer {
        Answer::Done(count) => count,
        other => panic!("{other:?}"),
    });
    (answer, outbox.wakes_all())
}

fn life(lives: u64, count: u64) -> Result<u64, StepError> {
    Ok(lives << 32 | count)
}

#[test]
fn the_first_caller_starts_the_service_and_both_kernels_see_one_state() {
    let (_, [main, shadow]) = two();
    assert_eq!(ask(&shadow, 5), (life(1, 5), false), "before the first life no caller waits");
    assert_eq!(ask(&main, 2), (life(1, 7), false));
    assert_eq!(ask(&shadow, 1), (life(1, 8), false));
}

#[test]
fn a_death_during_a_step_restarts_the_service_once() {
    let (chip, [main, shadow]) = two();
    assert_eq!(ask(&shadow, 5).0, life(1, 5));
    chip.dies_in(1);
    assert_eq!(ask(&main, 2), (life(2, 2), true));
    assert_eq!(ask(&main, 2), (life(2, 4), false), "one death costs one restart");
    // The next life of the dead kernel finds its own word, from a past life of the service.
    assert_eq!(ask(&shadow, 1), (life(2, 5), false));
}

#[test]
fn a_rebooted_kernel_restarts_the_service_that_it_died_in() {
    let (chip, [main, shadow]) = two();
    assert_eq!(ask(&main, 5).0, life(1, 5));
    chip.dies_in(1);
    assert_eq!(ask(&shadow, 1), (life(2, 1), true));
    assert_eq!(ask(&main, 1), (life(2, 2), false));
}

#[test]
fn a_death_during_a_restart_causes_another_restart() {
    let (chip, [main, _]) = two();
    assert_eq!(ask(&main, 5).0, life(1, 5));
    chip.dies_in(2);
    assert_eq!(ask(&main, 5), (life(3, 5), true));
}

#[test]
fn a_step_that_touches_a_lost_page_is_abandoned_and_not_retried() {
    let (chip, [main, shadow]) = two();
    assert_eq!(ask(&main, 5).0, life(1, 5));
    LOSSES.set(1);
    assert_eq!(ask(&main, 0), (Err(StepError::Restarted), true));
    assert_eq!(chip.mended.get(), 2);
    assert_eq!(ask(&shadow, 1), (life(2, 1), false));
}

#[test]
fn pages_lost_during_a_restart_cause_another_restart() {
    let (_, [main, shadow]) = two();
    assert_eq!(ask(&main, 5).0, life(1, 5));
    LOSSES.set(3);
    assert_eq!(ask(&main, 0), (Err(StepError::Restarted), true));
    assert_eq!(ask(&shadow, 1), (life(4, 1), false));
}

#[test]
fn a_service_that_cannot_restart_is_absent_until_it_can() {
    let (_, [main, shadow]) = two();
    LOSSES.set(TRIES as u32);
    assert_eq!(ask(&main, 5).0, Err(StepError::Absent));
    assert_eq!(ask(&shadow, 5), (life(TRIES as u64 + 1, 5), true));
}

#[test]
fn pages_known_to_be_lost_restart_the_service_before_the_step() {
    let (_, [main, _]) = two();
    assert_eq!(ask(&main, 5).0, life(1, 5));
    main.arena.whole.set(false);
    assert_eq!(ask(&main, 1), (life(2, 1), true));
}

#[test]
fn a_kernel_that_keeps_the_arena_finds_the_state_again() {
    let (chip, [main, shadow]) = two();
    main.arena.keeps.set(true);
    assert_eq!(ask(&main, 5).0, life(1, 5));
    assert_eq!(ask(&main, 2).0, life(1, 7));
    LOSSES.set(1);
    assert_eq!(ask(&main, 0), (Err(StepError::Restarted), true), "lost in a step that knew it");
    assert_eq!(ask(&main, 3).0, life(2, 3));
    main.arena.whole.set(false);
    assert_eq!(ask(&main, 4), (life(3, 4), true), "lost before the step");
    main.arena.release();
    // What the other kernel does meanwhile is not missed.
    chip.dies_in(3);
    assert_eq!(ask(&shadow, 1), (life(4, 1), true));
    assert_eq!(ask(&main, 1).0, life(4, 2));
}

/// An arena without other users, in a kernel that has started `before + 1` times.
struct Own {
    arena: RefCell<Arena>,
    before: u32,
}

impl Exclusive<Arena> for Own {
    fn exclusively<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> R {
        work(&mut self.arena.borrow_mut())
    }
}

impl Custody for Own {
    fn before(&self) -> u32 {
        self.before
    }
}

#[test]
fn a_kernel_that_starts_again_has_another_life_of_its_own_services() {
    let start = |before| {
        let arena = RefCell::new(leaked());
        Instance::<Counter, Own, NoHeap>::new(Own { arena, before }).start()
    };
    assert_eq!(start(0), Ok(1));
    assert_eq!(start(2), Ok(3), "handles of the first two lives are not valid in the third");
}
