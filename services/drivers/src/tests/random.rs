//! Random bytes under accidents, and the sizes of the states.

use super::read;
use crate::random::{BUFFER, Rng};
use crate::request::told;
use crate::world::World;
use base::prng::Prng;
use std::collections::BTreeSet;
use virtio::fake::{Fake, Model};

/// A source that never repeats itself: each answer is a number.
#[derive(Default)]
struct Numbers(u64);

impl Model for Numbers {
    fn serve(&mut self, _: usize, _: &[u8], room: usize) -> Option<Vec<u8>> {
        self.0 += 1;
        Some(self.0.to_le_bytes().into_iter().cycle().take(room).collect())
    }
}

#[test]
fn every_caller_gets_bytes_of_its_own() {
    for seed in 0..1000 {
        let (mut prng, fake) = (Prng::new(seed), Fake::new(4, 0, 0, Numbers::default()));
        let mut world: World<'_, Rng, _> = World::new(&fake);
        for _ in 0..150 {
            fake.eager.set(prng.chance(seed % 4, 20));
            match prng.below(8) {
                0 | 1 if world.callers.len() < 6 => {
                    let length = 8 + prng.below(BUFFER as u64) as usize;
                    world.request(prng.below(2) as usize, read(length, 0), vec![0; length]);
                }
                2 if seed % 3 > 0 && prng.chance(1, 6) => world.mischance(&mut prng),
                _ => world.chance(&mut prng, true),
            }
        }
        world.make_up();
        world.settle();
        assert!(world.callers.is_empty(), "seed {seed}: {} callers wait", world.callers.len());
        let mut seen = BTreeSet::new();
        for ended in world.ended.iter().filter(|ended| ended.reply.is_some()) {
            assert_eq!(ended.reply.map(|reply| reply.told), Some(told::DONE), "seed {seed}");
            let length = (ended.caller.request.length as usize).min(BUFFER);
            assert_eq!(ended.bytes().len(), length, "seed {seed}");
            assert!(seen.insert(ended.bytes()[..8].to_vec()), "seed {seed}: the same bytes twice");
        }
    }
}

/// A source that is nearly dry.
struct Short;

impl Model for Short {
    fn serve(&mut self, _: usize, _: &[u8], _: usize) -> Option<Vec<u8>> {
        Some(vec![7; 3])
    }
}

#[test]
fn a_caller_gets_only_bytes_that_the_device_has_written() {
    let fake = Fake::new(4, 0, 0, Short);
    let mut world: World<'_, Rng, _> = World::new(&fake);
    assert_eq!(world.call(0, read(8, 0), vec![0; 8]).bytes(), [7; 3]);
}

/// What an arena must hold for a state, in whole pages; buffers come on top.
#[test]
fn states_fit_few_pages() {
    let pages = |bytes: usize| bytes.div_ceil(4096);
    assert_eq!(pages(size_of::<crate::Console>()), 1);
    assert_eq!(pages(size_of::<crate::Disk>()), 1);
    assert_eq!(pages(size_of::<crate::Random>()), 1);
    assert_eq!(pages(size_of::<crate::Host>()), 2);
}
