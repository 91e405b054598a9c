//! Tests of `blocks`: each arrow of the diagram. Interleavings are model-checked elsewhere.

use std::cell::RefCell;
use std::vec::Vec;

use super::*;

/// Words for one thread, and each domain's lowest running epoch.
#[derive(Default)]
struct Chip {
    words: RefCell<Vec<u64>>,
    floors: RefCell<[u32; MAX_DOMAINS]>,
}

impl Words for Chip {
    fn load(&self, at: usize) -> u64 {
        self.words.borrow().get(at / 8).copied().unwrap_or(0)
    }
    fn store(&self, at: usize, value: u64) {
        let mut words = self.words.borrow_mut();
        let length = words.len().max(at / 8 + 1);
        words.resize(length, 0);
        words[at / 8] = value;
    }
    fn barrier(&self) {}
}

impl Lives for Chip {
    fn floor(&self, domain: DomainId) -> u32 {
        self.floors.borrow()[domain.index()]
    }
}

const A: DomainId = DomainId(0);
const B: DomainId = DomainId(1);

fn table(chip: &Chip, me: DomainId, epoch: u16) -> Blocks<&Chip> {
    Blocks::new(chip, me, Epoch(epoch), 3, 4)
}

#[test]
fn a_zeroed_table_has_only_free_blocks() {
    let chip = Chip::default();
    let a = table(&chip, A, 1);
    assert!((0..4).all(|index| a.state(index, &chip) == State::Free && a.mine(index).is_none()));
    assert_eq!((a.find_free(End::Low), a.find_free(End::High)), (Some(0), Some(3)));
}

#[test]
fn a_block_moves_from_kernel_to_kernel() {
    let chip = Chip::default();
    let (a, b) = (table(&chip, A, 1), table(&chip, B, 7));
    assert_eq!(a.claim(0, Kind::Local), Ok(()));
    assert_eq!(b.claim(0, Kind::Local), Err(ClaimError::Taken));
    assert_eq!(b.release(0), Err(NotMine));
    assert_eq!(b.change(0, Kind::Coherent), Err(NotMine));
    assert_eq!((a.mine(0), b.mine(0)), (Some(Kind::Local), None));
    assert_eq!(b.state(0, &chip), State::Held(A, Kind::Local));
    assert_eq!((b.find_free(End::Low), b.find_free(End::High)), (Some(1), Some(3)));
    assert_eq!(a.change(0, Kind::Uncached), Ok(()));
    assert_eq!(b.state(0, &chip), State::Held(A, Kind::Uncached));
    assert_eq!(a.release(0), Ok(()));
    assert_eq!(a.release(0), Err(NotMine));
    for _ in 0..3 {
        assert_eq!(b.claim(0, Kind::Device), Ok(()));
        assert_eq!(a.state(0, &chip), State::Held(B, Kind::Device));
        assert_eq!(b.release(0), Ok(()));
        assert_eq!(a.claim(0, Kind::Local), Ok(()));
        assert_eq!(a.release(0), Ok(()));
    }
    assert_eq!(a.claim(4, Kind::Local), Err(ClaimError::NoSuchBlock));
}

#[test]
fn blocks_of_a_dead_kernel_are_recovered() {
    let chip = Chip::default();
    let (a, b) = (table(&chip, A, 1), table(&chip, B, 1));
    b.claim(0, Kind::Local).unwrap();
    b.claim(1, Kind::Coherent).unwrap();
    assert_eq!(a.recover(0, &chip), Recovered::Nothing);
    chip.floors.borrow_mut()[1] = 2;
    assert_eq!(a.state(0, &chip), State::Orphan(B, Kind::Local));
    assert_eq!(a.claim(0, Kind::Local), Err(ClaimError::Taken), "not before it is recovered");
    assert_eq!(a.recover(0, &chip), Recovered::Freed);
    assert_eq!(a.recover(1, &chip), Recovered::Adopted);
    assert_eq!(a.recover(0, &chip), Recovered::Nothing);
    let again = table(&chip, B, 2);
    assert_eq!((again.mine(0), again.mine(1)), (None, None));
    assert_eq!(a.mine(1), Some(Kind::Coherent), "others may share it");
    assert_eq!(again.claim(0, Kind::Local), Ok(()));
}

#[test]
fn a_rebooted_kernel_recovers_the_blocks_of_its_last_life() {
    let chip = Chip::default();
    table(&chip, A, 1).claim(2, Kind::Local).unwrap();
    chip.floors.borrow_mut()[0] = 2;
    let a = table(&chip, A, 2);
    assert_eq!(a.mine(2), None);
    assert_eq!(a.recover(2, &chip), Recovered::Freed);
    assert_eq!(a.claim(2, Kind::Local), Ok(()));
}

#[test]
fn a_block_with_invalid_words_is_never_used_again() {
    let chip = Chip::default();
    let a = table(&chip, A, 1);
    chip.store(word(B, 0), pack_block(5, 1, 77));
    chip.store(word(B, 1), pack_block(LAST_VERSION, 1, block::FREE));
    assert_eq!(a.state(0, &chip), State::Broken);
    assert_eq!(a.claim(0, Kind::Local), Err(ClaimError::Taken));
    assert_eq!(a.recover(0, &chip), Recovered::Nothing);
    assert_eq!(a.claim(1, Kind::Local), Err(ClaimError::NoSuchBlock), "versions do not wrap");
    assert_eq!(a.state(1, &chip), State::Free);
}
