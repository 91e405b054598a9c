//! What a kernel receives at boot: the board blob, and the header of a staged kernel image.
//!
//! The soc writes the blob once, before any domain runs. A kernel copies and checks it, and has no
//! other source of facts about the chip. The stub reads only [`StubTable`] and [`ImageHeader`].

use crate::power::{MAX_POINTS, PowerPoint};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of the kernels' command line in bytes, including the terminating NUL.
pub const MAX_ARGUMENTS: usize = 512;
/// The [option](options) by which kernels continue in twins ([`Blob::has_twins`]).
pub const TWINS: &str = "twins=on";
/// Length of every array indexed by domain.
pub const MAX_DOMAINS: usize = 8;
/// Maximum cores per domain.
pub const MAX_CORES: usize = 8;
pub const MAX_REGIONS: usize = 32;
pub const MAX_DEVICES: usize = 16;
/// Maximum number of services that have a mode.
pub const MAX_SERVICES: usize = 16;
/// Size of a block of the global region; a block has one kind at a time.
pub const BLOCK: u64 = 16 << 20;
/// Offset of the linear map: kernel virtual address = physical address + this, in every domain.
pub const VA_OFFSET: u64 = 0xffff_8000_0000_0000;

/// Offset from the virtual address of a page in the shared block to its maintenance alias: a
/// permanent uncached mapping, used only to clean and invalidate the page's cache lines while the
/// page is unmapped or read-only. Nothing is read or written through it.
pub const MAINTENANCE_OFFSET: u64 = 1 << 40;
/// [`Domain::rest_after_ms`] of a domain that never rests.
pub const NEVER_RESTS: u32 = u32::MAX;
/// Owner of a region, device or line that belongs to no single domain.
pub const NOBODY: u32 = u32::MAX;

/// `b"PENUMBRA"`, little endian.
pub const BLOB_MAGIC: u64 = u64::from_le_bytes(*b"PENUMBRA");
/// `b"PENKERNL"`, little endian.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"PENKERNL");
/// Incremented with every change of a layout in this crate.
pub const VERSION: u32 = 11;

/// Instruction set of a domain.
pub mod isa {
    /// AArch64, EL1.
    pub const AARCH64: u32 = 1;
    /// RV64GC, S-mode.
    pub const RISCV64: u32 = 2;

    /// Name in messages and in the file names of programs.
    pub const fn name(isa: u32) -> &'static str {
        match isa {
            AARCH64 => "aarch64",
            _ => "riscv64",
        }
    }
}

/// Role of a domain's kernel.
pub mod role {
    /// Fast cores.
    pub const MAIN: u32 = 1;
    /// Slow, low-power cores.
    pub const SHADOW: u32 = 2;
    /// Microcontroller cores without an MMU.
    pub const PROXY: u32 = 3;
}

/// Kind of a memory region.
pub mod kind {
    /// Never mapped by a kernel: stubs, device trees, memory that the emulator writes at reset.
    pub const RESERVED: u32 = 0;
    /// Staged kernel images, read by the stubs only.
    pub const STAGING: u32 = 1;
    /// The uncached window: mailboxes, rings, descriptors.
    pub const UNCACHED: u32 = 2;
    /// Cacheable in the one domain that owns the region.
    pub const LOCAL: u32 = 3;
    /// The global region: 16 MiB blocks whose kind changes at run time.
    pub const GLOBAL: u32 = 4;
    /// A disk in memory, filled before any kernel runs. Cacheable in every domain.
    pub const DISK: u32 = 5;
    /// Memory that its owner lends to other kernels for reading. Cacheable in every domain.
    pub const BULK: u32 = 6;
}

/// How a service is shared.
pub mod mode {
    /// Each kernel has its own instance; the instances are unrelated.
    pub const PRIVATE: u32 = 1;
    /// Each kernel has its own instance; the instances coordinate rarely.
    pub const INDEPENDENT: u32 = 2;
    /// One state in coherent memory; a request runs on the kernel that received it.
    pub const SHADOWED: u32 = 3;
    /// One state, divided among the kernels by key.
    pub const PARTITIONED: u32 = 4;
    /// One kernel owns the state; the others send it messages.
    pub const DELEGATED: u32 = 5;
}

