//! `RUNDIR/soc.toml`: the configuration of this process, written by `pen up`.
//!
//! The types are plain serde data, so `pen` fills a [`Config`] and writes `toml::to_string`.
//! Relative paths are relative to the run folder. What kernels receive (the uncached window, the
//! vector of the chip page) is not repeated here: it is read from the blob.

use abi::dma::{
    MAX_BANDWIDTH_MBPS, MAX_CHANNELS, MAX_HOME_FIRST_NS, MAX_SETUP_NS, MAX_WEIGHT, MIN_CHANNELS,
    RING_BYTES,
};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// The configuration of a board.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Slot of the soc on the doorbell fabric; slots are `0..domains.len() + 1`, each used once.
    pub soc_slot: u16,
    /// Doorbell vectors of every peer: the `vectors=` of each `ivshmem-doorbell`. At most
    /// [`MAX_VECTORS`].
    pub vectors: u16,
    /// File with the raw bytes of [`abi::boot::Blob`].
    pub blob: PathBuf,
    /// Physical address of the blob.
    pub blob_pa: u64,
    /// Size of the shared page of every doorbell device (its BAR2) in bytes; a power of two.
    #[serde(default = "default_bar2")]
    pub bar2_size: u64,
    /// Maximum deaths of a domain; after that it stays dead.
    #[serde(default = "default_max_deaths")]
    pub max_deaths: u64,
    /// A boot that takes longer is reported, in ms.
    #[serde(default = "default_boot_patience_ms")]
    pub boot_patience_ms: u64,
    /// A domain that others wait for, and that executes for so long without progress, hangs; in ms.
    /// 0: hangs are not looked for.
    #[serde(default)]
    pub hang_ms: u64,
    /// Time is the lab's; `lab.json` is next to this file.
    #[serde(default)]
    pub lab: bool,
    /// The coherence sanitizer is active; `lab.json` is next to this file.
    #[serde(default)]
    pub watched: bool,
    /// The run must be reproducible bit by bit.
    #[serde(default)]
    pub exact: bool,
    /// The board ends at the end of standard input, and so with the process that started it.
    #[serde(default)]
    pub tied: bool,
    /// The RAM file.
    pub ram: Ram,
    /// Domains; the index is the domain's index in the blob.
    pub domains: Vec<Domain>,
    /// Devices on the interconnect.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// The process that is the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Gateway>,
}

/// A process that connects to the network device. It is started again when it ends, and ends with
/// the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Complete argv, program first. Its working directory is the run folder.
    pub command: Vec<String>,
    /// Its stdout and stderr are appended here.
    pub log: PathBuf,
}

/// Maximum doorbell vectors of a peer.
pub const MAX_VECTORS: u16 = 64;

/// The RAM file that all domains map. Created at every start of the soc, all zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ram {
    /// Created sparse; the same path is in each QEMU's `memory-backend-file`.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Physical address of the file's first byte.
    pub base_pa: u64,
}

/// Power of a domain when the board starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Boots with the board.
    #[default]
    On,
    /// Off until another kernel or a client wakes it.
    Off,
}

/// One domain and the QEMU that plays it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Name in the board file.
    pub name: String,
    /// Its slot on the doorbell fabric.
    pub slot: u16,
    /// Unix socket on which the soc serves its doorbell device
    /// (`-chardev socket,id=iv,path=SLOT_SOCKET -device ivshmem-doorbell,chardev=iv,vectors=N`).
    pub slot_socket: PathBuf,
    /// QEMU's QMP socket (`-qmp unix:QMP,server=on,wait=off`).
    pub qmp: PathBuf,
    /// Complete argv of the QEMU, program first. Its working directory is the run folder.
    /// Without `-S`, `-daemonize` and `-no-reboot`.
    pub command: Vec<String>,
    /// QEMU's stdout and stderr are appended here.
    pub log: PathBuf,
    /// Physical address of its [`abi::boot::StubTable`].
    pub stub_table_pa: u64,
    /// Staged image, [`abi::boot::ImageHeader`] first: copied to `staging_pa` before a cold boot.
    /// May be absent for a domain that brings its own program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// Physical address of the staging area.
    pub staging_pa: u64,
    /// Size of the staging area in bytes; 0: up to the end of RAM.
    #[serde(default)]
    pub staging_size: u64,
    /// Whether it is booted again when it dies.
    #[serde(default = "default_true")]
    pub restart: bool,
    /// Whether its death ends the board with an error (`restart = "never"`).
    #[serde(default)]
    pub essential: bool,
    /// Power state at the start of the board.
    #[serde(default)]
    pub start: Start,
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// The system console: a unix socket for any number of clients, and a log.
    #[default]
    Console,
    /// A disk: an image file.
    Block,
    /// Random bytes of the host.
    Rng,
    /// The DMA engine; not virtio.
    Dma,
    /// Streams between clients of a unix socket and a kernel.
    Vsock,
    /// Ethernet frames between a unix socket and a kernel.
    Net,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Name in the board file.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Doorbell vector of its interrupt at every domain.
    pub vector: u16,
    /// Doorbell vector at the soc that makes it look at this device; not 0, and unique.
    pub kick: u16,
    /// Physical address of its [`abi::soc::DeviceRegisters`] or [`abi::dma::Registers`].
    pub registers: u64,
    /// Block: the image file. Console, vsock: the unix socket (default `console.sock`,
    /// `vsock.sock`). Others: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Console: its output is appended here (default `console.log`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// Block: refuse writes.
    #[serde(default)]
    pub read_only: bool,
    /// Block: the image is copied to this physical address at the start, for a disk in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u64>,
    /// Dma: its specific settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dma: Option<Dma>,
    /// Net: its specific settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<Net>,
}

