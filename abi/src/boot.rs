//! What a kernel is told at boot: the board blob, and the header of a staged kernel image.
//!
//! The blob is written once by the soc into the uncached window before any domain runs and is
//! read-only afterwards. A kernel copies it, calls [`Blob::check`], and believes nothing else about
//! the chip. The stub reads only [`StubTable`] and [`ImageHeader`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the kernels' command line, with the zero behind it.
pub const MAX_ARGUMENTS: usize = 512;
/// Most domains a board can have; arrays over domains have this length.
pub const MAX_DOMAINS: usize = 8;
/// Most cores of one domain.
pub const MAX_CORES: usize = 8;
/// Most memory regions of a board.
pub const MAX_REGIONS: usize = 32;
/// Most devices on the interconnect.
pub const MAX_DEVICES: usize = 16;
/// Most services with a mode.
pub const MAX_SERVICES: usize = 16;
/// Every 16 MiB block has one kind at a time.
pub const BLOCK: u64 = 16 << 20;
/// Kernel virtual address = physical address + this, in every domain.
pub const VA_OFFSET: u64 = 0xffff_8000_0000_0000;

/// Behind the mapping of a frame lies the one through which its cache lines are maintained while
/// it is mapped nowhere else: it exists for that moment, and is never read or written through.
pub const MAINTENANCE_OFFSET: u64 = 1 << 40;
/// No owner: a region, device or line that belongs to no single domain.
pub const NOBODY: u32 = u32::MAX;

/// `b"PENUMBRA"`, little endian.
pub const BLOB_MAGIC: u64 = u64::from_le_bytes(*b"PENUMBRA");
/// `b"PENKERNL"`, little endian.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"PENKERNL");
/// Changes with every change of a layout in this crate.
pub const VERSION: u32 = 5;

/// Instruction set of a domain.
pub mod isa {
    /// AArch64, EL1.
    pub const AARCH64: u32 = 1;
    /// RV64GC, S-mode.
    pub const RISCV64: u32 = 2;

    /// What people, and files of programs, call it.
    pub const fn name(isa: u32) -> &'static str {
        match isa {
            AARCH64 => "aarch64",
            _ => "riscv64",
        }
    }
}

/// Role of a domain's kernel.
pub mod role {
    /// Strong cores.
    pub const MAIN: u32 = 1;
    /// Weak cores.
    pub const SHADOW: u32 = 2;
    /// Tiny cores without an MMU.
    pub const PROXY: u32 = 3;
}

/// Kind of a memory region.
pub mod kind {
    /// Never mapped by a kernel: stubs, device trees, what an emulator writes at reset.
    pub const RESERVED: u32 = 0;
    /// Staged kernel images: read by stubs only.
    pub const STAGING: u32 = 1;
    /// The uncached window: mailboxes, hardware spinlocks, rings, descriptors.
    pub const UNCACHED: u32 = 2;
    /// Cacheable in the one domain that owns it.
    pub const LOCAL: u32 = 3;
    /// The global region: 16 MiB blocks whose kind changes at run time.
    pub const GLOBAL: u32 = 4;
}

/// How a service is shared.
pub mod mode {
    /// Each kernel its own, unrelated.
    pub const PRIVATE: u32 = 1;
    /// Each kernel its own, rarely coordinated.
    pub const INDEPENDENT: u32 = 2;
    /// One state in coherent memory, executed where it is asked.
    pub const SHADOWED: u32 = 3;
    /// One state cut by key over kernels.
    pub const PARTITIONED: u32 = 4;
    /// One owner, asked by message.
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
    /// The DMA engine ([`crate::dma`]): each domain drives its own channels.
    pub const DMA: u32 = 4;
    /// virtio vsock: streams to the host ([`crate::host`]).
    pub const VSOCK: u32 = 5;
}

/// One coherence domain and the kernel on it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Domain {
    /// Name in the board file, NUL padded.
    pub name: [u8; 16],
    /// One of [`isa`].
    pub isa: u32,
    /// One of [`role`].
    pub role: u32,
    /// Slot on the doorbell fabric; the soc has [`Blob::soc_slot`].
    pub slot: u32,
    /// Number of cores.
    pub cores: u32,
    /// Bit 0: has an MMU.
    pub flags: u32,
    /// Nominal frequency; 0 when unknown.
    pub khz: u32,
    /// First physical address of RAM that this domain reaches.
    pub ram_base: u64,
    /// Bytes of RAM that it reaches.
    pub ram_size: u64,
    /// Where its kernel image runs (inside a local region of its own).
    pub image_pa: u64,
    /// Most bytes the image and its bss may take.
    pub image_max: u64,
    /// Where its kernel image is staged.
    pub staging_pa: u64,
    /// Bytes of the staging area.
    pub staging_size: u64,
}

