//! References into another kernel's image, which shared memory may contain by mistake: strays, and
//! calls that continue in a twin (docs/design/shadowable.md).
//!
//! Contract: the local memory of other kernels is not mapped, so each such reference faults, and
//! the fault handler calls [`Others::classify`]. On a board with twins (`twins=on`), code and
//! constants of the other kernel's staged image are mapped read-only, and a call of one of its
//! functions continues in the function of the same name in this image. Every other reference is a
//! [`Stray`], which is logged.
//!
//! The tables are made at boot. The fault path does not allocate and takes no lock. The other image
//! may be replaced later: each dispatch checks that the staged image is still the one that the
//! table was made from.

use abi::boot::{Blob, Domain, ImageHeader, VA_OFFSET, kind};
use alloc::vec::Vec;
use arch::types::{Access, Fault};
use base::addr::PhysAddr;
use base::id::DomainId;
use core::fmt;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_mem::mapping;
use kernel_node::memory::{FRAMES, TABLE};
use kernel_node::symbols::{Named, Symbols, header};
use share::twins::Tally;
use share::twins::{NoTwin, Twins};

/// The images of all other kernels.
pub struct Others {
    others: Vec<Other>,
    /// Address at which this kernel's own image runs.
    start: u64,
}

/// The image of another kernel.
pub struct Other {
    /// Name of the domain.
    pub name: &'static str,
    /// Addresses of the domain's local memory.
    regions: Vec<Range<u64>>,
    /// Address at which the image runs.
    pub image: u64,
    /// On a board with twins, if the image could be mapped.
    known: Option<Known>,
    /// See [`Other::counts`].
    counts: [AtomicU64; 3],
}

/// An image that is mapped for reading.
struct Known {
    /// Bytes of code.
    code: u64,
    twins: Twins,
    symbols: Symbols,
    /// The image's checksum when it was mapped, and the address of that word in its header.
    checksum: u64,
    checksum_address: u64,
}

/// The reference that caused a fault.
pub enum ReferenceKind {
    /// A call that continues at this address, in the function's twin.
    Twin(u64),
    /// Another reference into a kernel's image.
    Stray(Stray),
    /// Not a reference into a kernel's image.
    Other,
}

/// Why a reference is a stray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Nothing of the other kernel is mapped.
    Unmapped,
    /// A load or store of something other than code and constants, or a store to them.
    Data,
    /// The staged image was replaced.
    Changed,
    /// The function has no twin.
    NoTwin(NoTwin),
}

/// A reference into another kernel's image that cannot be followed. Displayed as text for the log.
pub struct Stray {
    kernel: &'static str,
    access: Access,
    address: u64,
    why: Why,
    symbols: Option<Symbols>,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.access {
            Access::Read => "read of",
            Access::Write => "write to",
            Access::Execute => "call of",
        };
        write!(f, "stray {what} {}'s {}: ", self.kernel, Named(self.symbols, self.address))?;
        f.write_str(match self.why {
            Why::Unmapped => "it is not mapped",
            Why::Data => "it is not for other kernels",
            Why::Changed => "that kernel has another image now",
            Why::NoTwin(NoTwin::NoFunction) => "no function begins there",
            Why::NoTwin(NoTwin::Missing) => "no function of this name is here",
            Why::NoTwin(NoTwin::Ambiguous) => "two functions have this name",
        })
    }
}

/// Collects the other kernels of the board and, on a board with twins, maps their images. The page
/// table must exist.
pub fn new(blob: &'static Blob, me: DomainId) -> Others {
    let mut others = Vec::new();
    for (id, domain) in (0..).map(DomainId).zip(blob.domains()).filter(|(id, _)| *id != me) {
        let local = blob.regions().iter().filter(|r| {
            (r.kind == kind::LOCAL || r.kind == kind::STAGING) && r.owner == u32::from(id.0)
        });
        let regions = local.map(|r| {
            let start = r.base.wrapping_add(VA_OFFSET);
            start..start.wrapping_add(r.size)
        });
        let name = abi::boot::text(&domain.name);
        let known = if blob.has_twins() { known(blob, me, domain) } else { None };
        if blob.has_twins() {
            match &known {
                Some(known) => kernel_node::log!("twins of {name}: {:?}", known.twins.tally()),
                None => {
                    kernel_node::log!("no twins of {name}: its image is not staged, or not valid")
                }
            }
        }
        others.push(Other {
            name,
            regions: regions.collect(),
            image: domain.image_pa.wrapping_add(VA_OFFSET),
            known,
            counts: [const { AtomicU64::new(0) }; 3],
        });
    }
    Others { others, start: own_start(blob, me) }
}

