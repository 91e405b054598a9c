//! Programs for the model's cores.

use crate::word::{Page, Want};

/// What one instruction, or one request to the kernel, does. A page is one variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Loads into the core's next register.
    Load(Page),
    /// Stores.
    Store(Page, u8),
    /// Adds 1, in one instruction.
    Add(Page),
    /// Adds 1 to this page and the next, in one instruction that crosses them.
    AddBoth(Page),
    /// Hands the page to a device, which adds 1 in memory and gives it back.
    Device(Page),
    /// The domain leaves, and comes back if there is more to do.
    Sleep,
}

impl Op {
    /// Pages and use; `None` for what is no access.
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

/// Programs by domain and core.
pub type Programs = Vec<Vec<Vec<Op>>>;

/// One core each.
pub fn one_core(programs: &[&[Op]]) -> Programs {
    programs.iter().map(|program| vec![program.to_vec()]).collect()
}

/// Where a core is in its program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Run {
    /// Next instruction.
    pub at: usize,
    /// What it faulted on.
    pub fault: Option<Op>,
    /// Its pages are lost, and must be reset.
    pub lost: bool,
    /// The reset is under way.
    pub resets: bool,
    /// A device has the page.
    pub device: bool,
    /// Loaded values.
    pub registers: Vec<u8>,
}
