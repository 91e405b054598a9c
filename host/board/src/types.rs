//! A checked board. Only [`crate::read`] creates one; its fields are public for reading.

use crate::block::Block;
use crate::window::Layout;
use abi::boot::device;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Instruction set of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isa {
    /// AArch64, EL1.
    Aarch64,
    /// RV64GC, S-mode.
    Riscv64,
}

impl Isa {
    /// Returns the name in board files and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv64",
        }
    }

    /// Returns one of [`abi::boot::isa`].
    pub const fn number(self) -> u32 {
        match self {
            Isa::Aarch64 => abi::boot::isa::AARCH64,
            Isa::Riscv64 => abi::boot::isa::RISCV64,
        }
    }
}

/// Role of a domain's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Strong cores; exactly one domain.
    Main,
    /// Weak cores.
    Shadow,
    /// Tiny cores without an MMU.
    Proxy,
}

/// Kind of a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Never mapped by a kernel.
    Reserved,
    /// The staged image of its owner.
    Staging,
    /// The uncached window.
    Uncached,
    /// Cacheable in its owner only.
    Local,
    /// 16 MiB blocks whose kind changes at run time.
    Global,
    /// What its owner lends to the other kernels for reading.
    Bulk,
    /// A disk in memory ([`Board::set_disk_aside`]).
    #[serde(skip)]
    Disk,
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// virtio console.
    Console,
    /// virtio block.
    Block,
    /// virtio entropy.
    Rng,
    /// The DMA engine.
    Dma,
    /// virtio vsock: streams to the host.
    Vsock,
    /// virtio net: Ethernet.
    Net,
}

impl DeviceKind {
    /// Returns the name in board files.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Console => "console",
            DeviceKind::Block => "block",
            DeviceKind::Rng => "rng",
            DeviceKind::Dma => "dma",
            DeviceKind::Vsock => "vsock",
            DeviceKind::Net => "net",
        }
    }

    /// Returns its number in the blob.
    pub const fn code(self) -> u32 {
        match self {
            DeviceKind::Console => device::CONSOLE,
            DeviceKind::Block => device::BLOCK,
            DeviceKind::Rng => device::RNG,
            DeviceKind::Dma => device::DMA,
            DeviceKind::Vsock => device::VSOCK,
            DeviceKind::Net => device::NET,
        }
    }
}

/// How a service is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each kernel has its own, unrelated.
    Private,
    /// Each kernel has its own, rarely coordinated.
    Independent,
    /// One state in coherent memory.
    Shadowed,
    /// One state, divided by key.
    Partitioned,
    /// One state, in its owner.
    Delegated,
}

impl Mode {
    /// Returns the name in board files.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Private => "private",
            Mode::Independent => "independent",
            Mode::Shadowed => "shadowed",
            Mode::Partitioned => "partitioned",
            Mode::Delegated => "delegated",
        }
    }
}

/// What the soc does when a domain dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// The board shuts down.
    #[default]
    Never,
    /// It is booted again under a new epoch.
    Always,
}

/// When a domain's kernel starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// With the board.
    #[default]
    AtOnce,
    /// When another kernel needs it: for a program that requires its platform, or at a call.
    OnDemand,
}

/// A cost of the timing model, with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// One of [`Costs::NAMES`].
    pub name: String,
    /// In the unit of its name.
    pub value: f64,
    /// Paper, measurement or estimate.
    pub source: String,
}

/// Costs of a domain's cores. Operations that are not listed cost no more than their instructions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs(pub Vec<Cost>);

/// Power of a core at one frequency and voltage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Frequency.
    pub mhz: u32,
    /// Voltage in mV; 0 if it is not published.
    pub mv: u32,
    /// Executing.
    pub active_mw: f64,
    /// In WFI with its clock running.
    pub idle_mw: f64,
    /// In WFI with its clock gated.
    pub gated_mw: f64,
}

/// Power table of a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    /// Source of the figures.
    pub source: String,
    /// The scope of a figure ("core", "domain"), and assumptions.
    pub rail: String,
    /// Name of its cluster, whose domains share the highest voltage that any of them needs.
    pub cluster: Option<String>,
    /// Stopped, state kept.
    pub inactive_mw: f64,
    /// Off.
    pub off_mw: f64,
    /// One per frequency and voltage.
    pub points: Vec<Point>,
}

