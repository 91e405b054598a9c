//! When a domain serves what others ask of it: the strong one in deferred work, but within a
//! bound; the weak one before anything else. Pure; the doorbell's handler says that something
//! came, whoever polled says that it was served.

/// How long requests may wait here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    bound: u64,
    since: Option<u64>,
}

impl Service {
    /// Serves within `bound` nanoseconds; 0 means before anything else.
    pub const fn new(bound: u64) -> Service {
        Service { bound, since: None }
    }

    /// Something came at `now`. Must it be served at once?
    pub fn came(&mut self, now: u64) -> bool {
        self.since = Some(self.since.unwrap_or(now));
        self.is_due(now)
    }

    /// All links were looked at and are empty.
    pub fn served(&mut self) {
        self.since = None;
    }

    /// When it must be served at the latest.
    pub fn deadline(&self) -> Option<u64> {
        self.since.map(|since| since.saturating_add(self.bound))
    }

    /// Is it too late to put it off?
    pub fn is_due(&self, now: u64) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weak_side_serves_at_once_and_the_strong_side_within_its_bound() {
        assert!(Service::new(0).came(5));
        let mut strong = Service::new(100);
        assert!(!strong.came(10) && !strong.came(90), "the first one counts");
        assert_eq!(strong.deadline(), Some(110));
        assert!(!strong.is_due(109) && strong.is_due(110));
        strong.served();
        assert_eq!((strong.deadline(), strong.is_due(1000)), (None, false));
    }
}
