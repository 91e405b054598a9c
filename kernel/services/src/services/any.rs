//! One wait of one thread for several requests, to one service or several. The first answer ends
//! it.
//!
//! Contract: when [`wait_for_any`] returns, none of the requests is parked. It sleeps only while
//! all of them are parked, and no wake of one is lost: wakes count from before the first request.
//! A caller that does not wait parks none.
//! ```text
//!   expect --> ask 0, ask 1, ... --> one has an answer: cancel the parked ones, return
//!     ^                         \--> all parked: sleep --> woken: all are asked again
//!     +----------------------------------------+      \--> too late: cancel all, return 0
//! ```
//! After the first answer, the others are only asked for what they know. A request that is asked
//! again is no longer parked by its former asking, so a wake that is still under way for it makes
//! the thread look once more, and nothing else.

use super::woken::MOST;

/// What a request has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// How many of its objects are ready.
    Found(u64),
    Parked,
    /// It has failed, which this many objects report, and may be parked all the same: the answer
    /// was lost, or an earlier asking has parked it.
    Failed(u64),
}

/// Requests of one thread.
pub trait Requests {
    type Failure;

    /// Returns how many there are, at most [`MOST`].
    fn count(&self) -> usize;

    /// From here on, wakes of all requests count.
    fn expect(&mut self);

    /// Makes request `index`, or repeats it if it is parked (`again`). It is parked only with
    /// `wait`.
    fn ask(&mut self, index: usize, again: bool, wait: bool) -> Result<Asked, Self::Failure>;

    /// Ends a request that is parked, or may be, without an answer.
    fn cancel(&mut self, index: usize);

    /// Sleeps until a wake has come since [`Requests::expect`], or it is time to ask again. Returns
    /// false if the caller waits no longer.
    fn sleep(&mut self) -> bool;
}

/// Waits until one of the requests has an answer, or only asks (`waits`). Returns how much all of
/// them found; 0: the caller waits no longer.
pub fn wait_for_any<R: Requests>(requests: &mut R, waits: bool) -> Result<u64, R::Failure> {
    let count = requests.count().min(MOST);
    let mut parked = 0u64;
    loop {
        requests.expect();
        let asked = ask_all(requests, count, &mut parked, waits);
        let is_over = match asked {
            Ok(0) => !waits || !requests.sleep(),
            _ => true,
        };
        if is_over {
            (0..count).filter(|index| parked >> index & 1 != 0).for_each(|it| requests.cancel(it));
            return asked;
        }
    }
}

