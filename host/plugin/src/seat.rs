//! The seat of a domain with one core ([`Domain`], exact) or several ([`Crew`], statistical).

use crate::crew::Crew;
use crate::domain::Domain;
use crate::ffi::machine::{Machine, Thread};
use crate::marks::Book;
use crate::post::Post;
use lab::model::{self, Lab};
use lab::page::Page;

/// A domain's seat. The parameter `core` is the virtual CPU of the calling thread.
#[derive(Debug)]
pub enum Seat {
    /// With one core.
    One(Domain),
    /// With several cores.
    Many(Crew),
}

impl Seat {
    /// Creates the seat that the model requires.
    pub fn new(lab: &Lab, model: model::Domain, page: Page, marks: Book) -> Seat {
        let post = Post::new(lab, model, page, marks);
        match post.model.cores() {
            1 => Seat::One(Domain::new(post)),
            _ => Seat::Many(Crew::new(post)),
        }
    }

    /// Returns its part of the model.
    pub fn model(&self) -> &model::Domain {
        match self {
            Seat::One(domain) => domain.model(),
            Seat::Many(crew) => crew.model(),
        }
    }

    /// Returns the time of the guest's clock, in ns.
    pub fn now_ns(&self, machine: &Machine, thread: Thread) -> u64 {
        match self {
            Seat::One(domain) => domain.now_ns(machine, thread),
            Seat::Many(crew) => crew.now_ns(machine, thread),
        }
    }

    /// Called at the start of a block when the counter has reached its limit.
    pub fn limit(&self, machine: &Machine, core: usize) {
        match self {
            Seat::One(domain) => domain.limit(machine),
            Seat::Many(crew) => crew.park(machine, core, false),
        }
    }

    /// Called before a block that accesses memory between domains.
    pub fn sync(&self, machine: &Machine, core: usize) {
        match self {
            Seat::One(domain) => domain.sync(machine),
            Seat::Many(crew) => crew.park(machine, core, true),
        }
    }

    /// Makes the next block report.
    pub fn report_next(&self, machine: &Machine, core: usize) {
        match self {
            Seat::One(domain) => domain.report_next(machine),
            Seat::Many(crew) => crew.report_next(machine, core),
        }
    }

    /// A core waits for an interrupt; the big lock is held.
    pub fn idle(&self, machine: &Machine, core: usize) {
        match self {
            Seat::One(domain) => domain.idle(machine),
            Seat::Many(crew) => crew.idle(machine, core),
        }
    }

    /// The helper's loop: acts for the seat while it idles.
    pub fn help(&self, machine: &Machine) {
        match self {
            Seat::One(domain) => domain.help(machine),
            Seat::Many(crew) => crew.help(machine),
        }
    }

    /// The guest rings `vector` of `slot`.
    pub fn ring(&self, machine: &Machine, core: usize, slot: usize, vector: usize) {
        match self {
            Seat::One(domain) => domain.ring(machine, slot, vector),
            Seat::Many(crew) => crew.ring(machine, core, slot, vector),
        }
    }

    /// The guest accesses a word of the uncached window. Returns the units that this takes.
    pub fn touched(&self, machine: &Machine, core: usize, at: u64, stored: Option<u64>) -> u64 {
        match self {
            Seat::One(domain) => domain.touched(machine, at, stored),
            Seat::Many(crew) => crew.touched(machine, core, at, stored),
        }
    }

    /// The guest executes a mark, with `rest` units of its block still to come.
    pub fn mark(
        &self,
        machine: &Machine,
        core: usize,
        number: u8,
        rest: u64,
    ) -> Result<(), String> {
        match self {
            Seat::One(domain) => domain.mark(machine, number, rest),
            Seat::Many(crew) => crew.mark(machine, core, number, rest),
        }
    }
}
