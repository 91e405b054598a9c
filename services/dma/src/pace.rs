//! The pace of a kernel that is not the engine's home. While the home makes one small transfer
//! after the other, the transfers of others, each of which takes the service's page away and a
//! part of the bandwidth, begin only now and then.
//!
//! ```text
//!            home is busy                           home is busy, and not yet `home_first_ns`
//!   begin ------------------> wait, look again ---.  since the last transfer of this kernel began
//!     ^  |                         |     ^        |
//!     |  '-- else: begin at once   |     '--------'
//!     '----------------------------'  else
//! ```
//! The home is busy if it ends at least [`SMALL`] transfers in `home_first_ns`, judged by those
//! that it has ended since this kernel's last transfer began. The engine's words tell that, so it
//! takes no step and no page. A home that rests, copies large blocks, or has been dead for a moment
//! is not busy.

/// Transfers of a busy home in the time that others wait.
const SMALL: u64 = 16;
/// Looks at the home in that time.
const LOOKS: u64 = 8;
/// More transfers than can have ended: the home has another session.
const IMPLAUSIBLE: u32 = 1 << 24;

/// How a kernel other than the home spaces its transfers.
#[derive(Clone, Debug)]
pub struct Pace {
    /// When its last transfer began, in ns.
    began: u64,
    /// Transfers that the home had ended then.
    ended: u32,
    /// Whether the home was busy when the kernel last looked.
    busy: bool,
}

impl Pace {
    pub const fn new() -> Pace {
        Pace { began: 0, ended: 0, busy: false }
    }

    /// Asks to begin a transfer `now`, when the home has ended `ended` transfers, which wraps.
    /// Returns the time at which to ask again, or `None`: it begins.
    pub fn ask(&mut self, now: u64, ended: u32, home_first_ns: u64) -> Option<u64> {
        let elapsed = now.saturating_sub(self.began);
        if self.is_busy(elapsed, ended, home_first_ns) && elapsed < home_first_ns {
            return Some((self.began + home_first_ns).min(now + home_first_ns / LOOKS));
        }
        (self.began, self.ended) = (now, ended);
        None
    }

    fn is_busy(&mut self, elapsed: u64, ended: u32, home_first_ns: u64) -> bool {
        let since = Some(ended.wrapping_sub(self.ended)).filter(|&n| n < IMPLAUSIBLE).unwrap_or(0);
        // Too soon to judge: as it was.
        if since > 0 || elapsed >= home_first_ns / SMALL {
            self.busy = u64::from(since) * home_first_ns >= elapsed * SMALL && since > 0;
        }
        self.busy
    }
}

impl Default for Pace {
    fn default() -> Self {
        Pace::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 4_000_000;

    /// Begins transfers of `mine` ns for `ns`, each as soon as it may, beside a home that ends one
    /// each `theirs` ns. Returns how many began, and how often the kernel looked.
    fn beside(mine: u64, theirs: Option<u64>, ns: u64) -> (u64, u64) {
        let (mut pace, mut now, mut began, mut looks) = (Pace::new(), FIRST, 0, 0);
        while now < FIRST + ns {
            looks += 1;
            let ended = theirs.map_or(0, |each| now / each) as u32;
            match pace.ask(now, ended, FIRST) {
                Some(later) => {
                    assert!(later > now, "it would ask for ever");
                    now = later;
                }
                None => (began, now) = (began + 1, now + mine),
            }
        }
        (began, looks)
    }

    #[test]
    fn beside_an_idle_home_nothing_waits() {
        assert_eq!(beside(150_000, None, 30_000_000), (200, 200));
    }

    #[test]
    fn beside_small_transfers_of_the_home_one_begins_in_each_period() {
        let (began, looks) = beside(150_000, Some(114_000), 10 * FIRST);
        assert_eq!(began, 10);
        assert!(looks <= began * (LOOKS + 2), "{looks} looks");
    }

    #[test]
    fn beside_large_transfers_of_the_home_large_ones_do_not_wait() {
        assert_eq!(beside(8_000_000, Some(4_200_000), 80_000_000), (10, 10));
    }

    #[test]
    fn beside_large_transfers_of_the_home_small_ones_hardly_wait() {
        let (began, _) = beside(150_000, Some(4_200_000), 30_000_000);
        assert!(began > 150, "{began} of 200");
    }

    #[test]
    fn several_threads_of_a_kernel_share_its_pace() {
        let (mut pace, mut began) = (Pace::new(), 0);
        for now in (FIRST..11 * FIRST).step_by(10_000) {
            began += u32::from(pace.ask(now, (now / 114_000) as u32, FIRST).is_none());
        }
        assert!((10..=12).contains(&began), "{began}");
    }

    #[test]
    fn a_home_with_another_session_is_not_taken_for_a_busy_one() {
        let mut pace = Pace::new();
        assert_eq!(pace.ask(FIRST, 5000, FIRST), None);
        assert_eq!(pace.ask(FIRST + 500_000, 3, FIRST), None);
    }

    #[test]
    fn without_a_period_nothing_waits() {
        let mut pace = Pace::new();
        for now in 0..100 {
            assert_eq!(pace.ask(now, now as u32, 0), None);
        }
    }
}
