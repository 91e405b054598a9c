//! A board for tests: a run folder with a soc, and kernels played by the test.

#![allow(dead_code, reason = "each test file uses its part")]

use abi::boot::{BLOB_MAGIC, Blob, VERSION, Window};
use abi::soc::{ChipPage, DomainPage, DomainStatus};
use rustix::event::{PollFd, PollFlags, poll};
use soc::config::{Config, Domain, Ram as RamConfig};
use soc::memory::Ram;
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

pub const BASE: u64 = 0x8000_0000;
pub const SIZE: u64 = 16 << 20;
pub const BLOB_PA: u64 = BASE + 0x10_0000;
pub const CHIP: u64 = BASE + 0x11_0000;
pub const PAGES: u64 = BASE + 0x12_0000;
pub const STUB: u64 = BASE + 0x14_0000;
pub const REGISTERS: u64 = BASE + 0x15_0000;
pub const VECTORS: u16 = 8;
pub const VECTOR_CHIP: usize = 2;
/// Far longer than anything here takes; reached only if the soc is broken.
pub const LONG: Duration = Duration::from_secs(20);

/// Returns a blob of `domains` domains with everything that the soc reads.
pub fn blob(domains: u32) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<Blob>()];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(offset_of!(Blob, magic), &BLOB_MAGIC.to_le_bytes());
    put(offset_of!(Blob, version), &VERSION.to_le_bytes());
    put(offset_of!(Blob, size), &(size_of::<Blob>() as u32).to_le_bytes());
    put(offset_of!(Blob, domain_count), &domains.to_le_bytes());
    put(offset_of!(Blob, vector_chip), &(VECTOR_CHIP as u32).to_le_bytes());
    let window = offset_of!(Blob, window);
    put(window + offset_of!(Window, chip), &CHIP.to_le_bytes());
    put(window + offset_of!(Window, domains), &PAGES.to_le_bytes());
    bytes
}

/// Returns domain `d`; its "QEMU" is `command`.
pub fn domain(d: u16, name: &str, command: &[&str]) -> Domain {
    Domain {
        name: name.into(),
        slot: d + 1,
        slot_socket: format!("slot{d}.sock").into(),
        qmp: format!("{name}.qmp").into(),
        command: command.iter().map(|&word| word.into()).collect(),
        log: format!("{name}.log").into(),
        stub_table_pa: STUB + 0x1000 * u64::from(d),
        staging_pa: BASE + 0x20_0000 * u64::from(d + 1),
        staging_size: 0x1000,
        restart: true,
        ..Domain::default()
    }
}

pub fn config(domains: Vec<Domain>) -> Config {
    Config {
        lab: false,
        watched: false,
        exact: false,
        tied: true,
        soc_slot: 0,
        vectors: VECTORS,
        blob: "blob.bin".into(),
        blob_pa: BLOB_PA,
        bar2_size: 4096,
        max_deaths: 1000,
        boot_patience_ms: 60_000,
        hang_ms: 0,
        ram: RamConfig { path: "ram".into(), size: SIZE, base_pa: BASE },
        domains,
        devices: Vec::new(),
        gateway: None,
    }
}

/// A soc process in a folder of its own; dropping it ends the process and removes the folder.
pub struct Soc {
    pub folder: tempfile::TempDir,
    pub process: Child,
    pub ram: Ram,
}

impl Soc {
    pub fn start(config: &Config) -> Soc {
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        std::fs::write(folder.path().join("blob.bin"), blob(config.domains.len() as u32)).unwrap();
        std::fs::write(folder.path().join("soc.toml"), toml::to_string(config).unwrap()).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_soc"))
            .arg(folder.path())
            // Open while this process lives, so the soc ends when a test is killed.
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let control = folder.path().join("control.sock");
        until("the soc listens", || UnixStream::connect(&control).is_ok());
        let ram = Ram::attach(&folder.path().join("ram"), BASE).unwrap();
        Soc { folder, process, ram }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("soc.log")).unwrap()
    }

    pub fn ask(&self, operation: serde_json::Value) -> serde_json::Value {
        soc::control::ask(&self.path("control.sock"), &operation).unwrap()
    }

    /// Returns epoch and state of domain `d`.
    pub fn state(&self, d: usize) -> (u64, u64) {
        abi::soc::unpack_state(self.status(d, offset_of!(DomainStatus, state)))
    }

    pub fn status(&self, d: usize, field: usize) -> u64 {
        let line = offset_of!(ChipPage, domains) + d * size_of::<DomainStatus>();
        self.ram.load(CHIP + (line + field) as u64).unwrap()
    }

    pub fn until_state(&self, d: usize, wanted: (u64, u64)) {
        until(&format!("domain {d} is {wanted:?}\n{}", self.log()), || self.state(d) == wanted);
    }

    /// Returns the exit code, if it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("the soc ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Soc {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a condition holds; panics after a long time.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What a QEMU's doorbell device receives: the slots in order, and their eventfds.
