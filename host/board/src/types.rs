//! A board that was checked. Fields are public to read; only [`crate::read`] makes one.

use crate::block::Block;
use crate::window::Layout;
use serde::Deserialize;

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
    /// Name in board files and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv64",
        }
    }

    /// One of [`abi::boot::isa`].
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
}

impl DeviceKind {
    /// Name in board files.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Console => "console",
            DeviceKind::Block => "block",
            DeviceKind::Rng => "rng",
            DeviceKind::Dma => "dma",
            DeviceKind::Vsock => "vsock",
        }
    }
}

/// How a service is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each kernel its own, unrelated.
    Private,
    /// Each kernel its own, rarely coordinated.
    Independent,
    /// One state in coherent memory.
    Shadowed,
    /// One state cut by key.
    Partitioned,
    /// One owner.
    Delegated,
}

impl Mode {
    /// Name in board files.
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
    /// The board goes down.
    #[default]
    Never,
    /// It is booted again under a new epoch.
    Always,
}

/// A cost of the timing model, with where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// One of [`Costs::NAMES`].
    pub name: String,
    /// In the unit that the name ends with.
    pub value: f64,
    /// Paper, measurement or estimate.
    pub source: String,
}

/// Costs of a domain's cores; what is not listed costs nothing beyond its instructions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs(pub Vec<Cost>);

/// Power of a core at one frequency and voltage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Frequency.
    pub mhz: u32,
    /// Voltage in mV; 0 where it is not published.
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
    /// Where the figures come from.
    pub source: String,
    /// What one figure covers ("core", "domain") and what was assumed.
    pub rail: String,
    /// Domains of one cluster share its voltage: the highest that any of them needs.
    pub cluster: Option<String>,
    /// Stopped, state kept.
    pub inactive_mw: f64,
    /// Off.
    pub off_mw: f64,
    /// One a frequency and voltage.
    pub points: Vec<Point>,
}

/// A coherence domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Its name; also of its log and of its image.
    pub name: String,
    /// Instruction set.
    pub isa: Isa,
    /// Role of its kernel.
    pub role: Role,
    /// Cores.
    pub cores: u32,
    /// QEMU's name of the core model, with options.
    pub cpu: String,
    /// The RAM that it reaches.
    pub ram: Block,
    /// Where QEMU loads the stub.
    pub stub: u64,
    /// Where its image runs: the start of its local region.
    pub image: Block,
    /// Where its image is staged.
    pub staging: Block,
    /// What happens when it dies.
    pub restart: Restart,
    /// Frequencies that it can run at.
    pub frequencies_mhz: Vec<u32>,
    /// Frequency at boot; 0 when unknown.
    pub nominal_mhz: u32,
    /// Timing model.
    pub costs: Costs,
    /// Power table.
    pub power: Option<Power>,
    /// Slot on the doorbell fabric.
    pub slot: u32,
}

/// Memory with one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Meaning.
    pub kind: Kind,
    /// Where.
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
    /// Bytes of a new disk image; 0 for other kinds.
    pub disk: u64,
    /// What the DMA engine is like.
    pub dma: Option<Dma>,
}

/// A whole number with where it comes from.
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
    /// Channels, dealt to the domains in turn, the first one to its home.
    pub channels: Figure,
    /// MB (10^6 bytes) a second, all channels together.
    pub bandwidth_mbps: Figure,
    /// ns from the start of a transfer to its first byte.
    pub setup_ns: Figure,
}

/// A service's mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How it is shared.
    pub mode: Mode,
    /// Index of the owner of a delegated service.
    pub home: Option<usize>,
}

/// The doorbell fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// Vectors of every peer.
    pub vectors: u32,
    /// Vector for messages.
    pub message: u32,
    /// Vector for the DSM.
    pub dsm: u32,
    /// Vector for the chip page; at the soc: "look at the domain pages".
    pub chip: u32,
}

/// A chip.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// Command line of the kernels.
    pub arguments: String,
    /// The RAM file: its first byte is `ram.base`.
    pub ram: Block,
    /// Doorbells.
    pub fabric: Fabric,
    /// Domains, in slot order.
    pub domains: Vec<Domain>,
    /// Memory, by address.
    pub regions: Vec<Region>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Services.
    pub services: Vec<Service>,
    /// Places in the uncached window.
    pub layout: Layout,
}

impl Board {
    /// The soc's slot on the doorbell fabric.
    pub const SOC_SLOT: u32 = 0;

    /// The domain with the role main.
    pub fn main(&self) -> &Domain {
        self.domains
            .iter()
            .find(|d| d.role == Role::Main)
            .expect("check::board refuses a board without a main domain")
    }

    /// Offset of a physical address in the RAM file.
    pub fn offset(&self, pa: u64) -> u64 {
        pa - self.ram.base
    }
}
