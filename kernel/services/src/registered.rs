//! The names of this kernel: those of the system, for good, and those that its programs serve, as
//! long as their doors are open.

use ::names::client::Registration;
use abi::names::{NAMES, SYSTEM_NAMES};
use alloc::vec::Vec;
use arch::lock::Lock;

/// The names of this kernel.
pub struct Registered(Lock<Vec<Registration>>);

impl Default for Registered {
    fn default() -> Registered {
        Registered(Lock::new(kernel_node::ranks::NAMES, Vec::new()))
    }
}

impl Registered {
    /// Adds a name. Returns false without memory.
    pub fn add(&self, registration: Registration) -> bool {
        let mut all = self.0.lock();
        let has_room = all.len() < NAMES + SYSTEM_NAMES && all.try_reserve(1).is_ok();
        if has_room {
            all.push(registration);
        }
        has_room
    }

    pub fn remove(&self, door: u64) {
        self.0.lock().retain(|it| it.door != door);
    }

    /// Returns whether a door has names.
    pub fn has(&self, door: u64) -> bool {
        self.0.lock().iter().any(|it| it.door == door)
    }

    pub fn all(&self) -> Vec<Registration> {
        self.0.lock().clone()
    }
}