/// Settings of a DMA engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dma {
    /// Number of channels, assigned to the domains in turn.
    pub channels: u16,
    /// Index of the domain that gets the first channel.
    pub home: u16,
    /// Physical address of the first channel's ring.
    pub rings: u64,
    /// Time from the start of a transfer to its first byte, in ns.
    pub setup_ns: u64,
    /// Bandwidth in MB/s (10^6 bytes).
    pub bandwidth_mbps: u64,
    /// Weight of the home's channels; that of others is 1.
    pub home_weight: u64,
    /// How long transfers of others wait while the home makes small ones, in ns.
    pub home_first_ns: u64,
}

/// Settings of a network device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Net {
    /// Where the network is attached. Absent: nowhere, so the chip is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Frames are copied to this file as they pass, in the format pcap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcap: Option<PathBuf>,
    /// Ethernet address of the chip.
    pub mac: [u8; 6],
    /// The chip's IPv4.
    pub v4: Network<Ipv4Addr>,
    /// The chip's IPv6.
    pub v6: Network<Ipv6Addr>,
}

/// The chip's place in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// A unix stream socket with frames, each after its length in four bytes, big endian: the protocol
/// of QEMU's `-netdev stream` and of passt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// The device listens; one network at a time is attached.
    Listen(PathBuf),
    /// The device connects, again and again.
    Connect(PathBuf),
    /// In the lab: a peer in the soc, which does what a script says and writes what it saw.
    Script { script: PathBuf, answers: PathBuf },
}

/// The vector at the soc that signals a request of a domain.
pub const REQUEST_KICK: u16 = 0;

fn default_bar2() -> u64 {
    4096
}

fn default_max_deaths() -> u64 {
    1000
}

fn default_boot_patience_ms() -> u64 {
    60_000
}

fn default_true() -> bool {
    true
}

/// Why a configuration was rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// It cannot be parsed.
    #[error("{0} is not a soc.toml: {1}")]
    Parse(PathBuf, Box<toml::de::Error>),
    /// It is inconsistent.
    #[error("soc.toml: {0}")]
    Wrong(String),
}

fn wrong<T>(sentence: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Wrong(sentence.into()))
}

impl Config {
    /// Reads and checks `folder/soc.toml`. Paths in the result include `folder`.
    pub fn read(folder: &Path) -> Result<Config, ConfigError> {
        let path = folder.join("soc.toml");
        let text =
            std::fs::read_to_string(&path).map_err(|e| ConfigError::Read(path.clone(), e))?;
        let mut config: Config =
            toml::from_str(&text).map_err(|e| ConfigError::Parse(path, Box::new(e)))?;
        config.check()?;
        config.join(folder);
        Ok(config)
    }

    fn join(&mut self, folder: &Path) {
        let join = |path: &mut PathBuf| *path = folder.join(&*path);
        if let Some(gateway) = &mut self.gateway {
            join(&mut gateway.log);
        }
        join(&mut self.blob);
        join(&mut self.ram.path);
        for domain in &mut self.domains {
            join(&mut domain.slot_socket);
            join(&mut domain.qmp);
            join(&mut domain.log);
            domain.image.as_mut().map(join);
        }
        for device in &mut self.devices {
            device.path.as_mut().map(join);
            device.log.as_mut().map(join);
            let Some(net) = &mut device.net else { continue };
            net.pcap.as_mut().map(join);
            match &mut net.link {
                Some(Link::Listen(path) | Link::Connect(path)) => join(path),
                Some(Link::Script { script, answers }) => {
                    join(script);
                    join(answers);
                }
                None => {}
            }
        }
    }

