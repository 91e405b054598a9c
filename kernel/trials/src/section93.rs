//! Measures K2's section 9.3, in chip time: two kernels allocate and free frames at random at the
//! same time, from a shared allocator, and from one of their own.

use super::beside::beside;
use super::{Command, Failure, Outcome, Session, number};
use base::addr::PhysAddr;
use base::port::Frames;
use base::prng::Prng;
use core::fmt::Write;
use kernel_node::memory::FRAMES;
use kernel_services::services::{ServiceFailure, frames_kind as kind};

pub const COMMANDS: &[Command] = &[Command {
    name: "frames",
    arguments: "shared|own ORDER MOST START END",
    help: "allocate and free between two moments, for `bench frames-both`: count, ns, faults",
    run: frames,
}];

/// Sizes that are allocated (suffix of records, order), with the most chunks of a kernel.
const SIZES: [(&str, u8, usize); 3] = [("", 0, 64), ("_256k", 6, 4), ("_1m", 8, 1)];
/// How long both kernels allocate, and how much time they have to start, in ms.
const SPAN_MS: u64 = 100;
const LEAD_MS: u64 = 50;
/// Most chunks of a kernel, of any size.
const MOST: usize = 64;

/// The results of one kernel: allocations, their ns, and page faults during them.
#[derive(Clone, Copy)]
struct Done([u64; 3]);

/// Measures each size, with the shared allocator and with the kernels' own.
pub fn bench(session: &Session, out: &mut dyn Write) -> Outcome {
    for (name, order, most) in SIZES {
        let [shared, own] = [true, false].map(|shared| both(session, shared, order, most));
        let ([here, there], own) = (shared?, own?);
        let faults = (here.0[2] + there.0[2]) * 100 / (here.0[0] + there.0[0]).max(1);
        let text = format_args!("{}.{:02}", faults / 100, faults % 100);
        writeln!(out, "record k2.s93.faults{name} {text} faults")?;
        for (suffix, shared, own) in [("", here, own[0]), ("_shadow", there, own[1])] {
            let times = shared.mean() * 10 / own.mean().max(1);
            let text = format_args!("{}.{}", times / 10, times % 10);
            writeln!(out, "record k2.s93.slowdown{suffix}{name} {text} x")?;
            writeln!(out, "record k2.s93.shared{suffix}{name} {} ns", shared.mean())?;
            writeln!(out, "record k2.s93.own{suffix}{name} {} ns", own.mean())?;
        }
    }
    Ok(())
}

fn both(session: &Session, shared: bool, order: u8, most: usize) -> Result<[Done; 2], Failure> {
    let start = arch::time::soc_time() + LEAD_MS * 1_000_000;
    let end = start + SPAN_MS * 1_000_000;
    let which = if shared { "shared" } else { "own" };
    let line = format_args!("frames {which} {order} {most} {start} {end}");
    let work = || churn(session, shared, (order, most), [start, end]);
    let (here, answer) = beside(session, line, work)?;
    let text = core::str::from_utf8(&answer).unwrap_or("");
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    let mut next = || numbers.next();
    let there = next().zip(next()).zip(next());
    let silent = Failure::Failed("the other kernel does not say what it allocated");
    let ((count, ns), faults) = there.ok_or(silent)?;
    Ok([here?, Done([count, ns, faults])])
}

/// `frames shared|own ORDER MOST START END`: the peer's part of [`both`].
fn frames(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let shared = match arguments.first() {
        Some(&"shared") => true,
        Some(&"own") => false,
        _ => return Err(Failure::Usage),
    };
    let value = |index| number(arguments, index, 0);
    let size = (value(1)?.min(8) as u8, value(2)? as usize);
    let Done([count, ns, faults]) = churn(session, shared, size, [value(3)?, value(4)?])?;
    Ok(writeln!(out, "{count} {ns} {faults}")?)
}

impl Done {
    /// Returns the mean ns of an allocation.
    fn mean(&self) -> u64 {
        self.0[1] / self.0[0].max(1)
    }
}

/// Allocates and frees at random until `end`, and measures the allocations from `start` on.
fn churn(
    session: &Session,
    shared: bool,
    (order, most): (u8, usize),
    [start, end]: [u64; 2],
) -> Result<Done, Failure> {
    let mut prng = Prng::new(u64::from(order) + u64::from(session.kernel.me.0));
    let mut slots = [None; MOST];
    let mut done = Done([0; 3]);
    loop {
        let slot = &mut slots[prng.below(most.clamp(1, MOST) as u64) as usize];
        let faults = super::table6::faults(session.kernel);
        let before = arch::time::soc_time();
        if before >= end {
            break;
        }
        match slot.take() {
            Some(block) => give(session, shared, block, order)?,
            None => {
                *slot = take(session, shared, order)?;
                if before >= start && slot.is_some() {
                    let took = arch::time::soc_time() - before;
                    let faults = super::table6::faults(session.kernel) - faults;
                    let more = [1, took, faults];
                    done.0.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                }
            }
        }
    }
    slots.into_iter().flatten().try_for_each(|block| give(session, shared, block, order))?;
    Ok(done)
}

fn ask(session: &Session, request: [u64; 3]) -> Result<[u64; 2], Failure> {
    let none = Failure::Failed("frames are not shared on this board: see [services] in its file");
    match session.kernel.services.frames.ask(session, request, &mut []) {
        Err(ServiceFailure::Absent) => Err(none),
        reply => reply.map_err(|why| Failure::Failed(why.text())),
    }
}

fn take(session: &Session, shared: bool, order: u8) -> Result<Option<PhysAddr>, Failure> {
    if !shared {
        return Ok(FRAMES.allocate(order));
    }
    let [told, at] = ask(session, [kind::ALLOCATE, order.into(), 0])?;
    Ok((told == kind::DONE).then_some(PhysAddr(at)))
}

fn give(session: &Session, shared: bool, block: PhysAddr, order: u8) -> Outcome {
    if !shared {
        FRAMES.free(block, order);
        return Ok(());
    }
    match ask(session, [kind::FREE, order.into(), block.0])? {
        [kind::DONE, _] => Ok(()),
        _ => Err(Failure::Failed("the frames service does not know a block that it allocated")),
    }
}
