//! Checks one line without a lock: is the access of the most frequent kind, which is correct and
//! changes no state? A thread that other threads may interrupt between check and access takes the
//! lock only if the answer is no. If a line changes meanwhile, no synchronisation orders the two
//! accesses, so either order is right.

use core::sync::atomic::AtomicU64;

use crate::layout::{AttachError, Layout};
use crate::line::Line;
use crate::party::Domain;

/// A view of the words that a [`crate::Model`] works on.
#[derive(Clone, Copy)]
pub struct Glance<'a> {
    layout: Layout<'a>,
}

impl<'a> Glance<'a> {
    /// Attaches as [`crate::Model::attach`] does.
    pub fn attach(words: &'a [AtomicU64], base: u64, bytes: u64) -> Result<Self, AttachError> {
        Ok(Glance { layout: Layout::attach(words, base, bytes)? })
    }

    #[inline]
    fn is(&self, pa: u64, len: u64, settled: impl Fn(Line) -> bool) -> bool {
        self.layout.only_line(pa, len).is_some_and(settled)
    }

    /// Returns whether a cached load needs no event, as do the functions below for other accesses.
    #[inline]
    pub fn read(&self, domain: Domain, pa: u64, len: u64) -> bool {
        self.is(pa, len, |line| line.read_is_settled(domain))
    }

    /// A cached store.
    #[inline]
    pub fn write(&self, domain: Domain, pa: u64, len: u64) -> bool {
        self.is(pa, len, |line| line.write_is_settled(domain))
    }

    /// A cached store of more than 64 bits.
    #[inline]
    pub fn wide_write(&self, domain: Domain, pa: u64, len: u64) -> bool {
        self.is(pa, len, |line| line.write_is_settled(domain) && line.is_unpolled(domain))
    }

    /// The cached load of an exclusive pair.
    #[inline]
    pub fn exclusive(&self, domain: Domain, pa: u64, len: u64) -> bool {
        self.is(pa, len, |line| line.read_is_settled(domain) && line.is_alone(domain))
    }

    /// A cached read-modify-write, or the store of an exclusive pair.
    #[inline]
    pub fn change(&self, domain: Domain, pa: u64, len: u64) -> bool {
        self.is(pa, len, |line| line.write_is_settled(domain) && line.is_alone(domain))
    }

    /// A load that bypasses the cache.
    #[inline]
    pub fn uncached_read(&self, domain: Domain, pa: u64, len: u64) -> bool {
        self.is(pa, len, |line| line.uncached_read_is_settled(domain))
    }

    /// A store that bypasses the cache.
    #[inline]
    pub fn uncached_write(&self, domain: Domain, pa: u64, len: u64) -> bool {
        self.is(pa, len, |line| line.uncached_write_is_settled(domain))
    }

    /// A device's read.
    #[inline]
    pub fn device_read(&self, pa: u64, len: u64) -> bool {
        self.is(pa, len, Line::device_read_is_settled)
    }
}
