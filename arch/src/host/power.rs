//! No power states.

/// Saved state of a core.
#[derive(Debug)]
pub struct Resume(());

impl Resume {
    /// Nothing saved.
    pub const fn empty() -> Resume {
        Resume(())
    }
}

/// Calls `off` and returns, as after a warm boot.
pub fn suspend(_save: &mut Resume, off: &mut dyn FnMut(u64)) {
    off(0);
}

/// For ever.
pub fn cpu_off() -> ! {
    super::cpu::halt()
}
