//! Assembles a board from its run folder, runs it, and takes it apart again.

use crate::config::{Config, ConfigError, Device, DeviceKind, Domain, Link, REQUEST_KICK};
use crate::control::{Action, Control};
use crate::dma;
use crate::dma::engine::{Engine, Holder};
use crate::dma::limits::Limits;
use crate::eye::{Eye, EyeError};
use crate::fabric::{Doorbell, Fabric, Slot};
use crate::gate::{Gate, GateError};
use crate::helper;
use crate::lives;
use crate::memory::{Chip, MemoryError, Ram};
use crate::power::Policy;
use crate::supervisor::{End, Parts, Supervisor};
use crate::virtio::block::Block;
use crate::virtio::console::{Console, Voice};
use crate::virtio::cut::Cut;
use crate::virtio::net::Net;
use crate::virtio::rng::Rng;
use crate::virtio::vsock::Vsock;
use crate::virtio::{self, Model};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Why a board could not be started.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its memory could not be created.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The lab cannot start.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The coherence sanitizer cannot start.
    #[error(transparent)]
    Eye(#[from] EyeError),
    /// A system call failed.
    #[error("{0}: {1}")]
    Host(String, std::io::Error),
    /// Blob and soc.toml describe different boards.
    #[error("the blob has {0} domains, soc.toml has {1}")]
    Domains(usize, usize),
}

fn host(what: impl ToString) -> impl FnOnce(std::io::Error) -> BoardError {
    let what = what.to_string();
    move |e| BoardError::Host(what, e)
}

impl Domain {
    /// Returns what the power controller needs to know.
    pub fn policy(&self, config: &Config) -> Policy {
        Policy { restart: self.restart, essential: self.essential, max_deaths: config.max_deaths }
    }
}

impl Action {
    /// Returns the request that a kernel would make for this.
    pub fn command(self) -> u64 {
        use abi::soc::command;
        match self {
            Action::Off => command::OFF,
            Action::Inactive => command::INACTIVE,
            Action::Wake => command::WAKE,
        }
    }
}

/// The devices' threads.
struct Devices {
    stop: Arc<Doorbell>,
    threads: Vec<JoinHandle<()>>,
    voice: Option<Voice>,
    cuts: Vec<(String, Cut)>,
    sockets: Vec<PathBuf>,
    engines: Vec<dma::Handle>,
}

/// What every device is created from.
struct Ground<'a> {
    config: &'a Config,
    folder: &'a Path,
    chip: &'a Chip,
    fabric: &'a Fabric,
}

impl Devices {
    fn start(ground: &Ground<'_>) -> Result<Devices, BoardError> {
        let mut devices = Devices {
            stop: Arc::new(Doorbell::new().map_err(host("eventfd"))?),
            threads: Vec::new(),
            voice: None,
            cuts: Vec::new(),
            sockets: Vec::new(),
            engines: Vec::new(),
        };
        for device in &ground.config.devices {
            // If one fails, the threads already started end with the process.
            devices.add(device, ground)?;
        }
        if let Some(gateway) = ground.config.gateway.clone() {
            let folder = ground.folder.to_owned();
            devices.spawn("gateway", move |stop| helper::run(&gateway, &folder, stop))?;
        }
        Ok(devices)
    }

    fn add(&mut self, device: &Device, ground: &Ground<'_>) -> Result<(), BoardError> {
        let path = |path: &Option<PathBuf>, default| {
            path.clone().unwrap_or_else(|| ground.folder.join(default))
        };
        match device.kind {
            DeviceKind::Rng => self.add_virtio(device, ground, Rng),
            DeviceKind::Block => {
                let image = path(&device.path, "disk.img");
                let block = Block::open(&image, &device.name, device.read_only)
                    .map_err(host(image.display()))?;
                self.cuts.push((device.name.clone(), block.cut()));
                self.add_virtio(device, ground, block)
            }
            DeviceKind::Console => {
                let socket = path(&device.path, "console.sock");
                let (console, voice) = Console::open(&socket, &path(&device.log, "console.log"))
                    .map_err(host(socket.display()))?;
                self.voice = Some(voice);
                self.sockets.push(socket);
                self.add_virtio(device, ground, console)
            }
            DeviceKind::Vsock => {
                let socket = path(&device.path, "vsock.sock");
                let vsock = Vsock::open(&socket).map_err(host(socket.display()))?;
                self.sockets.push(socket);
                self.add_virtio(device, ground, vsock)
            }
            DeviceKind::Net => self.add_net(device, ground),
            DeviceKind::Dma => self.add_dma(device, ground),
        }
    }

