//! Tests with two kernels in one process, each on its own model of a machine. Links are words of
//! this process; page tables are models.

use super::board::{Block, config, links};
use super::*;
use abi::soc::pack_state;
use arch::mmu::PageTable;
use arch::shared::Window;
use arch::types::{Access as Touch, Fault};
use base::id::DomainId;
use base::port::Frames;
use kernel_dsm::Protocol;
use std::boxed::Box;
use std::sync::atomic::AtomicBool;
use std::thread;

const RANK: Rank = Rank::leaf(39, "coherence");
const BASE: PhysAddr = PhysAddr(0x8000_0000);
const CORES: u8 = 2;

/// The chip page of a board with two domains: their states, their losses, and what is settled.
#[derive(Clone, Copy)]
struct Chip2(&'static [AtomicU64; 5]);

const LOSSES: usize = 2;
const SETTLED: usize = 4;

impl Ports for Chip2 {
    type Flushed = ();

    fn state_word(self, domain: DomainId) -> u64 {
        self.0[domain.index()].load(Ordering::SeqCst)
    }
    fn loss(self, domain: DomainId) -> u64 {
        self.0[LOSSES + domain.index()].load(Ordering::SeqCst)
    }
    fn settled(self) -> u64 {
        self.0[SETTLED].load(Ordering::SeqCst)
    }
    fn settle(self, settled: u64) {
        self.0[SETTLED].store(settled, Ordering::SeqCst);
    }
    fn flush(self, _: VirtAddr, _: u64) {}
    fn is_flushed(self, (): ()) -> bool {
        true
    }
    fn is_alone(self) -> bool {
        true
    }
}

struct OneFrame;

impl Frames for OneFrame {
    fn allocate(&self, _: u8) -> Option<PhysAddr> {
        Some(PhysAddr(0x1000))
    }
    fn free(&self, _: PhysAddr, _: u8) {}
}

fn words(bytes: usize) -> Window {
    let words: std::vec::Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    Window::over(Box::leak(words.into_boxed_slice()))
}

type Board = (Chip2, [Coherence<Chip2>; 2]);

/// Returns two kernels in this epoch.
fn board(epoch: u16) -> Board {
    let running = || AtomicU64::new(pack_state(epoch.into(), state::RUNNING));
    let none = || AtomicU64::new(0);
    let chip = Chip2(Box::leak(Box::new([running(), running(), none(), none(), none()])));
    let slots = abi::dsm::slots(2, CORES.into());
    let ways: [[Window; 2]; 2] =
        core::array::from_fn(|_| core::array::from_fn(|_| words(slots * abi::dsm::SLOT)));
    let kernel = |me: u8| {
        let config = config(Protocol::ThreeState, DomainId(me), 2, CORES);
        let link = |from: DomainId, to: DomainId| Some(ways[from.index()][to.index()]);
        let links = links(&config, Epoch(epoch), slots as u32, link, |id| id.0.into(), 1).unwrap();
        let mut table = PageTable::new(&OneFrame).unwrap();
        let pages = table.pages(&OneFrame, BASE.to_virt(), BASE, BLOCK, Memory::Cached).unwrap();
        let block = Block { base: BASE, index: 0, pages };
        Coherence::over(config, Epoch(epoch), (chip, RANK), block, links).unwrap()
    };
    (chip, [kernel(0), kernel(1)])
}

fn touch(kernel: &Coherence<Chip2>, page: u64, access: Touch) -> FaultOutcome {
    let address = kernel.base().0 + page * PAGE;
    // A different instruction for each page.
    kernel.fault(0x1000 + page * 4, Fault::Page { address, access, is_cached: false })
}

fn holds(kernel: &Coherence<Chip2>, page: u64, rights: Rights) -> bool {
    let phys = BASE.plus(page * PAGE);
    let virt = phys.to_virt();
    kernel.with_pages_fixed(|held| {
        held(&Mapping { virt, phys, bytes: PAGE, memory: Memory::Cached, rights })
    })
}

fn enter() {
    arch::cpu::machine::Machine::real_time().enter(CoreId(0));
}

/// Runs `work` in kernel `at` while the other kernel handles messages.
fn beside<R: Send>(
    board: &Board,
    at: usize,
    work: impl FnOnce(&Coherence<Chip2>) -> R + Send,
) -> R {
    let (over, (_, kernels)) = (AtomicBool::new(false), board);
    thread::scope(|scope| {
        scope.spawn(|| {
            enter();
            while !over.load(Ordering::SeqCst) {
                kernels[1 - at].serve();
                thread::yield_now();
            }
        });
        let worker = scope.spawn(|| {
            enter();
            let result = work(&kernels[at]);
            over.store(true, Ordering::SeqCst);
            result
        });
        worker.join().unwrap()
    })
}

fn started() -> Board {
    let board = board(1);
    thread::scope(|scope| {
        for kernel in &board.1 {
            scope.spawn(|| {
                enter();
                kernel.start();
            });
        }
    });
    board
}

#[test]
fn a_written_page_has_one_holder_and_a_read_page_both() {
    let board = started();
    for (writer, reader) in [(1, 0), (0, 1), (1, 0)] {
        assert_eq!(beside(&board, writer, |it| touch(it, 3, Touch::Write)), FaultOutcome::Page);
        assert!(holds(&board.1[writer], 3, Rights::ReadWrite));
        assert!(!holds(&board.1[reader], 3, Rights::Read), "only the writer holds it");
        assert_eq!(beside(&board, reader, |it| touch(it, 3, Touch::Read)), FaultOutcome::Page);
        assert!(holds(&board.1[reader], 3, Rights::Read));
        assert!(!holds(&board.1[writer], 3, Rights::ReadWrite), "it lost its write permission");
    }
}

/// As on a core whose TLB has an older entry, or that faulted while another one got the page.
#[test]
fn a_fault_on_a_page_that_is_mapped_already_ends_at_once() {
    let board = started();
    let kernel = &board.1[1];
    assert_eq!(beside(&board, 1, |it| touch(it, 3, Touch::Write)), FaultOutcome::Page);
    let before = kernel.counts();
    thread::scope(|scope| {
        scope.spawn(|| {
            arch::cpu::machine::Machine::real_time().enter(CoreId(1));
            // The other kernel answers nothing.
            for access in [Touch::Read, Touch::Write] {
                assert_eq!(touch(kernel, 3, access), FaultOutcome::Page);
            }
        });
    });
    let [faults, rest @ ..] = kernel.counts();
    assert_eq!((faults, &rest[..]), (before[0] + 2, &before[1..]));
}

#[test]
fn faults_outside_the_block_are_not_handled() {
    let board = started();
    let fault = |fault| beside(&board, 0, move |it| it.fault(0x1000, fault));
    let address = BASE.to_virt().0 + BLOCK;
    assert_eq!(
        fault(Fault::Page { address, access: Touch::Read, is_cached: false }),
        FaultOutcome::Other
    );
    let address = BASE.to_virt().0;
    assert_eq!(
        fault(Fault::Page { address, access: Touch::Execute, is_cached: false }),
        FaultOutcome::Other
    );
    assert_eq!(board.1[0].counts()[0], 0);
}

#[test]
fn a_dead_owner_loses_its_dirty_pages_until_they_are_mended() {
    let board = started();
    assert_eq!(beside(&board, 1, |it| touch(it, 5, Touch::Write)), FaultOutcome::Page);
    board.0.0[1].store(pack_state(1, state::DEAD), Ordering::SeqCst);
    let home = &board.1[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            enter();
            home.look_at_chip();
            let (at, bytes) = (home.base().0 as usize, 8 * PAGE as usize);
            assert_eq!(touch(home, 5, Touch::Read), FaultOutcome::Loss);
            assert!(!home.is_whole(at, bytes));
            assert!(home.is_whole(at + bytes, bytes), "only its pages are lost");
            home.mend(at, bytes);
            assert!(home.is_whole(at, bytes));
            assert_eq!(touch(home, 5, Touch::Read), FaultOutcome::Page);
        });
    });
}

