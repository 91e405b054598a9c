//! Interrupts by IMSIC identity: core-to-core kinds, and doorbells, all of which go to core 0.
//! Another core masks a doorbell by recording it in [`UNMASKED`] and asking core 0 to apply it, so
//! one more interrupt may arrive after `mask` has returned; handlers tolerate that.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::boot::{Blob, MAX_CORES};
use base::id::{CoreId, DomainId, Vector};

use super::{cpu, imsic};
use crate::types::Interrupt;

/// Identity of core-to-core kind 0; there are four.
const CORE: u32 = 1;
const KINDS: u32 = 4;
/// Identity that makes core 0 apply [`UNMASKED`].
const FOLLOW: u32 = CORE + KINDS;
/// Identity of doorbell vector 0.
const DOORBELL: u32 = 16;
/// Maximum doorbell vectors, one bit each below.
pub(super) const MAX_VECTORS: u32 = 64;

const _: () = assert!(FOLLOW < DOORBELL && DOORBELL + MAX_VECTORS <= imsic::IDENTITIES);

static UNMASKED: AtomicU64 = AtomicU64::new(0);
/// Number of cores of this domain, 1 until `init`.
static CORES: AtomicU64 = AtomicU64::new(1);

pub fn init(blob: &Blob, domain: DomainId) {
    if let Some(domain) = blob.domains().get(domain.index()) {
        CORES.store(domain.cores.min(MAX_CORES as u32).into(), Ordering::Relaxed);
    }
    UNMASKED.store(0, Ordering::Relaxed);
    init_core();
}

pub fn init_core() {
    imsic::init();
    for identity in CORE..=FOLLOW {
        imsic::enable(identity, true);
    }
}

pub fn unmask(vector: Vector) {
    if let Some(bit) = bit_of(vector) {
        UNMASKED.fetch_or(bit, Ordering::AcqRel);
        follow(vector);
    }
}

pub fn mask(vector: Vector) {
    if let Some(bit) = bit_of(vector) {
        UNMASKED.fetch_and(!bit, Ordering::AcqRel);
        follow(vector);
    }
}

pub fn send_core(core: CoreId, kind: u8) {
    if u64::from(core.0) < cores() && u32::from(kind) < KINDS {
        imsic::send(core.0.into(), CORE + u32::from(kind));
    }
}

pub(super) fn cores() -> u64 {
    CORES.load(Ordering::Relaxed)
}

/// Returns the MSI address and data that interrupt core 0 with `vector`.
pub(super) const fn message_of(vector: u32) -> (u64, u32) {
    (imsic::file_of(0), DOORBELL + vector)
}

/// Takes one interrupt of this hart's file.
pub(super) fn claim() -> Interrupt {
    match imsic::claim() {
        FOLLOW => {
            (0..MAX_VECTORS).for_each(|v| follow_here(v as u8));
            Interrupt::None
        }
        id @ CORE..FOLLOW => Interrupt::Core((id - CORE) as u8),
        id if (DOORBELL..DOORBELL + MAX_VECTORS).contains(&id) => {
            Interrupt::Doorbell(Vector((id - DOORBELL) as u8))
        }
        _ => Interrupt::None,
    }
}

fn bit_of(vector: Vector) -> Option<u64> {
    1u64.checked_shl(vector.0.into())
}

/// Makes core 0 apply [`UNMASKED`] to `vector`. Interrupts are masked, so that the thread cannot
/// migrate between the test of its core and what follows.
fn follow(vector: Vector) {
    let on = cpu::irqs_off();
    if cpu::core().0 == 0 {
        follow_here(vector.0);
    } else {
        imsic::send(0, FOLLOW);
    }
    cpu::irqs_restore(on);
}

fn follow_here(vector: u8) {
    let enabled = UNMASKED.load(Ordering::Acquire) >> vector & 1 != 0;
    imsic::enable(DOORBELL + u32::from(vector), enabled);
}