/// A range of physical memory with one meaning.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Region {
    /// First byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// One of [`kind`].
    pub kind: u32,
    /// Domain index, or [`NOBODY`].
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
    /// Domain that drives it at boot.
    pub home: u32,
    /// Doorbell vector at every domain (interrupts are wired to all of them).
    pub vector: u32,
    /// Doorbell vector at the soc that means "look at this device".
    pub kick: u32,
    /// Its register block, 4 KiB: [`crate::soc::DeviceRegisters`] or [`crate::dma::Registers`].
    pub registers: u64,
    /// Memory for its queues and buffers, inside the uncached window.
    pub memory: u64,
    /// Bytes of that memory.
    pub memory_size: u64,
}

/// A service and the mode the board chose for it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Service {
    /// Name, NUL padded.
    pub name: [u8; 16],
    /// One of [`mode`].
    pub mode: u32,
    /// Owner for delegated services, else [`NOBODY`].
    pub home: u32,
}

/// Where things are in the uncached window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Window {
    /// First byte of the window.
    pub base: u64,
    /// Bytes of the window.
    pub size: u64,
    /// [`crate::soc::ChipPage`], written by the soc only.
    pub chip: u64,
    /// [`MAX_DOMAINS`] x [`crate::soc::DomainPage`], each written by its domain only.
    pub domains: u64,
    /// [`crate::soc::SPINLOCKS`] hardware spinlocks, one a cache line.
    pub spinlocks: u64,
    /// [`MAX_DOMAINS`] x [`crate::memory::BlockPage`], each written by its domain only.
    pub blocks: u64,
    /// Message links: directed pair (from, to) at `links + (from * domains + to) * link_size`.
    pub links: u64,
    /// Bytes of one link, see [`crate::msg`].
    pub link_size: u64,
    /// Links of the coherence protocol, as the message links: see [`crate::dsm`].
    pub dsm: u64,
    /// Bytes of one of these.
    pub dsm_link_size: u64,
}

/// What the host gives a board at its start, new each time; in a lab that is exact, always the
/// same.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Given {
    /// Images of programs are sealed with it ([`crate::program::ImageHead`]): what has another
    /// seal was not installed for this board, and does not run.
    pub program_key: [u8; 32],
    /// For the kernels' random numbers, each of which mixes in its own index and epoch.
    pub seed: [u8; 32],
    /// Real time at soc time 0, in ns since 1970: clocks of a chip that has no other.
    pub begun: u64,
}

/// Keys are for nobody's log.
impl core::fmt::Debug for Given {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Given").field("begun", &self.begun).finish_non_exhaustive()
    }
}

/// Everything a kernel knows about its board.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Blob {
    /// [`BLOB_MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Size of this structure.
    pub size: u32,
    /// FNV-1a over the blob with this field zero.
    pub checksum: u64,
    /// Board name, NUL padded.
    pub name: [u8; 32],
    /// Domains in use.
    pub domain_count: u32,
    /// Regions in use.
    pub region_count: u32,
    /// Devices in use.
    pub device_count: u32,
    /// Services in use.
    pub service_count: u32,
    /// The soc's slot on the doorbell fabric.
    pub soc_slot: u32,
    /// Doorbell vectors of every peer.
    pub vectors: u32,
    /// Vector for messages.
    pub vector_msg: u32,
    /// Vector for the DSM.
    pub vector_dsm: u32,
    /// Vector for changes of the chip page (a peer's state, an answer to a request).
    pub vector_chip: u32,
    /// Bit 0: boot to the monitor. Bit 1: run the self-test named on the command line.
    pub flags: u32,
    /// Command line of the kernels, NUL padded.
    pub arguments: [u8; MAX_ARGUMENTS],
    /// Layout of the uncached window.
    pub window: Window,
    /// Domains.
    pub domains: [Domain; MAX_DOMAINS],
    /// Memory.
    pub regions: [Region; MAX_REGIONS],
    /// Devices.
    pub devices: [Device; MAX_DEVICES],
    /// Services.
    pub services: [Service; MAX_SERVICES],
    /// What this start of the board was given.
    pub given: Given,
}

