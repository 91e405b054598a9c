//! Layout of the uncached window, computed, never specified in a file.
//!
//! ```text
//! +0        blob (read-only once the chip runs)
//! +1 page   chip page                      written by the soc
//! +2..10    domain pages                   each by its domain
//! +10..14   block table                    a part each, by its domain
//! +14..     register blocks of the devices
//! 128 KiB   memory of the devices, each on a page
//! after it  message links, domains x domains, at a multiple of 64 KiB; then the links of the
//!           coherence protocol
//! ```

use crate::block::Block;
use crate::error::{Place, Reason};
use crate::units::shown;
use abi::boot::{MAX_DEVICES, MAX_DOMAINS};
use abi::memory::BlockPage;
use abi::msg::LINK_SIZE;

const PAGE: u64 = 4096;
const ROUND: u64 = 64 << 10;

/// Physical addresses of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The window.
    pub window: Block,
    /// [`abi::boot::Blob`].
    pub blob: u64,
    /// [`abi::soc::ChipPage`].
    pub chip: u64,
    /// [`MAX_DOMAINS`] x [`abi::soc::DomainPage`].
    pub domains: u64,
    /// [`MAX_DOMAINS`] x [`abi::memory::BlockPage`].
    pub blocks: u64,
    /// The first device's [`abi::soc::DeviceRegisters`].
    pub registers: u64,
    /// The first device's memory.
    pub memory: u64,
    /// Message links.
    pub links: u64,
    /// Size of a link in bytes.
    pub link_size: u64,
    /// Links of the coherence protocol.
    pub dsm: u64,
    /// Size of a link in bytes.
    pub dsm_link_size: u64,
}

/// Pages of the block table.
const TABLE: u64 = (MAX_DOMAINS * size_of::<BlockPage>()) as u64 / PAGE;
/// Pages before the devices' registers.
const FIXED: u64 = 2 + MAX_DOMAINS as u64 + TABLE;
const _: () = assert!((FIXED + MAX_DEVICES as u64) * PAGE <= 2 * ROUND);

impl Layout {
    /// Computes the layout for this many domains with at most this many cores; `device_memory` is
    /// the sum over all devices, each rounded to pages.
    pub(crate) fn compute(
        window: Block,
        at: usize,
        (domains, cores): (usize, usize),
        device_memory: u64,
    ) -> Place<Self> {
        let base = window.base;
        let memory = base + 2 * ROUND;
        let links = (memory + device_memory).next_multiple_of(ROUND);
        let pairs = (domains * domains) as u64;
        let dsm = links + pairs * LINK_SIZE;
        let dsm_link_size = abi::dsm::link_size(domains, cores) as u64;
        let end = dsm + pairs * dsm_link_size;
        if end > window.end() {
            let reason = Reason::Range {
                what: "size of the uncached window",
                value: shown(window.size),
                range: format!("at least {} for what lives there", shown(end - base)),
            };
            return Err((at, reason));
        }
        Ok(Self {
            window,
            blob: base,
            chip: base + PAGE,
            domains: base + 2 * PAGE,
            blocks: base + (2 + MAX_DOMAINS as u64) * PAGE,
            registers: base + FIXED * PAGE,
            memory,
            links,
            link_size: LINK_SIZE,
            dsm,
            dsm_link_size,
        })
    }

    /// Returns the address of the register block of device `index`.
    pub fn registers_of(&self, index: usize) -> u64 {
        self.registers + index as u64 * PAGE
    }
}
