//! Which descriptors can be read or written without waiting, and sleep.

use crate::layout::{Event, Subscription};
use crate::{Errno, File, ffi};
use alloc::vec;
use alloc::vec::Vec;

const READ: u32 = 1;
const WRITE: u32 = 2;
const MONOTONIC: u32 = 1;
/// Comes back with the clock's event; no index is so large.
const CLOCK: u64 = u64::MAX;

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Interest<'a> {
    /// A read would not wait.
    Read(&'a File),
    /// A write would not wait.
    Write(&'a File),
}

/// Waits until one of `what` is ready or `timeout` (in ns) is over; indices of those that are. An
/// error of one counts as ready: its next read or write says what it is.
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

/// Sleeps for `ns`.
pub fn sleep(ns: u64) -> Result<(), Errno> {
    wait(&[], Some(ns)).map(|_| ())
}

/// Time since some beginning, in ns; never goes back.
pub fn now() -> u64 {
    ffi::clock(MONOTONIC).unwrap_or(0)
}
