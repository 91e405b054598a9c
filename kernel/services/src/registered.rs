//! The names that programs of this kernel serve, as long as their doors are open.

use ::names::client::Registration;
use abi::names::{NAMES, lives};
use alloc::vec::Vec;
use arch::lock::Lock;

/// The names that programs of this kernel serve.
pub struct Registered(Lock<List>);

#[derive(Default)]
struct List {
    all: Vec<Registration>,
    /// The life of the table that has them.
    life: u32,
}

impl Default for Registered {
    fn default() -> Registered {
        Registered(Lock::new(kernel_node::ranks::NAMES, List::default()))
    }
}

impl Registered {
    pub fn is_empty(&self) -> bool {
        self.0.lock().all.is_empty()
    }

    /// Adds a name. Returns false without memory.
    pub fn add(&self, registration: Registration) -> bool {
        let mut list = self.0.lock();
        let has_room = list.all.len() < NAMES && list.all.try_reserve(1).is_ok();
        if has_room {
            list.all.push(registration);
        }
        has_room
    }

    pub fn remove(&self, door: u64) {
        self.0.lock().all.retain(|it| it.door != door);
    }

    /// Returns all, if the table's life is another one than before.
    pub fn lost(&self, edition: u64) -> Vec<Registration> {
        let mut list = self.0.lock();
        if core::mem::replace(&mut list.life, lives(edition)) == lives(edition) {
            return Vec::new();
        }
        list.all.clone()
    }
}
