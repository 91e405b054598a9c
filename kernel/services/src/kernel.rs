//! The assembled kernel, and the global variable that holds it.
//!
//! Contract: only entry points call [`get`]: trap handlers, requests of peers, hooks of `arch` and
//! the engine, and the first line of a thread. All other code receives the kernel, or a part of it,
//! as an argument.

use crate::registered::Registered;
use crate::services::Services;
use arch::lock::Once;
use core::ops::Deref;
use kernel_node::soc::Soc;
use kernel_platform::Platform;
use kernel_sched::trace::TraceLog;

/// A platform with its services.
pub struct Kernel {
    pub platform: Platform,
    pub services: Services,
    /// The names of this kernel, and of channels that its programs serve.
    pub registered: Registered,
}

static KERNEL: Once<Kernel> = Once::new();
/// Requests to the soc; set before `KERNEL`, which needs it.
pub static SOC: Once<Soc> = Once::new();
pub static TRACE: TraceLog = TraceLog::new();

/// Returns the kernel, or `None` until it is assembled.
#[inline]
pub fn get() -> Option<&'static Kernel> {
    KERNEL.get()
}

/// Sets what [`get`] returns. Returns `None` if it was set before.
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
