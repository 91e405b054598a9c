//! A thread of a simulated kernel, or a handler with its request.

use kernel_msg::{CallId, Level, Request};

use crate::payload::Bytes;

/// A call in progress.
#[derive(Clone, Debug)]
pub struct Open {
    pub to: usize,
    pub call: CallId,
    pub uid: u64,
    pub spins: bool,
    pub ended: bool,
}

/// A thread, or a handler with its request.
#[derive(Clone, Debug)]
pub struct Actor {
    pub key: u64,
    pub level: Level,
    pub todo: u32,
    pub open: Option<Open>,
    pub request: Option<(Request, Bytes)>,
    /// Whether the pool counts it as blocked.
    pub blocked: bool,
}

impl Actor {
    pub fn new(key: u64, level: Level) -> Actor {
        Actor { key, level, todo: 0, open: None, request: None, blocked: false }
    }

    pub fn can_run(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.ended || open.spins)
    }
}
