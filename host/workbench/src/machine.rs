//! Command lines of the QEMU of each domain, and the rest of the soc's configuration.
//!
//! Two rules that must never be broken (otherwise atomic updates between processes are lost): a
//! machine never has `maxcpus` 1, and never the single-threaded TCG, except under `--icount`. Paths
//! are relative to the run folder, which is the working directory.

use crate::model::Choice;
use crate::network::{self, Network};
use crate::processes;
use crate::run_files::{CONSOLE, VSOCK};
use board::{Board, DeviceKind, Domain, Isa, Restart, Start};
use lab::model::Mode;
use lab::points::CrashPoint;
use soc::config;
use std::path::{Path, PathBuf};

/// Options of a start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Count instructions: one nanosecond of guest time each. Only for a board with one domain.
    pub icount: bool,
    /// Run in the lab, with this plugin.
    pub lab: Option<(Choice, PathBuf)>,
    /// Command line of the kernels, instead of the board's own.
    pub arguments: Option<String>,
    /// In the lab: points at which a domain dies or is stopped.
    pub points: Vec<CrashPoint>,
    /// What the network device is attached to.
    pub network: Network,
    /// Where the frames of the network device are copied to.
    pub pcap: Option<PathBuf>,
    /// Whether the board survives `pen`; otherwise it ends with it, as in tests and measurements.
    pub outlives: bool,
}

impl Options {
    fn mode(&self) -> Option<Mode> {
        self.lab.as_ref().map(|(choice, _)| choice.mode)
    }

    /// Returns whether time is the chip's.
    pub fn takes_turns(&self) -> bool {
        self.mode().is_some_and(Mode::takes_turns)
    }

    /// Returns whether cores run at the same time, as the host lets them.
    fn runs_freely(&self) -> bool {
        !self.icount && !self.takes_turns()
    }

    /// Returns whether the run must be reproducible bit by bit.
    pub fn is_exact(&self) -> bool {
        self.icount || self.lab.is_some()
    }

    /// Returns whether the sanitizer is active.
    pub fn is_watched(&self) -> bool {
        self.mode().is_some_and(Mode::watches_caches)
    }
}

/// How long a domain that others wait for may execute without progress. Emulation takes ten times
/// as long as the chip, and a hundred times with the sanitizer. Instruction counting must be
/// reproducible, and depends on no time of the host.
fn hang_ms(options: &Options) -> u64 {
    match () {
        () if options.takes_turns() => 50,
        () if options.icount => 0,
        () if options.is_watched() => 5_000,
        () => 500,
    }
}

/// Returns QEMU's memory options. RAM between the window's end and QEMU's limit is checked by the
/// board.
fn memory(board: &Board, domain: &Domain) -> [String; 4] {
    let offset = board.offset(domain.ram.base);
    let backend = format!(
        "memory-backend-file,id=ram,mem-path=ram,size={},offset={offset},share=on",
        domain.ram.size
    );
    ["-m".to_string(), format!("{}M", domain.ram.size >> 20), "-object".to_string(), backend]
}

/// Returns the path of the domain's doorbell socket in the run folder.
pub fn slot_socket(domain: &Domain) -> String {
    format!("slot{}.sock", domain.slot)
}

/// Returns the path of the domain's QMP socket in the run folder.
pub fn qmp(domain: &Domain) -> String {
    format!("{}.qmp", domain.name)
}

/// Returns the path of the socket of the domain's gdbstub in the run folder.
pub fn gdb(domain: &Domain) -> String {
    format!("{}.gdb", domain.name)
}

/// Returns the path of the kernel's symbols in the run folder.
pub fn symbols(isa: Isa) -> String {
    format!("kernel-{}.elf", isa.name())
}

/// Returns the path of a disk's image in the run folder.
pub fn disk(name: &str) -> String {
    format!("{name}.disk")
}

/// The stub's file in the run folder.
pub fn stub(isa: Isa) -> String {
    format!("stub-{}", isa.name())
}

/// Returns the options that load the stub and start it on all cores. The RV64 machine would start
/// at the first byte of RAM, but there may be another RV64 domain, with a stub of its own.
fn boots(domain: &Domain) -> Vec<String> {
    let (file, at) = (stub(domain.isa), domain.stub);
    if domain.isa == Isa::Aarch64 {
        return vec!["-kernel".into(), file];
    }
    let mut line = vec!["-bios".into(), "none".into()];
    let mut load = |what: String| line.extend(["-device".into(), format!("loader,{what}")]);
    load(format!("file={file},addr={at:#x},force-raw=on"));
    (0..domain.cores).for_each(|core| load(format!("addr={at:#x},cpu-num={core}")));
    line
}