/// The next life of a dead home boots for a long time. Until it runs, its peer does without it.
#[test]
fn a_home_that_boots_again_is_not_waited_for() {
    let board = started();
    assert_eq!(beside(&board, 1, |it| touch(it, 5, Touch::Write)), FaultOutcome::Page);
    board.0.0[0].store(pack_state(2, state::BOOTING), Ordering::SeqCst);
    let survivor = &board.1[1];
    thread::scope(|scope| {
        scope.spawn(|| {
            enter();
            survivor.look_at_chip();
            assert_eq!(touch(survivor, 5, Touch::Read), FaultOutcome::Page, "it holds this page");
            assert_eq!(touch(survivor, 6, Touch::Read), FaultOutcome::Loss);
            survivor.mend(survivor.base().0 as usize, 8 * PAGE as usize);
            assert_eq!(touch(survivor, 6, Touch::Write), FaultOutcome::Page);
        });
    });
}

/// A domain that starts itself, beside one that boots, must not become the home on its own.
#[test]
fn domains_that_boot_at_once_wait_for_each_other() {
    let board = board(2);
    for word in &board.0.0[..2] {
        word.store(pack_state(2, state::BOOTING), Ordering::SeqCst);
    }
    let [first, second] = &board.1;
    thread::scope(|scope| {
        scope.spawn(|| {
            enter();
            first.start();
            second.start();
            for kernel in [first, second, first, second] {
                kernel.serve();
            }
            assert!(first.state.lock().dsm.is_home());
            assert!(!second.state.lock().dsm.is_home());
        });
    });
}

