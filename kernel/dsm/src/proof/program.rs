//! Programs that the model's cores execute.

use crate::types::{Page, Want};

/// One instruction or kernel request. A page is one variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Loads the page into the core's next register.
    Load(Page),
    Store(Page, u8),
    /// Adds 1, in one instruction.
    Add(Page),
    /// Adds 1 to this page and the next, in one instruction that crosses them.
    AddBoth(Page),
    /// Lets a device add 1 in memory.
    Device(Page),
    /// The domain leaves, and returns if its program is not finished.
    Sleep,
}

impl Op {
    /// Returns first page, number of pages and purpose; `None` if it is no access.
    pub fn needs(self) -> Option<(Page, u32, Want)> {
        Some(match self {
            Op::Load(page) => (page, 1, Want::Read),
            Op::Store(page, _) | Op::Add(page) => (page, 1, Want::Write),
            Op::AddBoth(page) => (page, 2, Want::Write),
            Op::Device(page) => (page, 1, Want::Device),
            Op::Sleep => return None,
        })
    }
}

/// Programs indexed by domain and core.
pub type Programs = Vec<Vec<Vec<Op>>>;

/// Returns programs for domains with one core each.
pub fn one_core(programs: &[&[Op]]) -> Programs {
    programs.iter().map(|program| vec![program.to_vec()]).collect()
}

/// A core's progress in its program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Run {
    pub at: usize,
    /// The operation that faulted.
    pub fault: Option<Op>,
    /// Its pages are lost and must be reset.
    pub lost: bool,
    /// A reset is in progress.
    pub resets: bool,
    /// A device uses the page.
    pub device: bool,
    /// Loaded values.
    pub registers: Vec<u8>,
}
