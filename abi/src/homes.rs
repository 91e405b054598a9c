//! The kernels to which shadowed services were moved: one word for all services.
//!
//! Each kernel publishes the word that it uses in its domain's page, and takes over a newer one
//! that it finds in another. Every change has the next version, so all kernels come to use the
//! same word. If two kernels make a change at once, one word wins everywhere: the larger one. The
//! other kernel sees that and makes its change again.
//!
//! ```text
//!   bits 40..64   version
//!   bits 4i..     service i of `service::ALL`: 0: each kernel executes its own requests;
//!   ..4i + 4      k + 1: kernel k executes those of all kernels
//! ```

use crate::boot::MAX_DOMAINS;
use crate::service::ALL;

/// Bits for one service.
const PLACE: usize = 4;
const VERSION: u32 = 40;

const _: () = assert!(ALL.len() * PLACE <= VERSION as usize && MAX_DOMAINS < 1 << PLACE);

/// The word. The larger one of two is the newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Homes(pub u64);

impl Homes {
    /// Returns the word before the first change; `homes` has service and kernel of each service
    /// that has a home.
    pub fn first(homes: impl Iterator<Item = (usize, u8)>) -> Homes {
        homes.fold(Homes(0), |word, (service, home)| word.set(service, Some(home)))
    }

    /// Returns the kernel that executes all requests to a service; `None` if each kernel executes
    /// its own.
    #[inline]
    pub const fn of(self, service: usize) -> Option<u8> {
        let place = self.place(service);
        if place == 0 || place as usize > MAX_DOMAINS { None } else { Some(place - 1) }
    }

    #[inline]
    const fn place(self, service: usize) -> u8 {
        (self.0 >> (service * PLACE)) as u8 & ((1 << PLACE) - 1)
    }

    /// Returns all places: 0, or a kernel's index and 1; those after the last service must be 0.
    pub fn places(self) -> impl Iterator<Item = u8> {
        (0..VERSION as usize / PLACE).map(move |service| self.place(service))
    }

    fn set(self, service: usize, home: Option<u8>) -> Homes {
        let shift = service * PLACE;
        let place = home.map_or(0, |home| (u64::from(home) + 1) & ((1 << PLACE) - 1));
        Homes(self.0 & !(((1 << PLACE) - 1) << shift) | place << shift)
    }

    /// Returns the word after a change. `None` after the last version.
    pub fn with(self, service: usize, home: Option<u8>) -> Option<Homes> {
        Some(Homes(self.0.checked_add(1 << VERSION)?).set(service, home))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const KERNELS: usize = 3;
    const FIRST: Homes = Homes(0x20);

    /// Kernels that know homes and publish them; `None`: it boots, and no other reads its page.
    struct World([Option<Homes>; KERNELS]);

    impl World {
        /// Kernel `at` takes over what is newest.
        fn look(&mut self, at: usize) {
            let newest = self.0.iter().flatten().max().copied();
            self.0[at] = self.0[at].map(|known| known.max(newest.unwrap_or_default()));
        }

        /// All that run look, as when the state of one has changed.
        fn look_all(&mut self) {
            (0..KERNELS).for_each(|at| self.look(at));
        }
    }

    /// Three kernels change homes, look, die and start again in any order. All that run come to
    /// know the same, and a change that was confirmed is kept as long as one of them lives.
    #[test]
    fn kernels_come_to_know_the_same_homes() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let (mut confirmed_changes, mut ties) = (0, 0);
        for _ in 0..20_000 {
            let (mut world, mut confirmed) = (World([Some(FIRST); KERNELS]), FIRST);
            for _ in 0..random(30) {
                let at = random(KERNELS as u64) as usize;
                let home = Some(random(KERNELS as u64) as u8).filter(|home| *home != 2);
                match (random(6), world.0[at]) {
                    (0, Some(_)) => world.0[at] = None,
                    (0 | 1, None) => {
                        world.0[at] = Some(FIRST);
                        world.look(at);
                    }
                    (2 | 3, Some(known)) => {
                        // Published, and not yet confirmed by the others.
                        world.0[at] = known.with(random(3) as usize, home);
                    }
                    (4, Some(known)) => {
                        let others = world.0.iter().flatten();
                        ties += others
                            .filter(|it| **it != known && it.0 >> 40 == known.0 >> 40)
                            .count();
                        world.look_all();
                        confirmed = world.0[at].unwrap().max(confirmed);
                        confirmed_changes += 1;
                    }
                    _ => world.look(at),
                }
                match world.0.iter().flatten().max() {
                    Some(newest) => assert!(*newest >= confirmed),
                    None => confirmed = FIRST,
                }
            }
            world.look_all();
            let mut known: Vec<Homes> = world.0.iter().flatten().copied().collect();
            known.dedup();
            assert!(known.len() <= 1, "{known:x?}");
        }
        assert!(confirmed_changes > 10_000 && ties > 1000, "{confirmed_changes} {ties}");
    }

    #[test]
    fn each_service_has_its_own_home() {
        let mut word = Homes::first([(0, 1), (9, 7)].into_iter());
        assert_eq!((word.of(0), word.of(1), word.of(9)), (Some(1), None, Some(7)));
        word = word.with(1, Some(0)).and_then(|word| word.with(0, None)).unwrap();
        assert_eq!((word.of(0), word.of(1), word.of(9)), (None, Some(0), Some(7)));
    }

    #[test]
    fn a_change_makes_a_newer_word_until_the_versions_end() {
        let before = Homes::first((0..ALL.len()).map(|service| (service, 7)));
        for service in 0..ALL.len() {
            let after = before.with(service, None).unwrap();
            assert!(after > before && after.of(service).is_none());
        }
        assert_eq!(Homes(u64::MAX).with(0, None), None);
    }

    #[test]
    fn a_kernel_that_cannot_be_is_no_home() {
        assert_eq!(Homes(MAX_DOMAINS as u64).of(0), Some(MAX_DOMAINS as u8 - 1));
        for place in MAX_DOMAINS as u64 + 1..16 {
            assert_eq!(Homes(place).of(0), None);
        }
    }
}
