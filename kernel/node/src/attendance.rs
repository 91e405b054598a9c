//! Whether each core polls for messages, or needs a doorbell (`kernel_msg::notify` has the
//! protocol). Each method is about the core that calls it.

use arch::lock::CoreLocal;
use arch::shared::Window;
use kernel_msg::notify::{Attendance, Presence};

/// The attendance of this kernel's cores; unset until a core's first `enter`, when it is away.
pub struct Attendances(CoreLocal<Option<Attendance>>);

impl Attendances {
    pub const fn new() -> Attendances {
        Attendances(CoreLocal::new(None))
    }

    /// Returns whether the core is away.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.0.with(|own| own.is_none_or(|own| own.presence() == Presence::Away))
    }

    /// [`Attendance::enter`]; `page` is the domain's own.
    #[inline]
    pub fn enter(&self, page: &Window) {
        self.0.with(|own| set(own).enter(page));
    }

    /// [`Attendance::leave`]. Returns whether the core is away.
    pub fn leave(&self, page: &Window, waiting: impl FnOnce() -> bool) -> bool {
        self.0.with(|own| set(own).leave(page, waiting) == Presence::Away)
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