    /// Checks the properties that the soc relies on.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.domains.is_empty() || self.domains.len() > abi::boot::MAX_DOMAINS {
            return wrong(format!("between 1 and {} domains", abi::boot::MAX_DOMAINS));
        }
        if self.vectors == 0 || self.vectors > MAX_VECTORS {
            return wrong(format!("between 1 and {MAX_VECTORS} vectors"));
        }
        if !self.bar2_size.is_power_of_two() || self.bar2_size < 4096 {
            return wrong("bar2_size must be a power of two and at least 4096");
        }
        if self.ram.size == 0 || !self.ram.size.is_multiple_of(4096) {
            return wrong("ram.size must be a multiple of 4096");
        }
        if self.ram.base_pa.checked_add(self.ram.size).is_none() {
            return wrong("ram ends beyond the last address");
        }
        self.check_slots()?;
        self.domains.iter().try_for_each(|domain| self.check_domain(domain))?;
        if self.gateway.as_ref().is_some_and(|gateway| gateway.command.is_empty()) {
            return wrong("the gateway has no command");
        }
        self.check_devices()
    }

    fn check_slots(&self) -> Result<(), ConfigError> {
        let mut slots: Vec<u16> = self.domains.iter().map(|d| d.slot).collect();
        slots.push(self.soc_slot);
        slots.sort_unstable();
        if slots.iter().enumerate().any(|(i, &slot)| i != usize::from(slot)) {
            return wrong("slots must be 0, 1, 2 .. without gaps, the soc's included");
        }
        Ok(())
    }

    fn check_domain(&self, domain: &Domain) -> Result<(), ConfigError> {
        if domain.command.is_empty() {
            return wrong(format!("domain {} has no command", domain.name));
        }
        if !self.in_ram(domain.stub_table_pa, size_of::<abi::boot::StubTable>() as u64) {
            return wrong(format!(
                "the stub table of {} is not aligned, or not in RAM",
                domain.name
            ));
        }
        if !self.in_ram(domain.staging_pa, domain.staging_size) {
            return wrong(format!("the staging area of {} is not in RAM", domain.name));
        }
        Ok(())
    }

    fn check_devices(&self) -> Result<(), ConfigError> {
        if self.devices.len() > abi::boot::MAX_DEVICES {
            return wrong(format!("at most {} devices", abi::boot::MAX_DEVICES));
        }
        for (i, device) in self.devices.iter().enumerate() {
            let name = &device.name;
            if device.kick == REQUEST_KICK
                || device.kick >= self.vectors
                || device.vector >= self.vectors
                || self.devices[..i].iter().any(|other| other.kick == device.kick)
            {
                return wrong(format!("device {name}: its vector or kick is taken or too large"));
            }
            if !self.in_ram(device.registers, size_of::<abi::soc::DeviceRegisters>() as u64) {
                return wrong(format!("the registers of {name} are not aligned, or not in RAM"));
            }
            if device.kind == DeviceKind::Block && device.path.is_none() {
                return wrong(format!("device {name} needs a path"));
            }
            if (device.kind == DeviceKind::Dma) != device.dma.is_some() {
                return wrong(format!(
                    "device {name}: a DMA engine needs a table `dma`, other devices have none"
                ));
            }
            if (device.kind == DeviceKind::Net) != device.net.is_some() {
                return wrong(format!(
                    "device {name}: a network device needs a table `net`, other devices have none"
                ));
            }
            match device.net.as_ref().and_then(|net| net.link.as_ref()) {
                Some(Link::Script { .. }) if !self.lab => {
                    return wrong(format!("device {name}: a scripted peer needs the lab's time"));
                }
                Some(Link::Listen(_) | Link::Connect(_)) if self.exact => {
                    return wrong(format!("device {name}: an exact run cannot have a network"));
                }
                _ => {}
            }
            device.dma.as_ref().map_or(Ok(()), |dma| self.check_dma(name, dma))?;
        }
        Ok(())
    }

    fn check_dma(&self, name: &str, dma: &Dma) -> Result<(), ConfigError> {
        let channels = usize::from(dma.channels);
        if !(MIN_CHANNELS..=MAX_CHANNELS).contains(&channels)
            || usize::from(dma.home) >= self.domains.len()
        {
            return wrong(format!("device {name}: `channels` or `home` is out of range"));
        }
        if !(1..=MAX_BANDWIDTH_MBPS).contains(&dma.bandwidth_mbps)
            || !(1..=MAX_WEIGHT).contains(&dma.home_weight)
            || dma.setup_ns > MAX_SETUP_NS
            || dma.home_first_ns > MAX_HOME_FIRST_NS
        {
            let what = "`bandwidth_mbps`, `home_weight`, `home_first_ns` or `setup_ns`";
            return wrong(format!("device {name}: {what} is out of range"));
        }
        if !self.in_ram(dma.rings, channels as u64 * RING_BYTES) {
            return wrong(format!("the rings of {name} are not aligned, or not in RAM"));
        }
        Ok(())
    }

    fn in_ram(&self, pa: u64, size: u64) -> bool {
        let Some(offset) = pa.checked_sub(self.ram.base_pa) else { return false };
        pa.is_multiple_of(8) && offset <= self.ram.size && size <= self.ram.size - offset
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