/// Returns the complete command, program first. `spin` is the plugin of boards that run freely.
fn command(board: &Board, domain: &Domain, spin: &Path, options: &Options) -> Vec<String> {
    let (program, machine) = match domain.isa {
        Isa::Aarch64 => ("qemu-system-aarch64", "virt,gic-version=2,memory-backend=ram"),
        Isa::Riscv64 => ("qemu-system-riscv64", "virt,aia=aplic-imsic,memory-backend=ram"),
    };
    let cores = domain.cores;
    // The lab's plugin delivers doorbells itself.
    let eventfds = if options.takes_turns() { ",ioeventfd=off" } else { "" };
    let mut line: Vec<String> =
        [program, "-M", machine, "-cpu", &domain.cpu, "-smp"].map(String::from).to_vec();
    line.push(format!("{cores},maxcpus={}", cores.max(2)));
    line.extend(memory(board, domain));
    // The soc finds the threads of virtual processors by their names.
    line.extend(["-name".into(), format!("{},debug-threads=on", domain.name)]);
    line.extend(["-nodefaults", "-display", "none"].map(String::from));
    line.extend(boots(domain));
    line.extend([
        "-chardev".to_string(),
        format!("file,id=uart,path={}.log,append=on", domain.name),
        "-serial".to_string(),
        "chardev:uart".to_string(),
        "-chardev".to_string(),
        format!("socket,id=iv,path={}", slot_socket(domain)),
        "-device".to_string(),
        format!("ivshmem-doorbell,chardev=iv,vectors={}{eventfds}", board.fabric.vectors),
        "-qmp".to_string(),
        format!("unix:{},server=on,wait=off", qmp(domain)),
        "-gdb".to_string(),
        format!("unix:{},server=on,wait=off", gdb(domain)),
    ]);
    if let Some((choice, plugin)) = &options.lab {
        let profile = if choice.profile { ",profile=on" } else { "" };
        line.push("-plugin".to_string());
        line.push(format!("{},folder=.,slot={}{profile}", plugin.display(), domain.slot));
    }
    if options.runs_freely() {
        line.extend(["-plugin".to_string(), spin.display().to_string()]);
    }
    if options.takes_turns() {
        line.extend(["-rtc", "clock=vm", "-seed", "1"].map(String::from));
    }
    if options.icount {
        line.extend(["-icount", "shift=0,sleep=off"].map(String::from));
    } else {
        line.extend(["-accel", "tcg,thread=multi"].map(String::from));
    }
    line
}

/// Returns the gateway process, if the board is attached to the host's network. It is next to
/// `spin`.
fn gateway(board: &Board, spin: &Path, options: &Options) -> Option<config::Gateway> {
    let net = board.devices.iter().find_map(|device| device.net.as_ref())?;
    let wanted = options.network == Network::User;
    wanted.then(|| network::gateway(net, &spin.with_file_name(processes::GATEWAY)))
}

/// Returns the soc's configuration for `board`. `spin` is the plugin of boards that run freely.
pub fn config(board: &Board, spin: &Path, options: &Options) -> config::Config {
    let domains = board.domains.iter().map(|d| config::Domain {
        name: d.name.clone(),
        slot: d.slot as u16,
        slot_socket: slot_socket(d).into(),
        qmp: qmp(d).into(),
        command: command(board, d, spin, options),
        log: format!("{}.qemu.log", d.name).into(),
        stub_table_pa: d.stub + abi::boot::STUB_TABLE,
        image: Some(format!("{}.img", d.name).into()),
        staging_pa: d.staging.base,
        staging_size: d.staging.size,
        restart: d.restart == Restart::Always,
        essential: d.restart == Restart::Never,
        start: match d.start {
            Start::AtOnce => config::Start::On,
            Start::OnDemand => config::Start::Off,
        },
    });
    let devices = board.devices.iter().map(|d| config::Device {
        name: d.name.clone(),
        kind: match d.kind {
            DeviceKind::Console => config::DeviceKind::Console,
            DeviceKind::Block => config::DeviceKind::Block,
            DeviceKind::Rng => config::DeviceKind::Rng,
            DeviceKind::Dma => config::DeviceKind::Dma,
            DeviceKind::Vsock => config::DeviceKind::Vsock,
            DeviceKind::Net => config::DeviceKind::Net,
        },
        vector: d.vector as u16,
        kick: d.kick as u16,
        registers: d.registers,
        path: match d.kind {
            DeviceKind::Console => Some(CONSOLE.into()),
            DeviceKind::Block => Some(disk(&d.name).into()),
            DeviceKind::Vsock => Some(VSOCK.into()),
            DeviceKind::Rng | DeviceKind::Dma | DeviceKind::Net => None,
        },
        log: (d.kind == DeviceKind::Console).then(|| "console.log".into()),
        read_only: false,
        copy: board.disk_memory(&d.name).map(|block| block.base),
        dma: d.dma.as_ref().map(|dma| config::Dma {
            channels: dma.channels.value as u16,
            home: d.home as u16,
            rings: d.memory.base,
            setup_ns: dma.setup_ns.value,
            bandwidth_mbps: dma.bandwidth_mbps.value,
            home_weight: dma.home_weight.value,
            home_first_ns: dma.home_first_us.value * 1000,
        }),
        net: d
            .net
            .as_ref()
            .map(|net| network::device(net, &options.network, options.pcap.as_deref())),
    });
    config::Config {
        soc_slot: Board::SOC_SLOT as u16,
        vectors: board.fabric.vectors as u16,
        blob: "blob.bin".into(),
        blob_pa: board.layout.blob,
        bar2_size: 4096,
        max_deaths: 1000,
        boot_patience_ms: 60_000,
        hang_ms: hang_ms(options),
        lab: options.takes_turns(),
        watched: options.is_watched(),
        exact: options.is_exact(),
        tied: !options.outlives,
        ram: config::Ram { path: "ram".into(), size: board.ram.size, base_pa: board.ram.base },
        domains: domains.collect(),
        devices: devices.collect(),
        gateway: gateway(board, spin, options),
    }
}
