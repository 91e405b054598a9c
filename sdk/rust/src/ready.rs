//! Waiting until descriptors are ready to read or write; sleeping.

use crate::layout::{Event, Subscription};
use crate::{Errno, File, ffi};
use alloc::vec;
use alloc::vec::Vec;

const READ: u32 = 1;
const WRITE: u32 = 2;
const MONOTONIC: u32 = 1;
/// User data of the clock's event; no index is this large.
const CLOCK: u64 = u64::MAX;

/// A condition to wait for.
#[derive(Clone, Copy, Debug)]
pub enum Interest<'a> {
    /// A read would not wait.
    Read(&'a File),
    /// A write would not wait.
    Write(&'a File),
}

/// Waits until one of `what` is ready, at most for `timeout` ns. Returns the indices of those that
/// are ready. A descriptor with an error counts as ready: its next read or write returns the error.
pub fn wait(what: &[Interest<'_>], timeout: Option<u64>) -> Result<Vec<usize>, Errno> {
    let mut asked: Vec<Subscription> = what
        .iter()
        .enumerate()
        .map(|(index, interest)| {
            let (tag, file) = match interest {
                Interest::Read(file) => (READ, file),
                Interest::Write(file) => (WRITE, file),
            };
            let user = index as u64;
            Subscription { user, tag, subject: file.number(), ..Subscription::default() }
        })
        .collect();
    if let Some(timeout) = timeout {
        let clock = Subscription { user: CLOCK, subject: MONOTONIC, timeout, ..Default::default() };
        asked.push(clock);
    }
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut events = vec![Event::default(); asked.len()];
    let filled = ffi::poll(&asked, &mut events)?;
    let indices = events.iter().take(filled).filter_map(|e| usize::try_from(e.user).ok());
    Ok(indices.filter(|index| *index < what.len()).collect())
}

/// Sleeps for `ns` nanoseconds.
pub fn sleep(ns: u64) -> Result<(), Errno> {
    wait(&[], Some(ns)).map(|_| ())
}

/// Returns the time in ns since an arbitrary point; never decreases.
pub fn now() -> u64 {
    ffi::clock(MONOTONIC).unwrap_or(0)
}
