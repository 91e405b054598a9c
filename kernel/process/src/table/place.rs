//! A place of a descriptor table, which is read without a lock.
//!
//! ```text
//!   free --store--> descriptor --store--> free        changes: version + 1, words, version + 2
//!     \--reserve--> reserved --store--> descriptor or free
//! ```

use super::Descriptor;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A place for a descriptor.
#[derive(Debug, Default)]
pub struct Place {
    /// Odd while the place changes.
    version: AtomicU32,
    /// [`Descriptor::flags`] and [`Place::USED`].
    flags: AtomicU32,
    handle: AtomicU64,
    rights: AtomicU64,
    inheriting: AtomicU64,
}

impl Place {
    const USED: u32 = 1 << 8;
    const RESERVED: u32 = 1 << 10;

    /// Returns whether it has no descriptor, and is not reserved. The caller has the table's lock.
    pub fn is_free(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (Self::USED | Self::RESERVED) == 0
    }

    pub fn is_reserved(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & Self::RESERVED != 0
    }

    /// Returns the descriptor, if there is one.
    #[inline]
    pub fn load(&self) -> Option<Descriptor> {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let flags = self.flags.load(Ordering::Relaxed);
            let found = Descriptor::of_words(
                self.handle.load(Ordering::Relaxed),
                flags,
                self.rights.load(Ordering::Relaxed),
                self.inheriting.load(Ordering::Relaxed),
            );
            // The words were loaded before the version is, again.
            fence(Ordering::Acquire);
            if version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
                return (flags & Self::USED != 0).then_some(found);
            }
            core::hint::spin_loop();
        }
    }

    /// Changes the descriptor. The caller has the table's lock.
    pub fn store(&self, descriptor: Option<Descriptor>) {
        self.store_words(descriptor.map_or(0, |it| it.flags() | Self::USED), descriptor);
    }

    /// Reserves it. The caller has the table's lock.
    pub fn reserve(&self) {
        self.store_words(Self::RESERVED, None);
    }

    fn store_words(&self, flags: u32, descriptor: Option<Descriptor>) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // That is visible before the words are.
        fence(Ordering::Release);
        if let Some(descriptor) = descriptor {
            self.handle.store(descriptor.object.parts().0, Ordering::Relaxed);
            self.rights.store(descriptor.rights, Ordering::Relaxed);
            self.inheriting.store(descriptor.inheriting, Ordering::Relaxed);
        }
        self.flags.store(flags, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}