/// Kind of a device on the interconnect.
pub mod device {
    /// virtio console: the system console.
    pub const CONSOLE: u32 = 1;
    /// virtio block.
    pub const BLOCK: u32 = 2;
    /// virtio rng.
    pub const RNG: u32 = 3;
    /// The DMA engine ([`crate::dma`]); each domain drives its own channels.
    pub const DMA: u32 = 4;
    /// virtio vsock: streams to the host ([`crate::host`]).
    pub const VSOCK: u32 = 5;
    /// virtio net: Ethernet ([`crate::ethernet`]).
    pub const NET: u32 = 6;
}

/// A coherence domain and its kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Domain {
    /// Name in the board file, NUL padded.
    pub name: [u8; 16],
    /// One of [`isa`].
    pub isa: u32,
    /// One of [`role`].
    pub role: u32,
    /// Slot on the doorbell fabric. The soc's is [`Blob::soc_slot`].
    pub slot: u32,
    pub cores: u32,
    /// Bits: [`HAS_MMU`].
    pub flags: u32,
    /// Nominal frequency in kHz; 0 if unknown.
    pub khz: u32,
    /// Time without work after which this domain rests, in ms; [`NEVER_RESTS`].
    pub rest_after_ms: u32,
    /// Power of each core in uW while the domain rests.
    pub inactive_uw: u32,
    /// First physical address of the RAM that this domain can access.
    pub ram_base: u64,
    /// Size of that RAM in bytes.
    pub ram_size: u64,
    /// Physical address where its kernel image runs, inside a local region of its own.
    pub image_pa: u64,
    /// Maximum size of the image including bss, in bytes.
    pub image_max: u64,
    /// Physical address where its kernel image is staged.
    pub staging_pa: u64,
    /// Size of the staging area in bytes.
    pub staging_size: u64,
    /// Powers of a core by frequency; those with frequency 0 are unused. All are if the board file
    /// gives no powers.
    pub powers: [PowerPoint; MAX_POINTS],
}

/// A range of physical memory of one kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Region {
    pub base: u64,
    pub size: u64,
    /// One of [`kind`].
    pub kind: u32,
    /// Index of a domain, or [`NOBODY`].
    pub owner: u32,
}

/// A device served by the soc.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Device {
    /// Name in the board file, NUL padded.
    pub name: [u8; 16],
    /// One of [`device`].
    pub kind: u32,
    /// Index of the domain that drives it at boot.
    pub home: u32,
    /// Doorbell vector of its interrupt, the same in every domain.
    pub vector: u32,
    /// Doorbell vector at the soc that notifies it of new requests to this device.
    pub kick: u32,
    /// Physical address of its register block, 4 KiB: [`crate::soc::DeviceRegisters`] or
    /// [`crate::dma::Registers`].
    pub registers: u64,
    /// Physical address of its queues and buffers, inside the uncached window.
    pub memory: u64,
    /// Size of that memory in bytes.
    pub memory_size: u64,
}

/// A service and the mode that the board file selects for it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Service {
    /// NUL padded.
    pub name: [u8; 16],
    /// One of [`mode`].
    pub mode: u32,
    /// Index of the owner of a delegated service, else [`NOBODY`].
    pub home: u32,
}

/// Layout of the uncached window: physical addresses and sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Window {
    pub base: u64,
    pub size: u64,
    /// [`crate::soc::ChipPage`], written by the soc only.
    pub chip: u64,
    /// [`MAX_DOMAINS`] x [`crate::soc::DomainPage`], each written by its domain only.
    pub domains: u64,
    /// [`MAX_DOMAINS`] x [`crate::memory::BlockPage`], each written by its domain only.
    pub blocks: u64,
    /// Message links: link (from, to) is at `links + (from * domains + to) * link_size`.
    pub links: u64,
    /// See [`crate::msg`].
    pub link_size: u64,
    /// Links of the coherence protocol, arranged like the message links. See [`crate::dsm`].
    pub dsm: u64,
    pub dsm_link_size: u64,
}

/// Values that the host chooses at each start of a board. In an exact lab run they are constant.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BootSecrets {
    /// Key of the seals of program images ([`crate::program::ImageHead`]). An image sealed with
    /// another key was not installed for this board and does not run.
    pub program_key: [u8; 32],
    /// Seed of the kernels' random numbers; each kernel mixes in its own index and epoch.
    pub seed: [u8; 32],
    /// Real time at soc time 0, in ns since 1970; the chip has no clock of its own for it.
    pub begun: u64,
}

