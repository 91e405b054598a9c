//! The context in which a command or a serving thread acts, and the errors of commands.

use crate::kernel::Kernel;
use crate::services::Caller;
use core::fmt;
use core::ops::Deref;
use kernel_msg::Level;
use kernel_platform::peers::CallFailure;

/// The caller of a command: a thread of this kernel, or a handler that serves another kernel's
/// request. The difference is the level at which it makes calls to other kernels.
#[derive(Clone, Copy)]
pub struct Session {
    pub kernel: &'static Kernel,
    caller: Caller,
}

impl Session {
    /// Creates a session in `kernel` whose calls to other kernels have `level`.
    #[inline]
    pub fn at(kernel: &'static Kernel, level: Level) -> Self {
        let Kernel { platform, services, .. } = kernel;
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

/// Why a command failed.
pub enum Failure {
    /// Wrong arguments; the user should see the usage.
    Usage,
    /// The reason, for the user.
    Failed(&'static str),
    /// The output could not be written: it is closed or full.
    Output,
}

impl Failure {
    /// Returns the reason as text.
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

pub type Outcome = Result<(), Failure>;
