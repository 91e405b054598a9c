//! One kernel, assembled; the only place from which code that nobody calls with one finds it.
//!
//! Contract: [`get`] is for entry points: traps, hooks of `arch` and the engine, and the first line
//! of a thread. All others are given what they need.

use crate::devices::Out;
use crate::platform::Platform;
use crate::services::Services;
use crate::soc::Soc;
use arch::lock::Once;
use core::ops::Deref;
use kernel_sched::trace::TraceLog;

/// A platform with its services.
pub struct Kernel {
    /// What they stand on.
    pub platform: Platform,
    /// What it does for programs, alone or with other kernels.
    pub services: Services,
}

static KERNEL: Once<Kernel> = Once::new();
/// The way to the soc, which is there before the kernel is.
pub static SOC: Once<Soc> = Once::new();
/// The trace log of this kernel.
pub static TRACE: TraceLog = TraceLog::new();

/// The kernel, once it is assembled.
pub fn get() -> Option<&'static Kernel> {
    KERNEL.get()
}

/// Makes it known.
pub fn set(kernel: Kernel) -> Option<&'static Kernel> {
    KERNEL.set(kernel).ok()
}

impl Deref for Kernel {
    type Target = Platform;

    #[inline]
    fn deref(&self) -> &Platform {
        &self.platform
    }
}

impl Kernel {
    /// The system console; writes nothing where another kernel has it.
    pub fn console(&'static self) -> Out {
        Out { node: self, devices: &self.devices }
    }
}