/// A domain whose former life ended while the other one rested is the first.
#[test]
fn a_death_loses_pages_only_if_the_domain_had_some() {
    for (loss, found) in [(0, FaultOutcome::Page), (1, FaultOutcome::Loss)] {
        let board = board(2);
        let words = [pack_state(2, state::BOOTING), pack_state(2, state::RESTING), loss];
        words.iter().zip(board.0.0).for_each(|(&value, word)| word.store(value, Ordering::SeqCst));
        thread::scope(|scope| {
            scope.spawn(|| {
                enter();
                board.1[0].start();
                assert_eq!(touch(&board.1[0], 3, Touch::Read), found);
            });
        });
    }
}

/// A domain boots while the last other one comes to rest, which therefore never answers it.
#[test]
fn a_domain_that_no_other_one_answers_loses_pages_only_if_one_died_with_some() {
    for (loss, found) in [(0, FaultOutcome::Page), (1, FaultOutcome::Loss)] {
        let board = board(2);
        board.0.0[0].store(pack_state(2, state::BOOTING), Ordering::SeqCst);
        board.0.0[LOSSES].store(loss, Ordering::SeqCst);
        thread::scope(|scope| {
            scope.spawn(|| {
                enter();
                let booted = &board.1[0];
                booted.start();
                assert!(!booted.state.lock().dsm.is_home());
                board.0.0[1].store(pack_state(2, state::RESTING), Ordering::SeqCst);
                booted.look_at_chip();
                assert_eq!(touch(booted, 3, Touch::Read), found);
            });
        });
    }
}

/// A loss that was not reported to the protocol when a domain leaves is not settled by that.
#[test]
fn a_domain_that_leaves_settles_the_losses_that_it_knows() {
    for (now, settled) in [(state::RESTING, u64::MAX), (state::DEAD, 1)] {
        let board = started();
        board.0.0[1].store(pack_state(1, now), Ordering::SeqCst);
        board.0.0[LOSSES + 1].store(1, Ordering::SeqCst);
        thread::scope(|scope| {
            scope.spawn(|| {
                enter();
                let home = &board.1[0];
                let all = (home.base().0 as usize, BLOCK as usize);
                assert!(home.leave(|| home.mend(all.0, all.1)));
                assert_eq!(board.0.settled(), settled);
            });
        });
    }
}
