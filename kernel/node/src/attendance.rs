//! Whether each core polls for messages, or needs a doorbell (`kernel_msg::notify` has the
//! protocol). Each method is about the core that calls it.

use abi::boot::MAX_CORES;
use arch::lock::CoreLocal;
use arch::shared::Window;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kernel_msg::notify::{Attendance, Presence};

/// The attendance of this kernel's cores.
pub struct Attendances {
    /// Unset until a core's first `enter`, when it is away.
    own: CoreLocal<Option<Attendance>>,
    looks: [Looks; MAX_CORES],
}

/// What a core reads often, so without masking interrupts. If the thread continues on another core
/// meanwhile, one look more or less is made; and it stops polling there before it is in a program.
#[repr(align(64))]
struct Looks {
    /// The core is not away.
    attends: AtomicBool,
    /// The core's clock when [`Attendances::must_look`] last returned true.
    last: AtomicU64,
}

impl Attendances {
    pub const fn new() -> Attendances {
        let looks = [const { Looks { attends: AtomicBool::new(false), last: AtomicU64::new(0) } };
            MAX_CORES];
        Attendances { own: CoreLocal::new(None), looks }
    }

    /// Returns whether the core is away.
    #[inline]
    pub fn is_away(&self) -> bool {
        !self.looks().attends.load(Ordering::Relaxed)
    }

    /// [`Attendance::enter`]; `page` is the domain's own.
    #[inline]
    pub fn enter(&self, page: &Window) {
        self.own.with(|own| {
            set(own).enter(page);
            self.looks().attends.store(true, Ordering::Relaxed);
        });
    }

    /// [`Attendance::leave`]. Returns whether the core is away.
    pub fn leave(&self, page: &Window, waiting: impl FnOnce() -> bool) -> bool {
        self.own.with(|own| {
            let is_away = set(own).leave(page, waiting) == Presence::Away;
            self.looks().attends.store(!is_away, Ordering::Relaxed);
            is_away
        })
    }

    #[inline]
    fn looks(&self) -> &Looks {
        &self.looks[arch::cpu::core().index() % MAX_CORES]
    }

    /// Returns whether the core attends and this has not returned true for so many ticks of its
    /// clock. The caller looks for messages then.
    #[inline]
    pub fn must_look(&self, ticks: u64) -> bool {
        let looks = self.looks();
        if !looks.attends.load(Ordering::Relaxed) {
            return false;
        }
        let now = arch::cpu::clock();
        let is_due = now.wrapping_sub(looks.last.load(Ordering::Relaxed)) >= ticks;
        if is_due {
            looks.last.store(now, Ordering::Relaxed);
        }
        is_due
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
