//! What callers do: random requests, or a workload, which is so short that a kernel can be killed
//! or stopped at each step of it.

use crate::turn::control;
use base::prng::Prng;
use std::sync::atomic::Ordering::Relaxed;

/// A request of a caller, or a group of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Write,
    Read,
    Remove,
    Pipe,
    Sockets,
    Call,
    Process,
    Memory,
    Share,
    Talk,
    Sleep,
    /// A byte from kernel 0 to kernel 1. Only of a workload.
    Byte,
}

impl Request {
    pub fn random(random: &mut Prng) -> Request {
        match random.below(19) {
            0..=2 => Request::Write,
            3..=4 => Request::Read,
            5 => Request::Remove,
            6 => Request::Pipe,
            7 => Request::Sockets,
            8 => Request::Call,
            9..=10 => Request::Process,
            11 => Request::Memory,
            12..=15 => Request::Share,
            16..=17 => Request::Talk,
            _ => Request::Sleep,
        }
    }
}

/// What the only caller of each kernel does, once all kernels serve. It has one file, and the other
/// kernel is the one that it talks to and starts processes on.
#[derive(Debug)]
pub struct Workload {
    pub name: &'static str,
    pub requests: &'static [Request],
}

pub static ALL: [Workload; 5] = [
    Workload { name: "files", requests: &[Request::Write, Request::Read, Request::Remove] },
    Workload { name: "pipe", requests: &[Request::Byte] },
    Workload { name: "processes", requests: &[Request::Process] },
    Workload { name: "channel", requests: &[Request::Talk] },
    Workload { name: "balloon", requests: &[Request::Memory] },
];

/// Seed of workloads, which decides everything else; with it, all services are shadowed.
pub const SEED: u64 = 4;

impl Workload {
    pub fn find(name: &str) -> Result<&'static Workload, String> {
        let names = || ALL.each_ref().map(|workload| workload.name).join(", ");
        let found = ALL.iter().find(|workload| workload.name == name);
        found.ok_or_else(|| format!("there is no workload {name}, but {}", names()))
    }

    /// Lets the callers of this run do it.
    pub fn install(&self) {
        let place = ALL.iter().position(|workload| workload.name == self.name);
        let number = place.map_or(0, |place| place as u32 + 1);
        control().workload.store(number, Relaxed);
    }
}

/// Returns the workload of this run, if it has one.
pub fn current() -> Option<&'static Workload> {
    let number = control().workload.load(Relaxed) as usize;
    number.checked_sub(1).and_then(|place| ALL.get(place))
}