/// Head of a staged kernel image, at the first byte of its staging area.
/// The image bytes follow at [`IMAGE_OFFSET`], the symbol table behind them.
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
    /// Bytes to copy; a multiple of 16.
    pub image_size: u64,
    /// Bytes in memory, bss included (`>= image_size`, a multiple of 16); the rest is zeroed.
    pub memory_size: u64,
    /// Bytes of code, from the first byte on; whole pages.
    pub code_size: u64,
    /// Bytes that never change, code and constants, from the first byte on; whole pages.
    pub constant_size: u64,
    /// Physical entry point of a cold boot.
    pub entry_pa: u64,
    /// Physical address of the blob, handed to the kernel.
    pub blob_pa: u64,
    /// Offset of the symbol table from the header, 0 for none. See [`Symbol`].
    pub symbols: u64,
    /// Number of symbols.
    pub symbol_count: u32,
    /// Bytes of their names, directly behind the symbols.
    pub names_size: u32,
    /// FNV-1a over the image bytes.
    pub checksum: u64,
}

/// A function of the kernel image, sorted by address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Symbol {
    /// Offset from the image's first byte.
    pub address: u32,
    /// Bytes.
    pub size: u32,
    /// Offset of its (mangled) name in the names.
    pub name: u32,
    /// Bytes of its name.
    pub name_size: u32,
}

/// Offset of the image bytes from the header.
pub const IMAGE_OFFSET: u64 = 4096;

/// What a stub reads: a page at a fixed place, the first page of the stub's reserved area + 60 KiB.
/// Written by the soc only, before the domain runs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct StubTable {
    /// [`BLOB_MAGIC`].
    pub magic: u64,
    /// Physical address of the domain's staged image.
    pub staging_pa: u64,
    /// Physical entry point of a warm boot, 0 for a cold one.
    pub resume_pa: u64,
    /// Index of this domain.
    pub domain: u64,
    /// Epoch of this boot (cold boots count it up).
    pub epoch: u64,
}

/// Offset of the [`StubTable`] from the stub's load address.
pub const STUB_TABLE: u64 = 60 << 10;

/// Bits of [`Domain::flags`].
pub const HAS_MMU: u32 = 1;

const _: () = assert!(size_of::<Domain>() == 88 && size_of::<Region>() == 24);
const _: () = assert!(size_of::<Device>() == 56 && size_of::<Service>() == 24);
const _: () = assert!(size_of::<Given>() == 72);
const _: () = assert!(size_of::<ImageHeader>() == 96 && size_of::<Symbol>() == 16);
const _: () = assert!(size_of::<StubTable>() == 40);
const _: () = assert!(size_of::<Blob>().is_multiple_of(8) && size_of::<Blob>() <= 4096);

/// Why a blob was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobError {
    /// No blob there at all.
    Magic,
    /// Made by another version of the tools.
    Version,
    /// Damaged.
    Checksum,
    /// A count beyond its array.
    Count,
    /// A domain, region or device names something that does not exist.
    Reference,
    /// Regions overlap or are not placed as the layout demands.
    Regions,
}

/// FNV-1a, 64 bit, continued from `hash` (start with [`FNV_START`]).
pub const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}

/// Start value of [`fnv`].
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The text before the first NUL; "?" where it is not UTF-8.
pub fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

impl Blob {
    /// Checks what a kernel relies on. `sum` is [`fnv`] over the blob's bytes with `checksum` zero.
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
        if vectors < self.vectors && domains && devices {
            Ok(())
        } else {
            Err(BlobError::Reference)
        }
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

    /// Domains in use.
    pub fn domains(&self) -> &[Domain] {
        &self.domains[..self.domain_count as usize]
    }

    /// Regions in use.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.region_count as usize]
    }

    /// Devices in use.
    pub fn devices(&self) -> &[Device] {
        &self.devices[..self.device_count as usize]
    }

    /// Is `word` on the kernels' command line, in front of its script (`run=`)?
    pub fn says(&self, word: &str) -> bool {
        let arguments = text(&self.arguments);
        let before = arguments.split_once("run=").map_or(arguments, |(before, _)| before);
        before.split_whitespace().any(|found| found == word)
    }

    /// May kernels call each other's functions, and go on in their own of the same name
    /// (docs/design/shadowable.md)? Then they see each other's code and constants.
    pub fn has_twins(&self) -> bool {
        self.says("twins=on")
    }

    /// Services in use.
    pub fn services(&self) -> &[Service] {
        &self.services[..self.service_count as usize]
    }

    /// The local region that holds `[base, base + size)`, if one does.
    pub fn local_region(&self, base: u64, size: u64) -> Option<&Region> {
        self.regions().iter().find(|r| {
            r.kind == kind::LOCAL
                && base >= r.base
                && base - r.base <= r.size
                && size <= r.size - (base - r.base)
        })
    }
}
