//! The start of a board: its folder is emptied and filled, and the soc is started in it.

use crate::instance::{Instance, InstanceError, Outcome, ROOM, START, file, tail};
use crate::machine::{self, Options};
use crate::model::{self, Choice};
use crate::prepare::SPIN;
use crate::run_files::{CONSOLE, KEY_FILE};
use board::{Board, DeviceKind, Isa, Start};
use builds::image;
use builds::kernels::Built;
use lab::model::Lab;
use lab::points::CrashPoint;
use soc::config;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tree::interrupt;
use zerocopy::IntoBytes;

impl Instance {
    /// Prepares the folder and starts the soc. Returns when the console can be attached.
    pub fn start(
        &self,
        soc: &Path,
        board_file: &Path,
        kernels: &[Built],
        options: &Options,
    ) -> Outcome<()> {
        let board = board::read(board_file)?;
        // Under icount, read-modify-writes are atomic only within one emulator and one core.
        let single = board.domains.iter().all(|domain| domain.cores == 1);
        if options.icount && !single {
            return Err(InstanceError::OneCore);
        }
        let mut board = self.begin(board_file)?;
        if let Some(arguments) = &options.arguments {
            board.arguments.clone_from(arguments);
        }
        self.disks(&board)?;
        check_console(&board)?;
        self.set_disk_aside(&mut board)?;
        for built in kernels {
            self.stub(built)?;
            file(&built.kernel, keep(built, &self.folder))?;
        }
        self.stage(&board, kernels)?;
        if let Some((choice, _)) = &options.lab {
            self.model(&board, *choice, kernels, &options.points)?;
        }
        let spin = soc.with_file_name(SPIN);
        file(&spin, std::fs::metadata(&spin))?;
        let config = machine::config(&board, &spin, options);
        self.launch(soc, &board, options.is_exact(), &config)
    }

    /// Does the same, in the lab, for a board whose one domain runs a different kernel: `machine`
    /// is the command line of its QEMU, with paths relative to the folder.
    pub fn start_foreign(
        &self,
        soc: &Path,
        board_file: &Path,
        machine: &[String],
        lab: &Lab,
    ) -> Outcome<()> {
        let mut board = self.begin(board_file)?;
        board.arguments.clear();
        self.disks(&board)?;
        lab.write(&self.folder)?;
        let mut config = machine::config(&board, &soc.with_file_name(SPIN), &Options::default());
        config.lab = true;
        config.exact = true;
        for domain in &mut config.domains {
            domain.command = machine.to_vec();
            domain.image = None;
        }
        self.launch(soc, &board, true, &config)
    }

    /// Reads the board file and empties the folder.
    fn begin(&self, board_file: &Path) -> Outcome<Board> {
        if self.soc().is_some() {
            return Err(InstanceError::Running(self.name.clone()));
        }
        let board = board::read(board_file)?;
        self.empty()?;
        self.copy(board_file, "board.toml")?;
        Ok(board)
    }

