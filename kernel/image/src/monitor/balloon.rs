//! `balloon`: which block is whose, moving blocks by hand, and pages that must survive it; and what
//! memory costs (`bench balloon`).

use super::bench::{Watch, record};
use super::{Command, Failure, Outcome, Session, number};
use crate::balloon::{Balloons, Failure as Why};
use crate::kernel::Kernel;
use crate::memory::FRAMES;
use crate::movable;
use base::addr::PhysAddr;
use base::port::Frames;
use base::prng::Prng;
use core::fmt::Write;
use kernel_mem::balloon::Refusal;
use kernel_mem::blocks::{Kind, State};
use kernel_mem::frames::span::{BlockError, FRAMES as BLOCK_FRAMES};

pub const COMMANDS: &[Command] = &[Command {
    name: "balloon",
    arguments: "[deflate|inflate|fill N|check|drop N]",
    help: "blocks of memory: take one, give one; pages that move",
    run: balloon,
}];

fn balloon(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let none = Failure::Failed("this board has no memory to share");
    let balloons = kernel.balloons.as_ref().ok_or(none)?;
    match arguments.first() {
        None => return status(kernel, balloons, out),
        Some(&"deflate") => {
            let index = balloons.deflate(kernel).map_err(explain)?;
            writeln!(out, "  block {index} is ours")?;
        }
        Some(&"inflate") => {
            let given = balloons.inflate(kernel).map_err(explain)?;
            let (moved, kib) = (given.moved, given.cleaned >> 10);
            let index = given.index;
            writeln!(out, "  block {index} is free: {moved} frames moved, {kib} KiB cleaned")?;
        }
        Some(&"fill") => {
            let made = movable::fill(number(arguments, 1, 1024)?);
            writeln!(out, "  {made} pages made, {} in all", movable::count())?;
        }
        Some(&"drop") => {
            let dropped = movable::drop_pages(number(arguments, 1, u64::MAX)?);
            writeln!(out, "  {dropped} pages given back, {} left", movable::count())?;
        }
        Some(&"check") => {
            let count = movable::check();
            writeln!(out, "  {} pages, {} wrong", count.pages, count.wrong)?;
        }
        Some(_) => return Err(Failure::Usage),
    }
    audit(kernel, out)
}

/// The page-table invariant, after everything that could break it.
fn audit(kernel: &Kernel, out: &mut dyn Write) -> Outcome {
    match kernel.audit() {
        Ok(report) => {
            Ok(writeln!(out, "  {} KiB cacheable: the invariant holds", report.cached >> 10)?)
        }
        Err(violation) => {
            writeln!(out, "  {violation:?}")?;
            Err(Failure::Failed("the page-table invariant is broken"))
        }
    }
}

fn explain(why: Why) -> Failure {
    Failure::Failed(match why {
        Why::Busy => "another block is on its way",
        Why::Refused(Refusal::NoneFree) => "no block is free",
        Why::Refused(Refusal::NoneMine) => "we have no block",
        Why::Refused(Refusal::Contended) => "others were quicker",
        Why::Refused(Refusal::Map) => "the page table refused",
        Why::Refused(Refusal::Frames(BlockError::Unmovable(_))) => "something cannot be moved",
        Why::Refused(Refusal::Frames(BlockError::Cached(_))) => {
            "a core that is off has frames of it"
        }
        Why::Refused(Refusal::Frames(BlockError::NoMemory)) => "no room for what is in it",
        Why::Refused(Refusal::Frames(_)) => "the frame allocator refused",
    })
}

