//! Tables of the network service that are full: which one, for the kernel's log.
//!
//! Contract: an error is explained once for each process, because a program may repeat its request
//! as often as it likes.

use abi::net::Errno;
use core::sync::atomic::{AtomicU8, Ordering};

/// The errors of a process that were explained, one bit each.
#[derive(Default)]
pub struct Explained(AtomicU8);

/// Returns the bit of an error, and what it means.
fn meaning(error: Errno) -> Option<(u8, &'static str)> {
    match error {
        Errno::Nfile => Some((1, "its tree has all sockets that it may have, or none are left")),
        Errno::Nobufs => Some((2, "no buffers are left for its sockets")),
        Errno::Nomem => {
            Some((4, "its tree waits for all sockets that it may, or no memory is left"))
        }
        _ => None,
    }
}

impl Explained {
    /// Returns what an error means, if that is a full table, and was not explained before.
    pub fn explain(&self, error: Errno) -> Option<&'static str> {
        let (bit, text) = meaning(error)?;
        let is_news = self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        is_news.then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_full_table_is_explained_once() {
        let explained = Explained::default();
        let all = [Errno::Nfile, Errno::Nobufs, Errno::Nomem].map(|it| explained.explain(it));
        assert!(all.iter().all(Option::is_some) && all[0] != all[1] && all[1] != all[2]);
        assert_eq!(explained.explain(Errno::Nobufs), None);
        assert_eq!(explained.explain(Errno::Nfile), None);
        assert_eq!(Explained::default().explain(Errno::Again), None);
    }
}
