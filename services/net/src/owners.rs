//! The kernels that own a handle.
//!
//! A handle has one owner: the kernel, in one of its lives, that opened it. While its process moves
//! to another kernel, both own it, so the process needs no second handle. The first kernel closes
//! its own after the move, when the process may have moved on, or back.

use core::num::NonZeroU32;
use share::Token;

/// A kernel in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life(NonZeroU32);

impl Life {
    pub fn new(kernel: u8, epoch: u16) -> Life {
        Life(NonZeroU32::MIN.saturating_add(u32::from(kernel) << 16 | u32::from(epoch)))
    }

    pub fn of(token: Token) -> Life {
        Life::new(token.kernel, token.epoch)
    }
}

/// The owners of a handle, at least one. A kernel may be several of them.
#[derive(Clone, Copy, Debug)]
pub struct Owners {
    first: Life,
    others: [Option<Life>; 2],
}

impl Owners {
    pub fn new(owner: Life) -> Owners {
        Owners { first: owner, others: [None; 2] }
    }

    pub fn have(&self, life: Life) -> bool {
        self.first == life || self.others.contains(&Some(life))
    }

    /// Adds an owner. `None`: there are too many.
    pub fn add(&mut self, owner: Life) -> Option<()> {
        *self.others.iter_mut().find(|other| other.is_none())? = Some(owner);
        Some(())
    }

    /// Removes `life`, or one of the others if it is none of them. Returns false if that was the
    /// last one.
    pub fn remove(&mut self, life: Life) -> bool {
        let mut others = self.others.iter_mut();
        if let Some(own) = others.find(|other| **other == Some(life)) {
            *own = None;
            return true;
        }
        let next = self.others.iter_mut().find_map(Option::take);
        self.first = next.unwrap_or(self.first);
        next.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_ends_with_its_last_owner_in_any_order() {
        let [one, two, three] = [Life::new(0, 1), Life::new(1, 1), Life::new(0, 2)];
        let mut owners = Owners::new(one);
        assert_eq!(
            (owners.add(two), owners.add(one), owners.add(three)),
            (Some(()), Some(()), None)
        );
        assert!(owners.have(one) && owners.have(two) && !owners.have(three));
        assert!(owners.remove(one) && owners.have(one) && owners.have(two));
        assert!(owners.remove(one) && !owners.have(one) && owners.have(two));
        assert!(!owners.remove(two));
        // A kernel that is no owner closes for the one that opened it.
        let mut owners = Owners::new(one);
        owners.add(two).unwrap();
        assert!(owners.remove(three) && !owners.have(one) && owners.have(two));
        assert!(!owners.remove(three));
    }
}