/// Leaves the keys out: they must not reach a log.
impl core::fmt::Debug for BootSecrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BootSecrets").field("begun", &self.begun).finish_non_exhaustive()
    }
}

/// The board description: everything that a kernel knows about its board.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Blob {
    /// [`BLOB_MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Size of this structure in bytes.
    pub size: u32,
    /// FNV-1a over the blob, with this field zero.
    pub checksum: u64,
    /// NUL padded.
    pub name: [u8; 32],
    pub domain_count: u32,
    pub region_count: u32,
    pub device_count: u32,
    pub service_count: u32,
    pub soc_slot: u32,
    /// Number of doorbell vectors of each peer.
    pub vectors: u32,
    pub vector_msg: u32,
    pub vector_dsm: u32,
    /// Vector that signals a change of the chip page: a peer's state, or the answer to a request.
    pub vector_chip: u32,
    /// Set to 1 by the host; kernels do not read it.
    pub flags: u32,
    /// Command line of all kernels, NUL padded.
    pub arguments: [u8; MAX_ARGUMENTS],
    pub window: Window,
    pub domains: [Domain; MAX_DOMAINS],
    pub regions: [Region; MAX_REGIONS],
    pub devices: [Device; MAX_DEVICES],
    pub services: [Service; MAX_SERVICES],
    pub given: BootSecrets,
}

/// Header of a staged kernel image, at the start of its staging area. The image follows at
/// [`IMAGE_OFFSET`], then the symbol table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ImageHeader {
    /// [`IMAGE_MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// One of [`isa`].
    pub isa: u32,
    /// Physical address where the image must run.
    pub load_pa: u64,
    /// Bytes to copy, a multiple of 16.
    pub image_size: u64,
    /// Size in memory including bss, a multiple of 16 and at least `image_size`; the rest is
    /// zeroed.
    pub memory_size: u64,
    /// Size of the code, which starts the image; whole pages.
    pub code_size: u64,
    /// Size of the code and constants, which start the image and never change; whole pages.
    pub constant_size: u64,
    /// Physical entry point of a cold boot.
    pub entry_pa: u64,
    /// Physical address of the blob, passed to the kernel.
    pub blob_pa: u64,
    /// Offset of the symbol table ([`Symbol`]) from the header; 0: there is none.
    pub symbols: u64,
    pub symbol_count: u32,
    /// Size of the symbol names, which follow the symbols.
    pub names_size: u32,
    /// FNV-1a over the image.
    pub checksum: u64,
}

/// A function of the kernel image. The table is sorted by address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Symbol {
    /// Offset from the image's first byte.
    pub address: u32,
    /// Size in bytes.
    pub size: u32,
    /// Offset of its (mangled) name in the table of names.
    pub name: u32,
    pub name_size: u32,
}

/// Offset of the image from the header.
pub const IMAGE_OFFSET: u64 = 4096;

/// The boot parameters of the stub, at [`STUB_TABLE`]. Written by the soc only, before the domain
/// runs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct StubTable {
    /// [`BLOB_MAGIC`].
    pub magic: u64,
    /// Physical address of the domain's staged image.
    pub staging_pa: u64,
    /// Physical entry point of a warm boot; 0: this boot is cold.
    pub resume_pa: u64,
    pub domain: u64,
    /// Epoch of this boot; each cold boot increments it.
    pub epoch: u64,
}

/// Offset of the [`StubTable`] from the stub's load address.
pub const STUB_TABLE: u64 = 60 << 10;

/// Bit of [`Domain::flags`].
pub const HAS_MMU: u32 = 1;

const _: () = assert!(size_of::<Domain>() == 160 && size_of::<Region>() == 24);
const _: () = assert!(size_of::<Device>() == 56 && size_of::<Service>() == 24);
const _: () = assert!(size_of::<BootSecrets>() == 72);
const _: () = assert!(size_of::<ImageHeader>() == 96 && size_of::<Symbol>() == 16);
const _: () = assert!(size_of::<StubTable>() == 40);
const _: () = assert!(size_of::<Blob>().is_multiple_of(8) && size_of::<Blob>() <= 4096);