pub struct Peer {
    pub id: i64,
    pub order: Vec<i64>,
    pub doorbells: Vec<Vec<File>>,
    pub page: File,
    _stream: UnixStream,
}

impl Peer {
    /// Connects as QEMU does.
    pub fn connect(path: &Path, peers: usize) -> Peer {
        let stream = UnixStream::connect(path).unwrap();
        let receive = || {
            let mut bytes = [0u8; 8];
            let (size, fd) = stream.recv_with_fd(&mut bytes).unwrap();
            assert_eq!(size, 8);
            (i64::from_le_bytes(bytes), fd)
        };
        assert_eq!(receive().0, 0, "protocol version");
        let id = receive().0;
        let mut order = Vec::new();
        let mut doorbells: Vec<Vec<File>> = (0..peers).map(|_| Vec::new()).collect();
        let mut page = None;
        for _ in 0..peers * usize::from(VECTORS) + 1 {
            let (number, fd) = receive();
            order.push(number);
            match usize::try_from(number) {
                Ok(peer) => doorbells[peer].push(fd.unwrap()),
                Err(_) => page = fd,
            }
        }
        order.dedup();
        Peer { id, order, doorbells, page: page.unwrap(), _stream: stream }
    }

    pub fn ring(&mut self, peer: usize, vector: usize) {
        self.doorbells[peer][vector].write_all(&1u64.to_ne_bytes()).unwrap();
    }

    /// Waits until one of our own doorbells is rung, and clears it.
    pub fn wait(&mut self, vector: usize) {
        let me = usize::try_from(self.id).unwrap();
        let doorbell = &mut self.doorbells[me][vector];
        let timeout = rustix::event::Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
        let rung = poll(&mut [PollFd::new(doorbell, PollFlags::IN)], Some(&timeout)).unwrap();
        assert_eq!(rung, 1, "doorbell {vector} was never rung");
        doorbell.read_exact(&mut [0u8; 8]).unwrap();
    }
}

/// A kernel played by the test.
pub struct Kernel {
    pub peer: Peer,
    pub domain: usize,
    sequence: u64,
}

impl Kernel {
    pub fn new(soc: &Soc, domain: usize, peers: usize) -> Kernel {
        let peer = Peer::connect(&soc.path(&format!("slot{domain}.sock")), peers);
        Kernel { peer, domain, sequence: 0 }
    }

    /// Sends a request without waiting. Returns its number.
    pub fn post(&mut self, soc: &Soc, command: u64, arg0: u64, arg1: u64) -> u64 {
        let page = PAGES + (self.domain * size_of::<DomainPage>()) as u64;
        self.sequence += 1;
        let words = [
            (offset_of!(DomainPage, command), command),
            (offset_of!(DomainPage, arg0), arg0),
            (offset_of!(DomainPage, arg1), arg1),
            (offset_of!(DomainPage, sequence), self.sequence),
        ];
        for (field, value) in words {
            soc.ram.store(page + field as u64, value).unwrap();
        }
        self.peer.ring(0, 0);
        self.sequence
    }

    /// Sends a request and waits for the answer. Returns its error.
    pub fn ask(&mut self, soc: &Soc, command: u64, arg0: u64, arg1: u64) -> u64 {
        let sequence = self.post(soc, command, arg0, arg1);
        while soc.status(self.domain, offset_of!(DomainStatus, answered)) != sequence {
            self.peer.wait(VECTOR_CHIP);
        }
        soc.status(self.domain, offset_of!(DomainStatus, error))
    }
}
