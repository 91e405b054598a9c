//! Devices that write anything to their memory and registers: no step panics, loops or reaches
//! beyond the window.

use super::{ConsoleModel, DiskModel, RandomModel, of};
use crate::console::Port;
use crate::disk::Block;
use crate::driver::Driver;
use crate::host::Link;
use crate::random::Rng;
use crate::request::{Request, kind};
use crate::world::World;
use base::prng::Prng;
use share::Event;
use virtio::fake::{Fake, MEMORY, Model};
use virtio::queue;

/// Writes a word that the device may write: a used ring, its registers, or any of its memory.
fn scribble<M: Model>(fake: &Fake<M>, memory: usize, prng: &mut Prng) {
    let used = MEMORY + prng.below(2) as usize * queue::BYTES + 320;
    match prng.below(8) {
        0..3 => fake.set(used, prng.below(40) << 16 | prng.below(20) << 32),
        3 | 4 => {
            let entry = used + 8 + 8 * prng.below(16) as usize;
            fake.set(entry, prng.below(5000) | prng.below(20) << 32);
        }
        5 => fake.set(2048 + 8 * prng.below(16) as usize, prng.next()),
        6 => fake.set(2048 + 24, prng.below(128)),
        _ => fake.set(MEMORY + 8 * prng.below(memory as u64 / 8) as usize, prng.next()),
    }
}

fn request(prng: &mut Prng) -> Request {
    let length = 512 * prng.below(3) + prng.below(2) * prng.below(5000);
    let (kind, at, life) = (prng.below(8) as u32, prng.below(70), prng.below(3));
    Request { kind, length: length as u32, at, life }
}

fn torment<D: Driver, M: Model>(make: impl Fn() -> Fake<M>) {
    for seed in 0..100 {
        let (mut prng, fake) = (Prng::new(seed), make());
        let mut world: World<'_, D, M> = World::new(&fake);
        world.call(0, of(kind::ABOUT), Vec::new());
        fake.eager.set(false);
        fake.is_hostile.set(true);
        for _ in 0..300 {
            let who = prng.below(2) as usize;
            match prng.below(8) {
                0..4 => scribble(&fake, D::NEEDS.memory, &mut prng),
                4 if world.callers.len() < 12 => {
                    let bulk = vec![1; prng.below(5000) as usize];
                    world.request(who, request(&mut prng), bulk);
                }
                5 => world.event(who, Event::Device),
                6 if !world.callers.is_empty() => {
                    let at = prng.below(world.callers.len() as u64) as usize;
                    let token = world.callers[at].token;
                    if prng.chance(1, 3) { world.cancel(token) } else { world.again(token) }
                }
                _ => {
                    world.now += 100_000;
                    fake.acknowledge();
                    world.timers();
                }
            }
        }
    }
}

#[test]
fn no_device_makes_a_step_panic() {
    torment::<Port, _>(|| Fake::new(3, 0, 0, ConsoleModel::default()));
    torment::<Block, _>(|| Fake::new(2, 1 << 9, 64, DiskModel(vec![0; 64 * 512])));
    torment::<Rng, _>(|| Fake::new(4, 0, 0, RandomModel));
    torment::<Link, _>(|| Fake::new(19, 0, 0, ConsoleModel::default()));
}