/// Reason why [`Blob::check`] rejected a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobError {
    /// There is no blob.
    Magic,
    /// Written by another version of the tools.
    Version,
    /// The checksum is wrong.
    Checksum,
    /// A count exceeds its array.
    Count,
    /// A number of cores, a doorbell vector or a device's home is out of range, or a kernel image
    /// does not lie in a local region.
    Reference,
    /// Regions overlap, are empty or start at an address that is not page-aligned.
    Regions,
}

/// 64-bit FNV-1a, continued from `hash`; start with [`FNV_START`].
pub const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}

pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the words of a kernels' command line, before the monitor script (`run=`).
pub fn options(arguments: &str) -> impl Iterator<Item = &str> {
    arguments.split("run=").next().unwrap_or_default().split_whitespace()
}

/// Returns the text before the first NUL, or "?" if it is not UTF-8.
pub fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

impl Blob {
    /// Checks version, checksum, counts, doorbell vectors, image ranges and regions. `sum` is
    /// [`fnv`] over the blob with `checksum` zero.
    pub fn check(&self, sum: u64) -> Result<(), BlobError> {
        if self.magic != BLOB_MAGIC {
            return Err(BlobError::Magic);
        }
        if self.version != VERSION || self.size as usize != size_of::<Blob>() {
            return Err(BlobError::Version);
        }
        if self.checksum != sum {
            return Err(BlobError::Checksum);
        }
        self.check_counts()?;
        self.check_references()?;
        self.check_regions()
    }

    fn check_counts(&self) -> Result<(), BlobError> {
        let bounded = (1..=MAX_DOMAINS).contains(&(self.domain_count as usize))
            && self.region_count as usize <= MAX_REGIONS
            && self.device_count as usize <= MAX_DEVICES
            && self.service_count as usize <= MAX_SERVICES;
        if bounded { Ok(()) } else { Err(BlobError::Count) }
    }

    fn check_references(&self) -> Result<(), BlobError> {
        let vectors = self.vector_msg.max(self.vector_dsm).max(self.vector_chip);
        let domains = self.domains().iter().all(|d| {
            (1..=MAX_CORES).contains(&(d.cores as usize))
                && self.local_region(d.image_pa, d.image_max).is_some()
        });
        let devices = self.devices().iter().all(|d| {
            d.home < self.domain_count && d.vector < self.vectors && d.kick < self.vectors
        });
        let is_good = vectors < self.vectors && domains && devices;
        is_good.then_some(()).ok_or(BlobError::Reference)
    }

    fn check_regions(&self) -> Result<(), BlobError> {
        let regions = self.regions();
        for (i, a) in regions.iter().enumerate() {
            let Some(end) = a.base.checked_add(a.size) else { return Err(BlobError::Regions) };
            let overlaps = |b: &Region| a.base < b.base + b.size && b.base < end;
            if a.size == 0 || !a.base.is_multiple_of(4096) || regions[..i].iter().any(overlaps) {
                return Err(BlobError::Regions);
            }
        }
        Ok(())
    }

    #[inline]
    pub fn domains(&self) -> &[Domain] {
        &self.domains[..self.domain_count as usize]
    }

    /// Returns the index of the link from one domain to another, where each pair has one.
    #[inline]
    pub fn link_index(&self, from: u8, to: u8) -> u64 {
        u64::from(from) * u64::from(self.domain_count) + u64::from(to)
    }

    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.region_count as usize]
    }

    pub fn devices(&self) -> &[Device] {
        &self.devices[..self.device_count as usize]
    }

    /// Returns the words on the kernels' command line, before the monitor script (`run=`).
    pub fn options(&self) -> impl Iterator<Item = &str> {
        options(text(&self.arguments))
    }

    /// Returns whether `word` is one of the [`options`](Self::options).
    pub fn has_argument(&self, word: &str) -> bool {
        self.options().any(|found| found == word)
    }

    /// Returns whether kernels continue in twins, and map each other's code and constants.
    pub fn has_twins(&self) -> bool {
        self.has_argument(TWINS)
    }

    pub fn services(&self) -> &[Service] {
        &self.services[..self.service_count as usize]
    }

    /// Returns the local region that contains all of `[base, base + size)`.
    pub fn local_region(&self, base: u64, size: u64) -> Option<&Region> {
        self.regions().iter().filter(|r| r.kind == kind::LOCAL).find(|r| {
            let rest = base.checked_sub(r.base).and_then(|at| r.size.checked_sub(at));
            rest.is_some_and(|rest| size <= rest)
        })
    }
}
