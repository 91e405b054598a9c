//! The steps in which a block changes hands.
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
//! The driver executes each step and reports whether it succeeded. In the first row of each
//! diagram, arrows to the right mean success; arrows down mean failure and lead to the steps that
//! undo the transfer. A refused transfer has changed nothing: the block has the same owner. If a
//! kernel dies at any step, the block is its own or free.
//!
//! Reasons for the order: a kernel maps only what it has claimed (Claim before Map); nothing is
//! allocated from a block that is being emptied (Isolate before Evacuate, Remove before Clean);
//! lines are cleaned through the mapping (Clean before Unmap); and no core can access the block
//! when another kernel may own it (Unmap before Release).
//!
//! Speculation may fetch lines between Clean and Unmap. Those lines are clean, and their stale
//! contents do not matter: a block is handed over empty, so its new owner stores before it loads.

/// One action on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Claim it in the block table.
    Claim,
    /// Map it as cacheable.
    Map,
    /// Add it to the frame allocator, which may allocate from it immediately.
    Add,
    /// Stop allocation from it, and empty the cores' frame caches.
    Isolate,
    /// Move its frames elsewhere; fails, leaving them in place, if one cannot be moved.
    Evacuate,
    /// Remove the empty block from the frame allocator.
    Remove,
    /// Write back and drop the cache lines that were touched.
    Clean,
    /// Unmap it on every core of the domain.
    Unmap,
    /// Release it in the block table.
    Release,
    /// Allow allocation from it again.
    Restore,
}

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The block has changed hands.
    Done,
    /// This step failed; the block has the same owner as before.
    Refused(Step),
}

/// A transfer in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    step: Step,
    refused: Option<Step>,
}

impl Transfer {
    /// Starts to take a block from the pool.
    pub const fn take() -> Transfer {
        Transfer { step: Step::Claim, refused: None }
    }

    /// Starts to return a block to the pool.
    pub const fn give() -> Transfer {
        Transfer { step: Step::Isolate, refused: None }
    }

    /// Returns the step to execute.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Advances after the step has succeeded or failed.
    pub fn then(self, worked: bool) -> Result<Transfer, End> {
        let refused = self.refused.or((!worked).then_some(self.step));
        match (follow(self.step, worked, self.refused.is_some()), refused) {
            (Some(step), refused) => Ok(Transfer { step, refused }),
            (None, None) => Err(End::Done),
            (None, Some(step)) => Err(End::Refused(step)),
        }
    }
}

/// Returns the step after `step`; `back`: the transfer is being undone.
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

/// Executes all steps of a transfer.
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

    /// Returns the steps taken if `fails` fails, and the result.
    fn path(transfer: Transfer, fails: Option<Step>) -> (Vec<Step>, End) {
        let mut steps = Vec::new();
        let end = run(transfer, |step| {
            steps.push(step);
            Some(step) != fails
        });
        (steps, end)
    }

    #[test]
    fn successful_transfers_follow_the_diagram() {
        use Step::*;
        assert_eq!(path(Transfer::take(), None), ([Claim, Map, Add].to_vec(), End::Done));
        let give = [Isolate, Evacuate, Remove, Clean, Unmap, Release];
        assert_eq!(path(Transfer::give(), None), (give.to_vec(), End::Done));
    }

    #[test]
    fn a_failed_step_is_undone() {
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
