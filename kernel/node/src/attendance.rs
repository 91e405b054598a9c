//! Whether each core polls for messages, or needs a doorbell (`kernel_msg::notify` has the
//! protocol). Each method is about the core that calls it.

use arch::lock::CoreLocal;
use arch::shared::Window;
use kernel_msg::notify::{Attendance, Presence};

/// The attendance of this kernel's cores.
pub struct Attendances {
    /// Unset until a core's first `enter`, when it is away.
    own: CoreLocal<Option<Attendance>>,
    /// The local time at which [`Attendances::must_look`] last returned true, for each core.
    looked: CoreLocal<u64>,
}

impl Attendances {
    pub const fn new() -> Attendances {
        Attendances { own: CoreLocal::new(None), looked: CoreLocal::new(0) }
    }

    /// Returns whether the core is away.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.own.with(|own| own.is_none_or(|own| own.presence() == Presence::Away))
    }

    /// [`Attendance::enter`]; `page` is the domain's own.
    #[inline]
    pub fn enter(&self, page: &Window) {
        self.own.with(|own| set(own).enter(page));
    }

    /// [`Attendance::leave`]. Returns whether the core is away.
    pub fn leave(&self, page: &Window, waiting: impl FnOnce() -> bool) -> bool {
        self.own.with(|own| set(own).leave(page, waiting) == Presence::Away)
    }

    /// Returns whether the core attends and this has not returned true for `ns`. The caller looks
    /// for messages then.
    #[inline]
    pub fn must_look(&self, ns: u64) -> bool {
        !self.is_away()
            && self.looked.with(|looked| {
                let now = arch::time::local_ns();
                let is_due = now.wrapping_sub(*looked) >= ns;
                *looked = if is_due { now } else { *looked };
                is_due
            })
    }
}

impl Default for Attendances {
    fn default() -> Attendances {
        Attendances::new()
    }
}

fn set(own: &mut Option<Attendance>) -> &mut Attendance {
    own.get_or_insert_with(|| Attendance::new(arch::cpu::core()))
}
