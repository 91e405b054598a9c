//! Tests of `balloon`: two kernels, each with its own frame allocator, share one global region.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec::Vec;

use abi::boot::MAX_DOMAINS;
use base::addr::{PAGE, VirtAddr};
use base::id::{DomainId, Epoch};
use base::prng::Prng;

use super::*;
use crate::frames::Placing;
use crate::frames::span::{FRAMES, Moved};
use crate::raw::Word;
use crate::testing::memory;

const BLOCKS: usize = 5;
const HOME: u64 = 4 << 20;

/// The chip: shared words, and which kernel has mapped which block.
struct Chip {
    words: RefCell<Vec<u64>>,
    mapped: RefCell<[Option<u8>; BLOCKS]>,
    base: PhysAddr,
}

impl Words for &Chip {
    fn load(&self, at: usize) -> u64 {
        self.words.borrow()[at / 8]
    }
    fn store(&self, at: usize, value: u64) {
        self.words.borrow_mut()[at / 8] = value;
    }
    fn barrier(&self) {}
}

impl Lives for Chip {
    fn floor(&self, _: DomainId) -> u32 {
        0
    }
}

/// One kernel on the chip.
struct Kernel<'a> {
    chip: &'a Chip,
    me: u8,
    frames: FrameAllocator,
    balloon: Balloon<&'a Chip>,
    cleaned: Cell<u64>,
    /// Whether the page table is out of memory.
    full: Cell<bool>,
}

impl Cache for Kernel<'_> {
    fn clean(&self, _: usize, _: usize) {}
    fn invalidate(&self, _: usize, _: usize) {}
    fn clean_invalidate(&self, start: usize, bytes: usize) {
        let index = self.index(VirtAddr(start as u64).to_phys());
        assert_eq!(self.chip.mapped.borrow()[index], Some(self.me), "cleaned while mapped");
        self.cleaned.set(self.cleaned.get() + bytes as u64);
    }
}

impl Machine for Kernel<'_> {
    fn map(&self, block: PhysAddr) -> bool {
        if self.full.get() {
            return false;
        }
        let before = self.chip.mapped.borrow_mut()[self.index(block)].replace(self.me);
        assert_eq!(before, None, "cacheable in two kernels");
        true
    }
    fn unmap(&self, block: PhysAddr) -> bool {
        let before = self.chip.mapped.borrow_mut()[self.index(block)].take();
        before == Some(self.me)
    }
    fn empty_caches(&self) {}
    fn alone(&self, act: &mut dyn FnMut()) {
        act();
    }
}