/// Makes or repeats all requests. Returns how much they found, and records which are parked.
fn ask_all<R: Requests>(
    requests: &mut R,
    count: usize,
    parked: &mut u64,
    waits: bool,
) -> Result<u64, R::Failure> {
    let mut found = 0;
    for index in 0..count {
        let bit = 1 << index;
        match requests.ask(index, *parked & bit != 0, waits && found == 0)? {
            Asked::Found(more) => {
                *parked &= !bit;
                found += more;
            }
            Asked::Parked => *parked |= bit,
            Asked::Failed(more) => {
                *parked |= bit;
                found += more;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::vec::Vec;

    /// Services in which others act at any time: a request becomes ready, or someone else takes
    /// what there was; wakes are delivered late, or lost.
    struct World {
        random: Prng,
        ready: Vec<bool>,
        parked: Vec<bool>,
        /// Wakes under way.
        wakes: Vec<usize>,
        /// A wake was lost: the thread sleeps until it is time to look.
        lost: bool,
        woken: bool,
        /// Wakes are expected after the requests were made: a mistake.
        expects_late: bool,
        patience: u64,
        /// How often a request was parked.
        parks: u64,
        /// Why the wait is wrong.
        wrong: Option<&'static str>,
    }

    impl World {
        fn new(seed: u64, count: usize, patience: u64) -> World {
            World {
                random: Prng::new(seed),
                ready: std::vec![false; count],
                parked: std::vec![false; count],
                wakes: Vec::new(),
                lost: false,
                woken: false,
                expects_late: false,
                patience,
                parks: 0,
                wrong: None,
            }
        }

        /// Others act.
        fn others(&mut self) {
            for _ in 0..self.random.below(4) {
                let at = self.random.below(self.ready.len() as u64) as usize;
                match self.random.below(12) {
                    0 | 1 => {
                        self.ready[at] = true;
                        if std::mem::take(&mut self.parked[at]) {
                            match self.random.chance(1, 10) {
                                true => self.lost = true,
                                false => self.wakes.push(at),
                            }
                        }
                    }
                    2 => self.ready[at] = false,
                    3..9 => self.deliver(),
                    _ => {}
                }
            }
        }

        fn deliver(&mut self) {
            if !self.wakes.is_empty() {
                self.wakes.remove(0);
                self.woken = true;
            }
        }
    }

    impl Requests for World {
        type Failure = usize;

        fn count(&self) -> usize {
            self.ready.len()
        }

        fn expect(&mut self) {
            self.others();
            if !self.expects_late {
                self.woken = false;
            }
        }

        fn ask(&mut self, index: usize, again: bool, wait: bool) -> Result<Asked, usize> {
            self.others();
            if self.random.chance(1, 400) {
                // The failed request is not parked.
                self.parked[index] = false;
                return Err(index);
            }
            let was_parked = std::mem::take(&mut self.parked[index]);
            if was_parked && !again {
                self.wrong = Some("a parked request was made a second time");
            }
            if self.random.chance(1, 100) {
                // The request is not sent, or its answer is lost.
                self.parked[index] = was_parked || wait && !self.ready[index];
                return Ok(Asked::Failed(1));
            }
            if self.ready[index] || !wait {
                return Ok(Asked::Found(u64::from(self.ready[index])));
            }
            self.parked[index] = true;
            self.parks += 1;
            Ok(Asked::Parked)
        }

        fn cancel(&mut self, index: usize) {
            self.parked[index] = false;
            self.others();
        }

        fn sleep(&mut self) -> bool {
            if self.expects_late {
                self.woken = false;
            }
            self.others();
            while !self.woken && !self.wakes.is_empty() {
                self.deliver();
            }
            if !self.woken && !self.lost && self.ready.contains(&true) {
                // A request that is ready was woken, unless its readiness was seen.
                self.wrong = Some("the thread sleeps, and no wake is under way");
            }
            // Otherwise it is time to look again.
            self.lost = false;
            self.patience = self.patience.saturating_sub(1);
            self.patience != 0
        }
    }

    fn runs(seeds: u64, expects_late: bool) -> (u64, u64, Option<&'static str>) {
        let (mut found, mut late) = (0, 0);
        for seed in 0..seeds {
            let mut world = World::new(seed, 1 + seed as usize % 5, 1 + seed % 40);
            world.expects_late = expects_late;
            match wait_for_any(&mut world, true) {
                Ok(0) => {
                    late += 1;
                    assert_eq!(world.patience, 0);
                }
                Ok(_) => found += 1,
                Err(_) => {}
            }
            if world.wrong.is_some() {
                return (found, late, world.wrong);
            }
            assert!(!world.parked.contains(&true), "seed {seed}: a request is still parked");
        }
        (found, late, None)
    }

    #[test]
    fn no_wake_is_lost_and_nothing_stays_parked() {
        let (found, late, wrong) = runs(20_000, false);
        assert_eq!(wrong, None);
        assert!(found > 5_000 && late > 100, "{found} {late}");
    }

    #[test]
    fn a_caller_that_does_not_wait_parks_nothing() {
        let mut found = 0;
        for seed in 0..2_000 {
            let mut world = World::new(seed, 1 + seed as usize % 5, 1);
            world.others();
            found += wait_for_any(&mut world, false).unwrap_or(0);
            assert_eq!((world.parks, world.patience), (0, 1), "seed {seed}");
            assert!(!world.parked.contains(&true), "seed {seed}: a request is still parked");
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn wakes_that_are_expected_too_late_are_detected() {
        assert!(runs(20_000, true).2.is_some());
    }
}