fn own_start(blob: &Blob, me: DomainId) -> u64 {
    blob.domains()[me.index()].image_pa.wrapping_add(VA_OFFSET)
}

/// Maps another kernel's image and makes the table of its functions. Returns `None` if its image is
/// not staged or not valid.
fn known(blob: &Blob, me: DomainId, other: &Domain) -> Option<Known> {
    let this = blob.domains().get(me.index())?;
    let reaches = other.staging_pa >= this.ram_base
        && other.staging_pa.checked_add(other.staging_size)? <= this.ram_base + this.ram_size;
    if !reaches {
        return None;
    }
    let table = &mut *TABLE.get()?.lock();
    mapping::map_staging(table, &FRAMES, other).ok()?;
    let head = header(other.staging_pa, other.staging_size)?;
    if head.load_pa != other.image_pa || head.code_size > head.constant_size {
        return None;
    }
    mapping::map_constants(table, &FRAMES, other, head.constant_size).ok()?;
    let symbols = Symbols::staged(other.staging_pa, other.staging_size)?;
    let own = Symbols::staged(arch::image::staging_pa(), this.staging_size)?;
    let text = arch::image::layout().text;
    let twins = Twins::new(own.within(text.1 - text.0), symbols.within(head.code_size));
    let offset = offset_of!(ImageHeader, checksum) as u64;
    let checksum_address = PhysAddr(other.staging_pa + offset).to_virt().0;
    let checksum = head.checksum;
    Some(Known { code: head.code_size, twins, symbols, checksum, checksum_address })
}

impl Others {
    pub fn all(&self) -> &[Other] {
        &self.others
    }

    /// Classifies a fault of this kernel's code at `pc`.
    pub fn classify(&self, pc: u64, fault: Fault) -> ReferenceKind {
        let (address, access) = match fault {
            Fault::Page { access: Access::Execute, .. } => (pc, Access::Execute),
            // A misaligned function address: AArch64 faults at the jump target. If instead the
            // access was misaligned, `pc` is in this kernel's image, and this is `Other`.
            Fault::Unaligned { .. } => (pc, Access::Execute),
            Fault::Page { address, access, .. } => (address, access),
            _ => return ReferenceKind::Other,
        };
        let holds = |other: &&Other| other.regions.iter().any(|region| region.contains(&address));
        let Some(other) = self.others.iter().find(holds) else { return ReferenceKind::Other };
        let why = match access {
            Access::Execute => match other.twin(address) {
                Ok(twin) => {
                    let odd =
                        matches!(fault, Fault::Unaligned { .. }) || !address.is_multiple_of(4);
                    other.counts[0].fetch_add(1, Ordering::Relaxed);
                    other.counts[1].fetch_add(odd.into(), Ordering::Relaxed);
                    return ReferenceKind::Twin(self.start + u64::from(twin));
                }
                Err(why) => why,
            },
            _ if other.known.is_some() => Why::Data,
            _ => Why::Unmapped,
        };
        other.counts[2].fetch_add(1, Ordering::Relaxed);
        let symbols = other.known.as_ref().map(|known| known.symbols);
        ReferenceKind::Stray(Stray { kernel: other.name, access, address, why, symbols })
    }
}

