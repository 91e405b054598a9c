//! The state of the modelled board, its budgets, and the planted mistakes.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use kernel_light::{FromLight, Gate, Group, Sequence, ToLight};

pub const NEVER_BOTH: &str = "no two kernels execute program code of one process";
pub const NOT_FREED: &str = "the memory of a light thread is not freed";

pub const AGREES: &str = "a dispatch says the same as the gate";
pub const EXPECTED: &str = "the gate finds each message plausible";

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    /// Not created yet (light threads).
    Unborn,
    Blocked,
    /// Runnable, on no core (normal threads).
    Ready,
    /// About to return to program code.
    Border,
    Program,
    /// In a kernel call.
    Call,
    /// In a fault, for a page that the other kernel must hand over.
    Fault,
    /// In the call that creates a light thread.
    Creating,
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    pub doing: Doing,
    /// How often it may still block, call or fault; then it can only end.
    pub left: u8,
    /// The core of a normal thread that is dispatched.
    pub core: Option<u8>,
}

impl Thread {
    pub const fn new(doing: Doing, left: u8) -> Thread {
        Thread { doing, left, core: None }
    }
}

/// The process on the strong kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub gate: Gate,
    pub threads: Vec<Thread>,
    pub uncreated: u8,
    pub is_killed: bool,
    /// Epochs of both kernels when it was started.
    pub session: (u8, u8),
    /// Number of reports that were handled (for mistakes).
    pub reports: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Strong {
    pub process: Option<Process>,
    pub is_resting: bool,
}

/// The process on the weak kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Weak {
    pub group: Option<Group>,
    pub threads: Vec<Thread>,
    pub is_resting: bool,
    /// It has rested, and the newest Suspend that had arrived before it woke.
    pub must_look: Option<Sequence>,
    /// The session of its process.
    pub session: (u8, u8),
    /// The newest number that the group has received (for mistakes).
    pub heard: Sequence,
}

/// A kernel as the chip sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub epoch: u8,
    pub is_alive: bool,
    /// The peer's epoch as this kernel knows it, 0 if dead.
    pub peer: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    ToLight(ToLight),
    FromLight(FromLight),
    /// A call that creates a light thread, by this normal thread, and its reply.
    Create(usize),
    Created(usize),
    /// A request for a page, for a thread of the sender, and the page.
    PageRequest(usize),
    Page(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The receiver: [`STRONG`] or [`WEAK`].
    pub to: usize,
    /// Epochs of the sender and of the receiver.
    pub epochs: (u8, u8),
    pub body: Body,
}

pub const STRONG: usize = 0;
pub const WEAK: usize = 1;

const HASHER: BuildHasherDefault<DefaultHasher> = BuildHasherDefault::new();

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub lives: [Life; 2],
    pub strong: Strong,
    pub weak: Weak,
    /// Messages on their way, sorted, because they arrive in any order.
    pub net: Vec<Packet>,
    pub left: Budget,
    pub broken: Option<&'static str>,
}

impl State {
    pub fn process(&mut self) -> Option<&mut Process> {
        self.strong.process.as_mut()
    }

    pub fn send(&mut self, to: usize, body: Body) {
        let from = self.lives[1 - to];
        // A message to a dead peer is lost, or not even sent.
        if from.peer != 0 && self.lives[to].is_alive {
            self.net.push(Packet { to, epochs: (from.epoch, from.peer), body });
            self.net.sort_by_cached_key(|packet| HASHER.hash_one(packet));
        }
    }
}

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub normal: [u8; 2],
    pub light: [u8; 2],
    /// Number of light threads.
    pub lights: u8,
    pub preemptions: u8,
    /// Rests of the strong kernel, and of the weak one.
    pub rests: u8,
    pub weak_rests: u8,
    pub ends: u8,
    pub deaths: u8,
    pub restarts: u8,
    /// Processes that are started after the first one is lost.
    pub lives: u8,
    /// Messages that arrive twice.
    pub repeats: u8,
}

impl Budget {
    pub const NONE: Budget = Budget {
        normal: [0; 2],
        light: [0; 2],
        lights: 0,
        preemptions: 0,
        rests: 0,
        weak_rests: 0,
        ends: 0,
        deaths: 0,
        restarts: 0,
        lives: 0,
        repeats: 0,
    };
}

/// A deliberate mistake of the kernels around the two machines, or in the place of one of their
/// rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// The weak kernel answers a Suspend before its threads have left program code.
    EarlyAnswer,
    /// It answers when the first of two threads has left.
    AnswerOfOne,
    /// A Resume counts although a newer Suspend has been handled.
    OldResume,
    /// A normal thread returns to program code without waiting for the answer.
    NoWait,
    /// When one core is left, the other one counts as left too.
    CountOff,
    /// Reports of runnable threads get lost.
    LostReport,
    /// The weak kernel sends its reports without a number, so an old one counts.
    OldReport,
    /// The strong kernel keeps waiting for the answer of a dead peer.
    WaitForDead,
    /// Light threads of a dead kernel's process are not ended.
    Orphans,
    /// A light thread returns from a fault or a call without asking.
    ReturnUnasked,
    /// A kernel serves no other message while it waits for an answer or a page.
    Deaf,
    /// A kernel that has rested runs threads before it handles messages.
    NoLook,
    /// Memory of an ended process is freed before its light threads have ended.
    EarlyFree,
    /// Messages of an older epoch are handled.
    OldEpoch,
}

impl Mistake {
    pub const ALL: [Mistake; 14] = [
        Mistake::EarlyAnswer,
        Mistake::AnswerOfOne,
        Mistake::OldResume,
        Mistake::NoWait,
        Mistake::CountOff,
        Mistake::LostReport,
        Mistake::OldReport,
        Mistake::WaitForDead,
        Mistake::Orphans,
        Mistake::ReturnUnasked,
        Mistake::Deaf,
        Mistake::NoLook,
        Mistake::EarlyFree,
        Mistake::OldEpoch,
    ];

    /// Returns the property that it breaks. `None`: it leaves a thread waiting forever.
    pub fn breaks(self) -> Option<&'static str> {
        match self {
            Mistake::LostReport | Mistake::OldReport | Mistake::WaitForDead => None,
            Mistake::Orphans | Mistake::Deaf => None,
            Mistake::EarlyFree => Some(NOT_FREED),
            Mistake::OldEpoch => Some(EXPECTED),
            _ => Some(NEVER_BOTH),
        }
    }

    /// Returns a budget with which it does harm.
    pub fn budget(self) -> Budget {
        let duo = Budget { normal: [1, 1], light: [1, 0], lights: 1, ..Budget::NONE };
        let short = Budget { normal: [1, 0], light: [1, 0], lights: 1, ..Budget::NONE };
        match self {
            Mistake::AnswerOfOne => Budget { light: [1, 1], lights: 2, ..short },
            Mistake::OldReport => Budget { preemptions: 1, ..duo },
            Mistake::WaitForDead | Mistake::Orphans => Budget { deaths: 1, ..short },
            Mistake::NoLook => Budget { weak_rests: 1, ..short },
            Mistake::EarlyFree => Budget { ends: 1, ..short },
            Mistake::OldEpoch => {
                Budget { deaths: 1, restarts: 1, lives: 1, normal: [1, 0], light: [0, 0], ..short }
            }
            _ => duo,
        }
    }
}
