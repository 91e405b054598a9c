//! On whose behalf a command or a serving thread acts, and why what was asked for was not done.

use crate::kernel::Kernel;
use crate::peers::CallFailure;
use crate::services::Caller;
use core::fmt;
use core::ops::Deref;
use kernel_msg::Level;

/// A thread of this kernel's own, or the request of another kernel that it serves.
#[derive(Clone, Copy)]
pub struct Session {
    /// The kernel it runs in.
    pub kernel: &'static Kernel,
    caller: Caller,
}

impl Session {
    /// In `kernel`, calling at `level`.
    pub fn at(kernel: &'static Kernel, level: Level) -> Self {
        let Kernel { platform, services } = kernel;
        Session { kernel, caller: Caller { platform, services, level } }
    }
}

impl Deref for Session {
    type Target = Caller;

    #[inline]
    fn deref(&self) -> &Caller {
        &self.caller
    }
}

/// Why a command did not do what it was asked.
pub enum Failure {
    /// Wrong words: show how it is meant.
    Usage,
    /// It was tried; this is why it did not work.
    Failed(&'static str),
    /// The place to write went away or is full.
    Output,
}

impl Failure {
    /// For people.
    pub fn text(&self) -> &'static str {
        match self {
            Failure::Failed(text) => text,
            Failure::Usage | Failure::Output => "refused",
        }
    }
}

impl From<CallFailure> for Failure {
    fn from(failure: CallFailure) -> Self {
        Failure::Failed(failure.text())
    }
}

impl From<fmt::Error> for Failure {
    fn from(_: fmt::Error) -> Self {
        Failure::Output
    }
}

/// Result of a command.
pub type Outcome = Result<(), Failure>;