impl Other {
    fn twin(&self, address: u64) -> Result<u32, Why> {
        let known = self.known.as_ref().ok_or(Why::Unmapped)?;
        let at = address.checked_sub(self.image).filter(|&at| at < known.code);
        let at = at.and_then(|at| u32::try_from(at).ok()).ok_or(Why::NoTwin(NoTwin::NoFunction))?;
        if arch::probe::load(known.checksum_address) != Some(known.checksum) {
            return Err(Why::Changed);
        }
        known.twins.find(at).map_err(Why::NoTwin)
    }

    /// Returns how many of its functions have twins, if it is mapped.
    pub fn tally(&self) -> Option<Tally> {
        self.known.as_ref().map(|known| known.twins.tally())
    }

    /// Returns the size of its code in bytes, or 0 if it is not mapped.
    pub fn code(&self) -> u64 {
        self.known.as_ref().map_or(0, |known| known.code)
    }

    /// Returns the numbers of calls that continued in a twin, of those among them that went to an
    /// address not aligned for this ISA, and of strays.
    pub fn counts(&self) -> [u64; 3] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::ToString;

    const IMAGE: u64 = 0x9000;
    const OWN: u64 = 0x1000;
    const READ: Access = Access::Read;

    /// The other kernel's local memory, its image first. With twins, it has two functions: `both`,
    /// which this kernel has at 0x40, and `theirs`.
    fn others(checksum: Option<(u64, &u64)>) -> Others {
        let known = checksum.map(|(checksum, word)| Known {
            code: 0x100,
            twins: Twins::new(
                [(0x40, "both")].into_iter(),
                [(0, "both"), (8, "theirs")].into_iter(),
            ),
            symbols: Symbols::default(),
            checksum,
            checksum_address: word as *const u64 as u64,
        });
        let other = Other {
            name: "other",
            regions: core::iter::once(IMAGE..IMAGE + 0x1000).collect(),
            image: IMAGE,
            known,
            counts: [const { AtomicU64::new(0) }; 3],
        };
        Others { others: [other].into(), start: OWN }
    }

    fn classify(others: &Others, address: u64, access: Access) -> std::string::String {
        let pc = if access == Access::Execute { address } else { OWN };
        match others.classify(pc, Fault::Page { address, access, is_cached: false }) {
            ReferenceKind::Twin(at) => format!("twin at {at:#x}"),
            ReferenceKind::Stray(stray) => stray.to_string(),
            ReferenceKind::Other => "other".to_string(),
        }
    }

    #[test]
    fn a_reference_into_an_image_that_is_not_mapped_is_a_stray() {
        let others = others(None);
        let text = classify(&others, IMAGE + 8, READ);
        assert_eq!(text, "stray read of other's 0x0000000000009008: it is not mapped");
        assert!(classify(&others, IMAGE, Access::Execute).starts_with("stray call of"));
        assert_eq!(classify(&others, IMAGE - 1, READ), "other");
        assert_eq!(classify(&others, IMAGE + 0x1000, READ), "other");
        assert_eq!(others.all()[0].counts(), [0, 0, 2]);
    }

    #[test]
    fn a_call_continues_in_the_twin_if_there_is_one() {
        let checksum = 5;
        let others = others(Some((5, &checksum)));
        assert_eq!(classify(&others, IMAGE, Access::Execute), "twin at 0x1040");
        assert!(
            classify(&others, IMAGE + 8, Access::Execute)
                .ends_with("no function of this name is here")
        );
        assert!(
            classify(&others, IMAGE + 4, Access::Execute).ends_with("no function begins there")
        );
        assert!(
            classify(&others, IMAGE + 0x100, Access::Execute).ends_with("no function begins there")
        );
        assert!(classify(&others, IMAGE, READ).ends_with("it is not for other kernels"));
        assert_eq!(others.all()[0].counts(), [1, 0, 4]);
    }

    #[test]
    fn an_image_that_was_replaced_has_no_twins() {
        let checksum = 6;
        let others = others(Some((5, &checksum)));
        let met = classify(&others, IMAGE, Access::Execute);
        assert!(met.ends_with("that kernel has another image now"), "{met}");
    }
}