    fn add_net(&mut self, device: &Device, ground: &Ground<'_>) -> Result<(), BoardError> {
        let Some(settings) = &device.net else { return Ok(()) };
        let net = Net::open(settings, ground.fabric.gate().clone()).map_err(host(&device.name))?;
        if let Some(Link::Listen(socket)) = &settings.link {
            self.sockets.push(socket.clone());
        }
        self.add_virtio(device, ground, net)
    }

    fn add_virtio<M: Model + 'static>(
        &mut self,
        config: &Device,
        ground: &Ground<'_>,
        model: M,
    ) -> Result<(), BoardError> {
        let ram = ground.chip.ram().of_device(config.registers);
        let fabric = ground.fabric.clone();
        let mut device = virtio::Device::new(config, ram, fabric, model)?;
        // Before the board's time begins.
        device.set_alarm();
        self.spawn(&config.name, move |stop| virtio::run(device, stop))
    }

    fn add_dma(&mut self, device: &Device, ground: &Ground<'_>) -> Result<(), BoardError> {
        let Some(dma) = &device.dma else { return Ok(()) };
        let Ground { config, chip, fabric, .. } = *ground;
        let ram = config.ram.base_pa..config.ram.base_pa + config.ram.size;
        let holder = |domain: &Domain| Holder::new(&domain.name, usize::from(domain.slot));
        let holders = config.domains.iter().map(holder).collect();
        let limits = Limits::new(ram, chip.regions(), config.domains.len());
        let (memory, bells) = (chip.ram().of_device(device.registers), fabric.clone());
        let engine = Engine::new(device, dma, holders, limits, memory, bells)?;
        let handle = dma::Handle::new(engine, device, fabric.clone());
        self.engines.push(handle.clone());
        self.spawn(&device.name, move |stop| dma::run(&handle, stop))
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(&Arc<Doorbell>) + Send + 'static,
    ) -> Result<(), BoardError> {
        let stop = self.stop.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&stop))
            .map_err(host("thread"))?;
        self.threads.push(thread);
        Ok(())
    }

    fn finish(self) {
        self.stop.ring();
        for thread in self.threads {
            if thread.join().is_err() {
                log::error!("A device's thread had panicked.");
            }
        }
    }
}

impl Chip {
    /// Copies a domain's image to its staging area.
    pub fn stage(&self, domain: &Domain, image: &Path) -> Result<(), MemoryError> {
        self.ram().write_file(domain.staging_pa, image, domain.staging_size).map(drop)
    }
}

/// Creates the memory with the blob in it, and the words shared with kernels.
fn memory(config: &Config, folder: &Path, start: Instant) -> Result<Chip, BoardError> {
    let mut ram = Ram::create(&config.ram.path, config.ram.size, config.ram.base_pa)?;
    if config.watched {
        ram = ram.seen_by(Eye::open(folder, &config.ram.path)?);
    }
    let size = size_of::<abi::boot::Blob>() as u64;
    if ram.write_file(config.blob_pa, &config.blob, size)? != size {
        return Err(MemoryError::Blob("its size is not that of this version's blob").into());
    }
    if lives::count(folder) > 1 {
        lives::renew(&ram, config.blob_pa, start)?;
    }
    for device in &config.devices {
        if let (Some(at), Some(image)) = (device.copy, &device.path) {
            ram.write_file(at, image, 0)?;
        }
    }
    let chip = Chip::new(ram, config.blob_pa)?;
    if chip.domains() != config.domains.len() {
        return Err(BoardError::Domains(chip.domains(), config.domains.len()));
    }
    if chip.vector() >= u64::from(config.vectors) {
        return Err(MemoryError::Blob("its vector for the chip page does not exist").into());
    }
    Ok(chip)
}