    /// Writes the lab's model.
    fn model(
        &self,
        board: &Board,
        choice: Choice,
        kernels: &[Built],
        points: &[CrashPoint],
    ) -> Outcome<()> {
        let read = |built: &Built| {
            file(&built.kernel, std::fs::read(&built.kernel)).map(|elf| (built.isa, elf))
        };
        let elves = kernels.iter().map(read).collect::<Outcome<Vec<_>>>()?;
        let elf = |domain: &board::Domain| {
            elves.iter().find(|(isa, _)| *isa == domain.isa).map(|(_, elf)| elf.as_slice())
        };
        let mut made = model::of(board, choice, elf)
            .map_err(|error| InstanceError::Image { domain: board.name.clone(), error })?;
        made.set_points(points)?;
        Ok(made.write(&self.folder)?)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Outcome<()> {
        let path = self.path(name);
        file(&path, std::fs::write(&path, bytes))
    }

    fn copy(&self, from: &Path, name: &str) -> Outcome<()> {
        let bytes = file(from, std::fs::read(from))?;
        self.write(name, &bytes)
    }

    /// Writes the stub as the emulator loads it.
    fn stub(&self, built: &Built) -> Outcome<()> {
        let name = machine::stub(built.isa);
        if built.isa == Isa::Aarch64 {
            return self.copy(&built.stub, &name);
        }
        let elf = file(&built.stub, std::fs::read(&built.stub))?;
        let failed = |error| InstanceError::Image { domain: name.clone(), error };
        self.write(&name, &image::raw_stub(&elf).map_err(failed)?)
    }

    fn room(&self) -> Outcome<()> {
        let disk = rustix::fs::statvfs(&self.folder).map_err(std::io::Error::from);
        let disk = file(&self.folder, disk)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
        if free < ROOM {
            return Err(InstanceError::Full { folder: self.folder.clone(), free });
        }
        Ok(())
    }

    /// Removes the files of an earlier board, except disk images and their key.
    fn empty(&self) -> Outcome<()> {
        self.make_folder()?;
        self.room()?;
        for entry in file(&self.folder, std::fs::read_dir(&self.folder))?.flatten() {
            let path = entry.path();
            let stays = path.extension().is_some_and(|e| e == "disk") || path.ends_with(KEY_FILE);
            if !stays && !path.is_dir() {
                file(&path, std::fs::remove_file(&path))?;
            }
        }
        Ok(())
    }

    fn stage(&self, board: &Board, kernels: &[Built]) -> Outcome<()> {
        for domain in &board.domains {
            let Some(built) = kernels.iter().find(|b| b.isa == domain.isa) else { continue };
            let elf = file(&built.kernel, std::fs::read(&built.kernel))?;
            let staged = image::stage(&elf, board, domain)
                .map_err(|error| InstanceError::Image { domain: domain.name.clone(), error })?;
            self.write(&format!("{}.img", domain.name), &staged)?;
        }
        Ok(())
    }

    /// Writes the configuration of kernels and soc, and starts the soc in a session of its own, so
    /// that neither ctrl-c nor the end of this terminal reaches it. A tied soc ends with this
    /// process. `exact`: the run is reproducible.
    fn launch(
        &self,
        soc: &Path,
        board: &Board,
        exact: bool,
        config: &config::Config,
    ) -> Outcome<()> {
        let given = self.give(exact)?;
        let blob = board.blob_with(&board.arguments, &given).map_err(InstanceError::Blob)?;
        self.write_secret("blob.bin", blob.as_bytes())?;
        self.write("soc.toml", toml::to_string(config)?.as_bytes())?;
        let log_path = self.path("soc.out");
        let log = file(&log_path, std::fs::File::create(&log_path))?;
        let errors = file(&log_path, log.try_clone())?;
        let input = match config.tied {
            true => file(&log_path, interrupt::lifeline())?,
            false => Stdio::null(),
        };
        let mut child = Command::new("setsid")
            .arg(soc)
            .arg(&self.folder)
            .current_dir(&self.folder)
            .stdin(input)
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|e| InstanceError::File(soc.to_path_buf(), e))?;
        // A spawned child is not a process group leader, so setsid does not fork: `child` is the
        // soc.
        let start = Instant::now();
        while start.elapsed() < START {
            if child.try_wait().is_ok_and(|s| s.is_some()) {
                return Err(self.failed("ended at once:"));
            }
            if std::os::unix::net::UnixStream::connect(self.path(CONSOLE)).is_ok() {
                // A process that starts thousands of boards must not keep thousands of zombies.
                std::thread::spawn(move || child.wait());
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let failure = self.failed("did not open its console in 20 s:");
        self.stop()?;
        Err(failure)
    }

    /// Creates missing images of a board's disks, with zeros.
    fn disks(&self, board: &Board) -> Outcome<()> {
        for device in board.devices.iter().filter(|d| d.kind == DeviceKind::Block) {
            let path = self.path(&machine::disk(&device.name));
            let image = std::fs::File::options().create(true).append(true).open(&path);
            // An image made by the user may be larger.
            let grow =
                |image: std::fs::File| image.set_len(image.metadata()?.len().max(device.disk));
            image.and_then(grow).map_err(|why| InstanceError::File(path, why))?;
        }
        Ok(())
    }

    /// Sets memory aside for the disk that the command line wants in memory, if it wants one.
    fn set_disk_aside(&self, board: &mut Board) -> Outcome<()> {
        let Some(name) = board::ram_disk(&board.arguments).map(str::to_owned) else {
            return Ok(());
        };
        if !board.has_disk(&name) {
            return Err(InstanceError::NoSuchDisk(name));
        }
        let path = self.path(&machine::disk(&name));
        let bytes = file(&path, std::fs::metadata(&path))?.len();
        let too_large = |most| InstanceError::LargeDisk(name, bytes >> 20, most >> 20);
        board.set_disk_aside(bytes).map_err(too_large)
    }

    fn failed(&self, what: &'static str) -> InstanceError {
        let log = self.path("soc.log");
        let tail = tail(&self.path("soc.out"), 10) + &tail(&log, 15);
        InstanceError::Start { what, tail, log }
    }
}

/// Refuses a command line that gives the console to no domain that starts with the board: what is
/// executed once after a start (`/etc/rc`) would wait for that domain.
fn check_console(board: &Board) -> Outcome<()> {
    let mut options = abi::boot::options(&board.arguments);
    let Some(name) = options.find_map(|word| word.strip_prefix("console=")) else { return Ok(()) };
    let starts = board.domains.iter().filter(|domain| domain.start == Start::AtOnce);
    let known: Vec<&str> = starts.map(|domain| domain.name.as_str()).collect();
    if known.contains(&name) {
        return Ok(());
    }
    Err(InstanceError::NoSuchDomain(name.to_owned(), known.join(", ")))
}

/// Keeps the kernel's symbols next to the images made from it, whatever cargo builds later: as a
/// hard link, or a copy if the folder is on another disk.
fn keep(built: &Built, folder: &Path) -> std::io::Result<()> {
    let kept = folder.join(machine::symbols(built.isa));
    // A new start empties the folder, but an interrupted one may have left a link.
    let _ = std::fs::remove_file(&kept);
    match std::fs::hard_link(&built.kernel, &kept) {
        Ok(()) => Ok(()),
        Err(_) => std::fs::copy(&built.kernel, &kept).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_domain_that_starts_with_the_board_can_have_the_console() {
        let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards");
        for (name, domain, is_right) in [
            ("duo", "shadow", true),
            ("duo", "other", false),
            ("duo-on-demand", "main", true),
            ("duo-on-demand", "shadow", false),
        ] {
            let mut board = board::read(&boards.join(format!("{name}.toml"))).unwrap();
            assert!(check_console(&board).is_ok());
            board.arguments = format!("console={domain}");
            assert_eq!(check_console(&board).is_ok(), is_right, "{domain} of {name}");
        }
    }
}
