//! The chip around the guest, for benchmarks of the DMA engine: the board solo-1, under our soc,
//! with Debian's kernel instead of ours. So both systems drive the same engine.
//!
//! ```text
//! 0x4000_0000  1 GiB   Linux's memory, limited by `mem=`
//! uncached window      registers, rings and chip page: ioremap
//! local memory         8 MiB for transfers, where the board lets the engine reach
//! ```

use super::seat::Seat;
use super::{BOARD, Folders};
use abi::dma::MAX_BYTES;
use board::{Board, DeviceKind, Kind};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use thiserror::Error;
use tree::place::Place;
use workbench::instance::{Instance, InstanceError};
use workbench::prepare;

/// Prefix of the benchmarks that need a chip.
pub const CASES: &str = "dma";
/// Memory for Linux; it ends below everything that the board uses.
const MEMORY: &str = "1G";
/// Time between two looks at the guest's log.
const LOOK: Duration = Duration::from_millis(20);

/// Why the chip could not be started.
#[derive(Debug, Error)]
pub enum ChipError {
    /// The board did not start.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The board file is invalid.
    #[error(transparent)]
    Board(#[from] board::BoardError),
    /// The board file lacks something.
    #[error("boards/{BOARD}.toml has no {0}, which the guest's driver needs")]
    Lacks(&'static str),
    /// Another one is running.
    #[error("another run with a chip is in progress; its soc is process {0}: wait, or kill it")]
    Busy(i32),
    /// The guest's log cannot be used.
    #[error("{0}: {1}")]
    Log(std::path::PathBuf, std::io::Error),
}

/// Returns its run folder.
pub fn folder(folders: &Folders) -> PathBuf {
    folders.base.join("chip")
}

/// A chip with Linux on it; dropping it stops it.
pub struct Chip {
    instance: Instance,
    /// The guest's output; closed when the board has ended.
    pub lines: Receiver<String>,
}

impl Chip {
    /// Starts the chip in the lab, at `seat`. `command` returns QEMU's command line, given
    /// additional words for the kernel's.
    pub fn start(
        place: &Place,
        folders: &Folders,
        seat: &Seat,
        command: impl FnOnce(&str) -> Vec<String>,
    ) -> anyhow::Result<Self> {
        let file = place.root.join("boards").join(format!("{BOARD}.toml"));
        let board = board::read(&file).map_err(ChipError::from)?;
        let mut line = command(&parameters(&board)?);
        line.extend(machine(&board));
        line.extend(seat.words(Path::new(".")));
        let instance = Instance::at(folder(folders));
        if let Some(soc) = instance.soc() {
            return Err(ChipError::Busy(soc.as_raw_nonzero().get()).into());
        }
        let (sender, lines) = channel();
        let soc = prepare::soc_binary()?;
        instance.start_foreign(&soc, &file, &line, &seat.lab).map_err(ChipError::from)?;
        let chip = Self { instance, lines };
        let log = chip.instance.path("main.log");
        // The soc creates it when it starts the QEMU; creating it earlier does no harm.
        let opened = File::options().create(true).append(true).read(true).open(&log);
        let opened = opened.map_err(|e| ChipError::Log(log, e))?;
        let instance = chip.instance.clone();
        std::thread::spawn(move || follow(opened, &sender, || instance.soc().is_some()));
        Ok(chip)
    }
}

impl Drop for Chip {
    fn drop(&mut self) {
        if let Err(e) = self.instance.stop() {
            eprintln!("pen: {}: {e}", self.instance.folder.display());
        }
    }
}

/// Sends the lines of a growing file until its writer has ended.
fn follow(file: File, lines: &Sender<String>, alive: impl Fn() -> bool) {
    let (mut file, mut bytes) = (BufReader::new(file), Vec::new());
    loop {
        // Output before the end is read after this check.
        let last = !alive();
        while let Ok(1..) = file.read_until(b'\n', &mut bytes) {
            if !bytes.ends_with(b"\n") && !last {
                break;
            }
            if lines.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
        if last {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns words for the kernel's command line: its memory, and the parameters of our driver.
fn parameters(board: &Board) -> Result<String, ChipError> {
    let engine = board.devices.iter().find(|d| d.kind == DeviceKind::Dma);
    let engine = engine.ok_or(ChipError::Lacks("dma device"))?;
    let main = board.domains.iter().position(|d| d.name == board.main().name);
    let domain = main.ok_or(ChipError::Lacks("main domain"))?;
    let local = board.regions.iter().find(|region| {
        let ours = region.owner == Some(domain) && region.kind == Kind::Local;
        ours && region.block.size >= 2 * MAX_BYTES
    });
    let buffer = local.ok_or(ChipError::Lacks("8 MiB of local memory"))?.block.base;
    let words = [
        ("registers", engine.registers),
        ("rings", engine.memory.base),
        ("chip", board.layout.chip),
        ("buffer", buffer),
        ("domain", domain as u64),
        ("vector", u64::from(engine.vector)),
        ("kick", u64::from(engine.kick)),
        ("soc", u64::from(Board::SOC_SLOT)),
    ];
    let words = words.map(|(name, value)| format!(" penumbra_dma.{name}={value:#x}"));
    Ok(format!(" mem={MEMORY}{}", words.concat()))
}

/// Returns the part of QEMU's command line that connects it to the chip.
fn machine(board: &Board) -> Vec<String> {
    let domain = board.main();
    let (size, offset) = (domain.ram.size, board.offset(domain.ram.base));
    let file = format!("memory-backend-file,id=ram,mem-path=ram,size={size}");
    let words = [
        "-M",
        "virt,gic-version=2,memory-backend=ram",
        "-m",
        &format!("{}M", size >> 20),
        "-object",
        &format!("{file},offset={offset},share=on"),
        "-chardev",
        "file,id=uart,path=main.log,append=on",
        "-serial",
        "chardev:uart",
        "-chardev",
        &format!("socket,id=iv,path={}", workbench::machine::slot_socket(domain)),
        "-device",
        // The lab's plugin delivers doorbells itself.
        &format!("ivshmem-doorbell,chardev=iv,vectors={},ioeventfd=off", board.fabric.vectors),
        "-qmp",
        &format!("unix:{},server=on,wait=off", workbench::machine::qmp(domain)),
    ];
    words.map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        board::read(&std::path::Path::new(root).join(format!("boards/{BOARD}.toml"))).unwrap()
    }

    #[test]
    fn the_driver_is_told_where_the_engine_is() {
        let board = board();
        let words = parameters(&board).unwrap();
        let engine = board.devices.iter().find(|d| d.kind == DeviceKind::Dma).unwrap();
        assert!(words.contains(&format!(" penumbra_dma.registers={:#x}", engine.registers)));
        assert!(words.starts_with(" mem=1G "), "{words}");
    }

    /// Linux's own memory must not overlap anything that the board uses.
    #[test]
    fn linux_and_the_board_do_not_share_memory() {
        let board = board();
        let end = board.main().ram.base + (1 << 30);
        for region in board.regions.iter().filter(|r| r.kind != Kind::Reserved) {
            assert!(region.block.base >= end, "{region:?}");
        }
    }

    #[test]
    fn a_file_is_followed_to_its_last_line() {
        let path = std::env::temp_dir().join(format!("pen-follow-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo\nthree").unwrap();
        let (sender, lines) = channel();
        follow(File::open(&path).unwrap(), &sender, || false);
        drop(sender);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["one\n", "two\n", "three"]);
    }
}