/// Own vectors that a thread serves: requests, and kicks of devices.
fn served(config: &Config) -> Vec<usize> {
    let kicks = config.devices.iter().map(|device| device.kick);
    kicks.chain([REQUEST_KICK]).map(usize::from).collect()
}

/// Time in which a board must shut down after its starter has ended.
const LAST: Duration = Duration::from_secs(10);

/// Returns a stream that becomes readable on SIGTERM and SIGINT and, for a board tied to its
/// starter, at the end of standard input.
fn signals(tied: bool) -> std::io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    if tied {
        let to = theirs.try_clone()?;
        std::thread::Builder::new().name("starter".into()).spawn(move || follow(to))?;
    }
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

/// Requests a shutdown when the starter has ended, and exits if that takes too long: the QEMUs die
/// with this process.
fn follow(mut signals: UnixStream) {
    // Input is ignored; an error counts as the end.
    while matches!(std::io::stdin().read(&mut [0; 64]), Ok(1..)) {}
    log::warn!("The process that started this board has ended.");
    let asked = signals.write_all(&[0]);
    std::thread::sleep(LAST);
    log::error!("The board does not shut down ({asked:?}): it is killed.");
    std::process::exit(1);
}

/// Runs the board in `folder` until it ends. The calling thread must live as long as the process.
pub fn run(folder: &Path, start: Instant) -> Result<End, BoardError> {
    let config = Config::read(folder)?;
    // Before any socket exists: a connected client may send a signal.
    let signals = signals(config.tied).map_err(host("signals"))?;
    let late = signals.try_clone().map_err(host("signals"))?;
    let chip = memory(&config, folder, start)?;
    let [vectors, soc_slot] = [config.vectors, config.soc_slot].map(usize::from);
    let gate = Gate::of(&config, folder, start)?;
    let peers = config.domains.len() + 1;
    let fabric = Fabric::new(peers, vectors, soc_slot, config.bar2_size, gate.clone())
        .map_err(host("doorbells"))?;
    let (own, served) = (fabric.clone(), served(&config));
    gate.start(move |vector| {
        let bell = own.own(vector).filter(|_| served.contains(&vector));
        bell.map(Doorbell::ring).is_some()
    })?;
    let listen = |d: &Domain| {
        Slot::listen(usize::from(d.slot), &d.slot_socket).map_err(host(d.slot_socket.display()))
    };
    let slots = config.domains.iter().map(listen).collect::<Result<_, _>>()?;
    let ground = Ground { config: &config, folder, chip: &chip, fabric: &fabric };
    let devices = Devices::start(&ground)?;
    let control_path = folder.join("control.sock");
    let control = Control::open(&control_path).map_err(host(control_path.display()))?;
    let mut sockets = devices.sockets.clone();
    sockets.push(control_path);
    sockets.extend(config.domains.iter().flat_map(|d| [d.slot_socket.clone(), d.qmp.clone()]));
    let parts = Parts {
        config,
        folder: folder.to_owned(),
        chip,
        fabric,
        slots,
        control,
        voice: devices.voice.clone(),
        cuts: devices.cuts.clone(),
        engines: devices.engines.clone(),
        signals,
    };
    let end = Supervisor::new(parts).map_err(host("eventfd"))?.run();
    if end == End::Again {
        // Before the devices close their sockets.
        lives::next(folder).map_err(host("soc.lives"))?;
    }
    gate.end();
    devices.finish();
    for socket in sockets {
        // Some are already gone with their QEMU.
        let _ = std::fs::remove_file(socket);
    }
    Ok(if end == End::Again && came(&late) { End::Ordered("a signal") } else { end })
}

/// Returns whether a signal is pending.
fn came(mut signals: &UnixStream) -> bool {
    signals.set_nonblocking(true).is_ok() && signals.read(&mut [0]).is_ok()
}