fn status(kernel: &'static Kernel, balloons: &Balloons, out: &mut dyn Write) -> Outcome {
    let count = balloons.pure().blocks().count();
    let free = balloons.pool(kernel);
    let pages = movable::count();
    writeln!(out, "  {count} blocks of 16 MiB, {free} free; {pages} pages that move")?;
    for index in 0..count {
        let (whose, kind) = match balloons.state(kernel, index) {
            State::Free => continue,
            State::Held(domain, kind) | State::Orphan(domain, kind) => {
                (kernel.blob.domains().get(domain.index()), kind_name(kind))
            }
            State::Contended => (None, "changing hands"),
            State::Broken => (None, "broken"),
        };
        let whose = whose.map_or("?", |domain| abi::boot::text(&domain.name));
        let at = balloons.pure().address(index).0;
        write!(out, "  block {index:<3} {at:#011x} {kind} {whose}")?;
        if let Some(inside) = FRAMES.buddy().inside(index) {
            write!(out, ": {} free, {} movable", inside.free, inside.movable)?;
            write!(out, ", {} fixed", inside.fixed)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "local",
        Kind::Coherent => "coherent",
        Kind::Uncached => "uncached",
        Kind::Device => "device",
    }
}

/// Chunks that are out at once while allocation is measured.
const OUT: usize = 24;

/// What frames and blocks cost: `rounds` allocations of each size, an eighth as many blocks.
pub fn bench(kernel: &'static Kernel, out: &mut dyn Write, rounds: u64) -> Outcome {
    for (size, order) in [("4k", 0), ("256k", 6), ("1m", 8)] {
        let (allocating, freeing) = churn(order, rounds)?;
        record_of(out, "memory.alloc", size, allocating)?;
        record_of(out, "memory.free", size, freeing)?;
    }
    let balloons = kernel.balloons.as_ref();
    let balloons = balloons.ok_or(Failure::Failed("this board has no memory to share"))?;
    let shares = [(0, "balloon.inflate_0"), (25, "balloon.inflate_25"), (75, "balloon.inflate_75")];
    for (percent, name) in shares {
        let (mut deflating, mut inflating) = (0, 0);
        let times = (rounds / 8).clamp(1, 16);
        for _ in 0..times {
            let watch = Watch::start();
            balloons.deflate(kernel).map_err(explain)?;
            deflating += watch.ns();
            let pages = BLOCK_FRAMES as u64 * percent / 100;
            let made = movable::fill(pages);
            let watch = Watch::start();
            let given = balloons.inflate(kernel);
            inflating += watch.ns();
            movable::drop_pages(made);
            let moved = given.map_err(explain)?.moved as u64;
            if (made, moved) != (pages, pages) {
                return Err(Failure::Failed("not all pages were in the block"));
            }
        }
        if percent == 0 {
            record(out, "balloon.deflate", deflating, times)?;
        }
        record(out, name, inflating, times)?;
    }
    audit(kernel, out)
}

/// Total and number of operations.
type Cost = (u64, u64);

fn record_of(out: &mut dyn Write, what: &str, size: &str, (total, times): Cost) -> Outcome {
    let mut name = crate::panic::Text::<32>::new();
    write!(name, "{what}_{size}")?;
    record(out, core::str::from_utf8(name.as_bytes()).unwrap_or(what), total, times)
}

/// Allocates and frees at random, a warm-up first.
fn churn(order: u8, rounds: u64) -> Result<(Cost, Cost), Failure> {
    let mut prng = Prng::new(u64::from(order));
    let mut out: [Option<PhysAddr>; OUT] = [None; OUT];
    let (mut allocating, mut freeing) = ((0, 0), (0, 0));
    for round in 0..2 * rounds {
        let slot = &mut out[prng.below(OUT as u64) as usize];
        let watch = Watch::start();
        let cost = match slot.take() {
            Some(chunk) => {
                FRAMES.free(chunk, order);
                &mut freeing
            }
            None => {
                *slot = FRAMES.allocate(order);
                &mut allocating
            }
        };
        let took = watch.ns();
        if round >= rounds {
            *cost = (cost.0 + took, cost.1 + 1);
        }
    }
    out.into_iter().flatten().for_each(|chunk| FRAMES.free(chunk, order));
    Ok((allocating, freeing))
}
