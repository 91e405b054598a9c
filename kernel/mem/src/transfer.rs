//! The order in which a block changes hands.
//!
//! ```text
//!  take:  Claim -----> Map -----> Add -----> done
//!           |           |          |
//!           v           v          v
//!        refused <-- Release <-- Unmap
//!
//!  give:  Isolate --> Evacuate --> Remove --> Clean --> Unmap --> Release --> done
//!           |            |           |                    |
//!           v            v           |                    v
//!        refused <-- Restore <-------+                   Add --> refused
//! ```
//! Each step is one thing that its driver does and answers with whether it worked; arrows to the
//! right are success, the others failure. A refused transfer has changed nothing: the block is
//! whose it was. A kernel that dies at any step leaves a block that is its own or free.
//!
//! Why this order: nobody maps what it has not claimed (Claim before Map), nothing is handed out of
//! a block that is being emptied (Isolate before Evacuate, Remove before Clean), no dirty line is
//! left when the mapping goes, for it is by the mapping that lines are cleaned (Clean before
//! Unmap), and no core can reach the block when others may (Unmap before Release).
//!
//! What may be stale: lines that speculation fetches between Clean and Unmap are clean, and what
//! they hold is void, for a block is handed over empty: its taker stores before it loads.

/// One thing to do with the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Make it this kernel's in the block table.
    Claim,
    /// Map it cacheable.
    Map,
    /// Give it to the frame allocator, which hands it out from now on.
    Add,
    /// Hand nothing out of it any more, and take it out of the cores' caches.
    Isolate,
    /// Move what is movable elsewhere; fails, with all in place, when something is not.
    Evacuate,
    /// Take it, empty, away from the frame allocator.
    Remove,
    /// Write back and drop the lines of it that were touched.
    Clean,
    /// Unmap it on every core of the domain.
    Unmap,
    /// Make it free in the block table.
    Release,
    /// End its isolation.
    Restore,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The block has changed hands.
    Done,
    /// This step did not work; the block is whose it was.
    Refused(Step),
}

/// A block on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    step: Step,
    refused: Option<Step>,
}

impl Transfer {
    /// From the balloon to this kernel.
    pub const fn take() -> Transfer {
        Transfer { step: Step::Claim, refused: None }
    }

    /// From this kernel to the balloon.
    pub const fn give() -> Transfer {
        Transfer { step: Step::Isolate, refused: None }
    }

    /// What to do now.
    pub fn step(&self) -> Step {
        self.step
    }

    /// It was done, or could not be.
    pub fn then(self, worked: bool) -> Result<Transfer, End> {
        let refused = self.refused.or((!worked).then_some(self.step));
        match (follow(self.step, worked, self.refused.is_some()), refused) {
            (Some(step), refused) => Ok(Transfer { step, refused }),
            (None, None) => Err(End::Done),
            (None, Some(step)) => Err(End::Refused(step)),
        }
    }
}

/// The step behind `step`, going forward or (`back`) undoing.
fn follow(step: Step, worked: bool, back: bool) -> Option<Step> {
    match (step, worked) {
        (Step::Claim, true) => Some(Step::Map),
        (Step::Map, true) => Some(Step::Add),
        (Step::Map, false) => Some(Step::Release),
        (Step::Add, false) if !back => Some(Step::Unmap),
        (Step::Isolate, true) => Some(Step::Evacuate),
        (Step::Evacuate, true) => Some(Step::Remove),
        (Step::Evacuate | Step::Remove, false) => Some(Step::Restore),
        (Step::Remove, true) => Some(Step::Clean),
        (Step::Clean, _) => Some(Step::Unmap),
        (Step::Unmap, true) => Some(Step::Release),
        (Step::Unmap, false) if !back => Some(Step::Add),
        _ => None,
    }
}

/// Drives a transfer to its end.
pub fn run(mut transfer: Transfer, mut act: impl FnMut(Step) -> bool) -> End {
    loop {
        match transfer.then(act(transfer.step())) {
            Ok(next) => transfer = next,
            Err(end) => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The steps when `fails` does not work, and the end.
    fn path(transfer: Transfer, fails: Option<Step>) -> (Vec<Step>, End) {
        let mut steps = Vec::new();
        let end = run(transfer, |step| {
            steps.push(step);
            Some(step) != fails
        });
        (steps, end)
    }

    #[test]
    fn it_goes_as_drawn() {
        use Step::*;
        assert_eq!(path(Transfer::take(), None), ([Claim, Map, Add].to_vec(), End::Done));
        let give = [Isolate, Evacuate, Remove, Clean, Unmap, Release];
        assert_eq!(path(Transfer::give(), None), (give.to_vec(), End::Done));
    }

    #[test]
    fn a_failure_is_undone() {
        use Step::*;
        let take = |fails| path(Transfer::take(), Some(fails));
        assert_eq!(take(Claim), ([Claim].to_vec(), End::Refused(Claim)));
        assert_eq!(take(Map), ([Claim, Map, Release].to_vec(), End::Refused(Map)));
        assert_eq!(take(Add), ([Claim, Map, Add, Unmap, Release].to_vec(), End::Refused(Add)));
        let give = |fails| path(Transfer::give(), Some(fails));
        assert_eq!(give(Isolate), ([Isolate].to_vec(), End::Refused(Isolate)));
        let (steps, end) = give(Evacuate);
        assert_eq!((steps, end), ([Isolate, Evacuate, Restore].to_vec(), End::Refused(Evacuate)));
        assert_eq!(give(Remove).0, [Isolate, Evacuate, Remove, Restore]);
        assert_eq!(give(Unmap).0, [Isolate, Evacuate, Remove, Clean, Unmap, Add]);
        assert_eq!(give(Unmap).1, End::Refused(Unmap));
    }
}
