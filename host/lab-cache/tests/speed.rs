//! The cost of an access. Prints it, and asserts nothing about time:
//! `cargo test --release -p lab-cache --test speed -- --nocapture`

mod common;

use common::{BASE, access, domain, words};
use lab_cache::{Model, Violation};
use std::hint::black_box;
use std::time::Instant;

const SIZE: u64 = 64 << 20;
const COUNT: u64 = 2_000_000;

/// Runs `event` at addresses a stride apart and prints its cost. Returns the reports.
fn cost(name: &str, stride: u64, event: impl Fn(&mut Model, u64, &mut dyn FnMut(&Violation))) {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let mut told = 0;
    let start = Instant::now();
    for step in 0..COUNT {
        let pa = BASE + step * stride % SIZE;
        event(&mut model, black_box(pa), &mut |_| told += 1);
    }
    let each = start.elapsed().as_secs_f64() * 1e9 / COUNT as f64;
    println!("{name:<44} {each:>6.1} ns");
    assert_eq!(told, 0, "{name}");
}

#[test]
fn nanoseconds_an_access() {
    cost("reads, one page", 8, |m, pa, r| m.read(access(0, pa & !0xff_f000, 1), r));
    cost("writes, one page", 8, |m, pa, r| m.write(access(0, pa & !0xff_f000, 1), r));
    cost("reads, 64 MiB in order", 8, |m, pa, r| m.read(access(0, pa, 1), r));
    cost("writes, 64 MiB in order", 8, |m, pa, r| m.write(access(0, pa, 1), r));
    cost("reads, 64 MiB in leaps", 0x1_0048, |m, pa, r| m.read(access(0, pa, 1), r));
    cost("fetches, 64 MiB in leaps", 0x1_0048, |m, pa, r| m.fetch(domain(0), pa, 32, r));
    cost("uncached writes, one page", 8, |m, pa, r| {
        m.uncached_write(access(0, pa & !0xff_f000, 1), r);
    });
    cost("write, clean, invalidate, read by another", 64, |m, pa, r| {
        m.invalidate(domain(0), pa);
        m.write(access(0, pa, 1), r);
        m.clean(domain(0), pa);
        m.invalidate(domain(1), pa);
        m.read(access(1, pa, 2), r);
    });
}
