//! `balloon`: shows the owners of memory blocks, moves blocks by hand, and checks movable pages,
//! whose contents must survive that.

use super::{Command, Failure, Outcome, Session, number};
use core::fmt::Write;
use kernel_mem::balloon::Refusal;
use kernel_mem::blocks::{Kind, State};
use kernel_mem::frames::span::BlockError;
use kernel_node::memory::FRAMES;
use kernel_node::movable;
use kernel_platform::balloon::{Balloons, Failure as Why};
use kernel_services::kernel::Kernel;

pub const COMMANDS: &[Command] = &[Command {
    name: "balloon",
    arguments: "[deflate|inflate|fill N|check|drop N]",
    help: "memory blocks: take or return one; movable test pages",
    run: balloon,
}];

fn balloon(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let none = Failure::Failed("this board has no global region");
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
            writeln!(out, "  {dropped} pages freed, {} left", movable::count())?;
        }
        Some(&"check") => {
            let count = movable::check();
            writeln!(out, "  {} pages, {} wrong", count.pages, count.wrong)?;
        }
        Some(_) => return Err(Failure::Usage),
    }
    audit(kernel, out)
}

/// Checks the page-table invariant and prints the result.
pub fn audit(kernel: &Kernel, out: &mut dyn Write) -> Outcome {
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

/// Returns a text for the user.
pub fn explain(why: Why) -> Failure {
    Failure::Failed(match why {
        Why::Busy => "another transfer is in progress",
        Why::Refused(Refusal::NoneFree) => "no block is free",
        Why::Refused(Refusal::NoneMine) => "we have no block",
        Why::Refused(Refusal::Contended) => "other kernels took it first",
        Why::Refused(Refusal::Map) => "the page table refused",
        Why::Refused(Refusal::Frames(BlockError::Unmovable(_))) => {
            "a frame of the block cannot be moved"
        }
        Why::Refused(Refusal::Frames(BlockError::Cached(_))) => {
            "a core that is off has cached frames of it"
        }
        Why::Refused(Refusal::Frames(BlockError::NoMemory)) => "no memory to move its frames to",
        Why::Refused(Refusal::Frames(_)) => "the frame allocator refused",
    })
}

fn status(kernel: &'static Kernel, balloons: &Balloons, out: &mut dyn Write) -> Outcome {
    let count = balloons.pure().blocks().count();
    let free = balloons.pool(kernel);
    let pages = movable::count();
    writeln!(out, "  {count} blocks of 16 MiB, {free} free; {pages} pages of `balloon fill`")?;
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
        if let Some(inside) = FRAMES.buddy().block_usage(index) {
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