/// A coherence domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Name of the domain, its log and its image.
    pub name: String,
    /// Instruction set.
    pub isa: Isa,
    /// Role of its kernel.
    pub role: Role,
    /// Number of cores.
    pub cores: u32,
    /// QEMU's name of the core model, with options.
    pub cpu: String,
    /// The RAM that it can access.
    pub ram: Block,
    /// Physical address where QEMU loads the stub.
    pub stub: u64,
    /// Memory of its image: the start of its local region.
    pub image: Block,
    /// Staging area of its image.
    pub staging: Block,
    /// Reaction to its death.
    pub restart: Restart,
    /// When its kernel starts.
    pub start: Start,
    /// Time without work after which it rests; `None`: never.
    pub rest_after_ms: Option<u32>,
    /// Supported frequencies.
    pub frequencies_mhz: Vec<u32>,
    /// Frequency at boot; 0 if unknown.
    pub nominal_mhz: u32,
    /// Timing model.
    pub costs: Costs,
    /// Power table.
    pub power: Option<Power>,
    /// Slot on the doorbell fabric.
    pub slot: u32,
}

/// A region of memory of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its kind.
    pub kind: Kind,
    /// Its range.
    pub block: Block,
    /// Index of the owning domain.
    pub owner: Option<usize>,
}

/// A device on the interconnect.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Index of the domain that drives it at boot.
    pub home: usize,
    /// Doorbell vector at every domain.
    pub vector: u32,
    /// Doorbell vector at the soc.
    pub kick: u32,
    /// Its register block.
    pub registers: u64,
    /// Its queues and buffers.
    pub memory: Block,
    /// Size of a new disk image in bytes; 0 for other kinds.
    pub disk: u64,
    /// Settings of a DMA engine.
    pub dma: Option<Dma>,
    /// Addresses of a network device.
    pub net: Option<Net>,
}

/// The addresses of a network device, and of the network that it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    /// Ethernet address of the chip.
    pub mac: [u8; 6],
    /// The chip's IPv4.
    pub v4: Network<Ipv4Addr>,
    /// The chip's IPv6.
    pub v6: Network<Ipv6Addr>,
}

/// The chip's place in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network<A> {
    /// Address of the chip.
    pub address: A,
    /// Length of the network's prefix in bits.
    pub prefix: u8,
    /// The next hop to other networks.
    pub gateway: A,
    /// The server of names.
    pub names: A,
}

/// A whole number with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// In the unit of its key.
    pub value: u64,
    /// Paper, measurement or estimate.
    pub source: String,
}

/// A DMA engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Number of channels, assigned to the domains in turn, the first one to its home.
    pub channels: Figure,
    /// Total bandwidth of all channels in MB/s (10^6 bytes).
    pub bandwidth_mbps: Figure,
    /// Parts of the bandwidth for a channel of the home, for one part of another one.
    pub home_weight: Figure,
    /// How long transfers of other domains wait while the home makes small ones, in µs.
    pub home_first_us: Figure,
    /// Time from the start of a transfer to its first byte, in ns.
    pub setup_ns: Figure,
}

/// A service's mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How it is shared.
    pub mode: Mode,
    /// Index of the domain that executes all requests: always of a delegated service, at first of
    /// a shadowed one.
    pub home: Option<usize>,
}

/// The doorbell fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// Number of vectors of every peer.
    pub vectors: u32,
    /// Vector for messages.
    pub message: u32,
    /// Vector for the DSM.
    pub dsm: u32,
    /// Vector for the chip page; at the soc: a request in a domain page.
    pub chip: u32,
}

/// A board.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// A description of one line.
    pub description: String,
    /// Command line of the kernels.
    pub arguments: String,
    /// The RAM file: its first byte is `ram.base`.
    pub ram: Block,
    /// The doorbell fabric.
    pub fabric: Fabric,
    /// Domains, in slot order.
    pub domains: Vec<Domain>,
    /// Memory regions, by address.
    pub regions: Vec<Region>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Services.
    pub services: Vec<Service>,
    /// Layout of the uncached window.
    pub layout: Layout,
}

impl Board {
    /// The soc's slot on the doorbell fabric.
    pub const SOC_SLOT: u32 = 0;

    /// Returns the domain with the role main.
    pub fn main(&self) -> &Domain {
        self.domains
            .iter()
            .find(|d| d.role == Role::Main)
            .expect("check::board refuses a board without a main domain")
    }

    /// Returns the offset of a physical address in the RAM file.
    pub fn offset(&self, pa: u64) -> u64 {
        pa - self.ram.base
    }
}
