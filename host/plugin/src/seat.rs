//! A seat at the table, with one core ([`Domain`], exact) or several ([`Crew`], statistical).

use crate::crew::Crew;
use crate::domain::Domain;
use crate::ffi::machine::{Machine, Thread};
use crate::marks::Book;
use crate::post::Post;
use lab::model::{self, Lab};
use lab::page::Page;

/// Who sits there. `core` is whose thread it is.
#[derive(Debug)]
pub enum Seat {
    /// One core.
    One(Domain),
    /// Several.
    Many(Crew),
}

impl Seat {
    /// As the model says.
    pub fn new(lab: &Lab, model: model::Domain, page: Page, marks: Book) -> Seat {
        let post = Post::new(lab, model, page, marks);
        match post.model.cores() {
            1 => Seat::One(Domain::new(post)),
            _ => Seat::Many(Crew::new(post)),
        }
    }

    /// Its part of the model.
    pub fn model(&self) -> &model::Domain {
        match self {
            Seat::One(domain) => domain.model(),
            Seat::Many(crew) => crew.model(),
        }
    }

    /// What the guest's clock says, in ns.
    pub fn now_ns(&self, machine: &Machine, thread: Thread) -> u64 {
        match self {
            Seat::One(domain) => domain.now_ns(machine, thread),
            Seat::Many(crew) => crew.now_ns(machine, thread),
        }
    }

    /// A block's start, and the counter has reached its limit.
    pub fn limit(&self, machine: &Machine, core: usize) {
        match self {
            Seat::One(domain) => domain.limit(machine),
            Seat::Many(crew) => crew.park(machine, core, false),
        }
    }

    /// A block that reaches across domains.
    pub fn sync(&self, machine: &Machine, core: usize) {
        match self {
            Seat::One(domain) => domain.sync(machine),
            Seat::Many(crew) => crew.park(machine, core, true),
        }
    }

    /// The block that follows reports.
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

    /// The helper's life: acts for the seat while it idles.
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

    /// The guest touches a word of the uncached window.
    pub fn touched(&self, machine: &Machine, core: usize, at: u64, stored: Option<u64>) {
        match self {
            Seat::One(domain) => domain.touched(machine, at, stored),
            Seat::Many(crew) => crew.touched(machine, core, at, stored),
        }
    }

    /// The guest makes a mark, with `rest` units of its block still to come.
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