impl<'a> Kernel<'a> {
    fn new(chip: &'a Chip, me: u8, end: End) -> Kernel<'a> {
        let table = Blocks::new(chip, DomainId(me), Epoch(1), 2, BLOCKS);
        let balloon = Balloon::new(table, chip.base, end);
        let (home, frames) = (memory(HOME, 0), FrameAllocator::new());
        let tags = home.plus(16 * PAGE);
        let kept = [(tags, tags.plus(FrameAllocator::tag_frames(BLOCKS) * PAGE))];
        frames.add_region(home, HOME, &kept).unwrap();
        frames.adopt_global(chip.base, BLOCKS, tags, balloon.frontier());
        Kernel { chip, me, frames, balloon, cleaned: Cell::new(0), full: Cell::new(false) }
    }

    fn index(&self, at: PhysAddr) -> usize {
        ((at.0 - self.chip.base.0) / BLOCK) as usize
    }

    fn deflate(&self) -> Result<usize, Refusal> {
        self.balloon.deflate(&self.frames, self)
    }

    fn inflate(&self, mover: &mut dyn Mover) -> Result<ReturnedBlock, Refusal> {
        self.balloon.inflate(&self.frames, self, mover)
    }
}

fn chip() -> Chip {
    let words = MAX_DOMAINS * size_of::<abi::memory::BlockPage>() / 8;
    let base = memory(BLOCKS as u64 * BLOCK, 0);
    Chip { words: RefCell::new(std::vec![0; words]), mapped: RefCell::default(), base }
}

/// A mover for which every frame is pinned.
struct Nobody;
impl Mover for Nobody {
    fn move_page(&mut self, _: PhysAddr, _: PhysAddr, _: u8) -> Moved {
        Moved::Pinned
    }
}

/// Movable frames; each contains its number.
#[derive(Default)]
struct Pages(BTreeMap<PhysAddr, u64>);
impl Mover for Pages {
    fn move_page(&mut self, from: PhysAddr, to: PhysAddr, _: u8) -> Moved {
        let Some(name) = self.0.remove(&from) else { return Moved::Gone };
        assert_eq!(word(from).get(), name);
        word(to).set(name);
        self.0.insert(to, name);
        Moved::Done
    }
}

fn word(at: PhysAddr) -> Word {
    Word::at(at.to_virt().0 as usize)
}

#[test]
fn kernels_fill_the_region_from_both_ends_and_return_blocks_in_reverse() {
    let chip = chip();
    let (main, shadow) = (Kernel::new(&chip, 0, End::Low), Kernel::new(&chip, 1, End::High));
    assert_eq!((main.deflate(), main.deflate(), shadow.deflate()), (Ok(0), Ok(1), Ok(4)));
    assert_eq!((shadow.deflate(), shadow.deflate()), (Ok(3), Ok(2)));
    assert_eq!(main.deflate(), Err(Refusal::NoneFree));
    let given = main.inflate(&mut Nobody).unwrap();
    assert_eq!((given.index, given.moved, given.cleaned), (1, 0, 256 << 10));
    assert_eq!(main.cleaned.get(), given.cleaned);
    assert_eq!(shadow.inflate(&mut Nobody).unwrap().index, 2);
    assert_eq!(main.balloon.local().len(), 1);
    assert_eq!(shadow.deflate(), Ok(2), "it may take more");
    assert_eq!(shadow.deflate(), Ok(1));
}

#[test]
fn a_block_that_cannot_be_emptied_is_skipped() {
    let chip = chip();
    let main = Kernel::new(&chip, 0, End::Low);
    assert_eq!(main.inflate(&mut Nobody), Err(Refusal::NoneMine));
    (0..2).for_each(|_| assert!(main.deflate().is_ok()));
    let at = main.frames.allocate_placed(0, Placing::Movable).unwrap();
    assert_eq!(main.index(at), 1, "at the frontier");
    assert_eq!(main.inflate(&mut Nobody).unwrap().index, 0, "it is pinned there");
    let unmovable = Err(Refusal::Frames(BlockError::Unmovable(at)));
    assert_eq!(main.inflate(&mut Nobody), unmovable);
    main.frames.free(at, 0).unwrap();
    assert_eq!(main.inflate(&mut Nobody).unwrap().index, 1);
}

#[test]
fn a_block_stays_in_the_pool_if_the_page_table_is_full() {
    let chip = chip();
    let (main, shadow) = (Kernel::new(&chip, 0, End::Low), Kernel::new(&chip, 1, End::Low));
    main.full.set(true);
    assert_eq!(main.deflate(), Err(Refusal::Map));
    assert!(main.balloon.local().is_empty());
    assert_eq!(shadow.deflate(), Ok(0));
}

/// Both kernels allocate, free, take and give; contents survive and no frame is lost.
#[test]
fn two_kernels_survive_random_load() {
    for seed in 0..6 {
        let mut prng = Prng::new(seed);
        let chip = chip();
        let kernels = [Kernel::new(&chip, 0, End::Low), Kernel::new(&chip, 1, End::High)];
        let fresh = kernels.each_ref().map(|kernel| kernel.frames.statistics().free);
        let mut pages = [Pages::default(), Pages::default()];
        let (mut moved, mut given) = (0, 0);
        for name in 1..6000 {
            let who = prng.below(2) as usize;
            let (kernel, pages) = (&kernels[who], &mut pages[who]);
            match prng.below(50) {
                0 => drop(kernel.deflate()),
                1 => {
                    if let Ok(gift) = kernel.inflate(pages) {
                        moved += gift.moved;
                        given += 1;
                    }
                }
                2..32 => {
                    let Some(at) = kernel.frames.allocate_placed(0, Placing::Movable) else {
                        continue;
                    };
                    word(at).set(name);
                    assert_eq!(pages.0.insert(at, name), None);
                }
                _ => {
                    let nth = prng.below(pages.0.len().max(1) as u64) as usize;
                    let Some((&at, &name)) = pages.0.iter().nth(nth) else { continue };
                    assert_eq!(word(at).get(), name, "seed {seed}");
                    pages.0.remove(&at);
                    kernel.frames.free(at, 0).unwrap();
                }
            }
        }
        for (who, kernel) in kernels.iter().enumerate() {
            let blocks = kernel.balloon.local().len();
            let used = pages[who].0.len();
            let free = kernel.frames.statistics().free;
            assert_eq!(free + used, fresh[who] + blocks * FRAMES, "seed {seed}");
        }
        let mapped = chip.mapped.borrow().iter().flatten().count();
        let held: usize = kernels.iter().map(|kernel| kernel.balloon.local().len()).sum();
        assert_eq!(mapped, held, "seed {seed}");
        assert!(moved > 100 && given > 20, "seed {seed}: {moved} moved, {given} given");
    }
}
