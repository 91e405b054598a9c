//! Memory that kernels or devices share, as plain words.

use base::port::Words;
use std::cell::RefCell;
use std::rc::Rc;

/// Words; clones share them. An access outside panics: it would be one outside the link.
#[derive(Clone, Debug)]
pub struct Flat(Rc<RefCell<Vec<u64>>>);

impl Flat {
    pub fn new(bytes: usize) -> Flat {
        Flat(Rc::new(RefCell::new(vec![0; bytes / 8])))
    }

    /// Writes a word as its owner, which may write anything.
    pub fn poke(&self, at: usize, value: u64) {
        self.0.borrow_mut()[at / 8] = value;
    }

    pub fn peek(&self, at: usize) -> u64 {
        self.0.borrow()[at / 8]
    }
}

impl Words for Flat {
    fn load(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8), "a load at {at:#x}");
        self.peek(at)
    }

    fn store(&self, at: usize, value: u64) {
        assert!(at.is_multiple_of(8), "a store at {at:#x}");
        self.poke(at, value);
    }

    fn barrier(&self) {}
}
