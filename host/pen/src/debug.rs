//! `pen debug DOMAIN`: gdb with the symbols of the domain's kernel, on a running or a dead kernel.
//!
//! | the domain's QEMU | the board's RAM file | gdb sees |
//! | --- | --- | --- |
//! | runs | | the running kernel, through QEMU's gdbstub (`DOMAIN.gdb` in the run folder) |
//! | is gone | is there | the memory as it was, and the frames of the panic ([`remains`]) |
//! | is gone | is gone | nothing: the last panic is printed, with files and lines |
//!
//! A kernel is linked at 0 and runs at VA_OFFSET + its load address; gdb gets that offset.

mod log;
mod remains;
mod stub;

use abi::boot::VA_OFFSET;
use abi::soc::state;
use anyhow::{Context, bail};
use board::{Board, Domain, Isa};
use builds::image;
use deploy::up::only;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use tree::place::Place;
use workbench::instance::Instance;
use workbench::machine;

/// gdb for both ISAs, and its Debian package.
const GDB: &str = "gdb-multiarch";

/// `pen debug`
#[derive(clap::Args)]
pub struct Line {
    /// A domain of the board, such as main or shadow.
    domain: String,
    /// Board: a running one, one that has ended (its folder under run/), or a path to such a
    /// folder, such as that of a failed test. Optional if only one is running.
    #[arg(long)]
    board: Option<String>,
    /// Run this gdb command instead of an interactive session; may be repeated.
    #[arg(long, value_name = "COMMAND")]
    batch: Vec<String>,
}

/// The kernel to debug.
struct Subject {
    instance: Instance,
    board: Board,
    /// Index of the domain.
    index: usize,
    /// The kernel's ELF file.
    elf: PathBuf,
}

impl Subject {
    fn domain(&self) -> &Domain {
        &self.board.domains[self.index]
    }

    /// Returns the kernel's first virtual address.
    fn base(&self) -> u64 {
        VA_OFFSET.wrapping_add(self.domain().image.base)
    }
}

/// `pen debug`
pub fn debug(place: &Place, line: &Line) -> anyhow::Result<ExitCode> {
    let subject = find(place, line)?;
    let name = &subject.domain().name;
    if subject.instance.machine(name).is_some() {
        return attach(place, &subject, line);
    }
    eprintln!("pen: {name} of {} does not run", subject.instance.name);
    let ending = log::ending(&subject.instance.path(&format!("{name}.log")));
    if subject.instance.path("ram").exists() {
        return look(place, &subject, ending.as_ref(), line);
    }
    eprintln!("pen: its memory is gone: the file {} was removed with the board", ram(&subject));
    let Some(ending) = ending else {
        let log = subject.instance.path(&format!("{name}.log"));
        bail!("{} has no panic: there is nothing to show", log.display());
    };
    require_gdb()?;
    show(place, &subject, &ending)
}

fn ram(subject: &Subject) -> String {
    subject.instance.path("ram").display().to_string()
}

fn find(place: &Place, line: &Line) -> anyhow::Result<Subject> {
    let instance = match &line.board {
        Some(path) if path.contains('/') => Instance::at(PathBuf::from(path).canonicalize()?),
        Some(name) => Instance::named(place, name)?,
        None => only(place)?.context(
            "no board is running; `--board NAME` looks at what is left of one that did: \
             NAME is that of its folder under run/",
        )?,
    };
    if !instance.path("board.toml").exists() {
        let folder = instance.folder.display();
        bail!("no board was started in {folder}; `./pen ps` lists those that run");
    }
    let board = instance.board()?;
    let Some(index) = board.domains.iter().position(|it| it.name == line.domain) else {
        let names: Vec<&str> = board.domains.iter().map(|it| it.name.as_str()).collect();
        let (domain, names) = (&line.domain, names.join(", "));
        bail!("board {} has no domain \"{domain}\"; domains: {names}", board.name);
    };
    let elf = symbols(&instance, &board, &board.domains[index])?;
    Ok(Subject { instance, board, index, elf })
}

/// Returns the ELF file that the domain's image was made from, and checks that it has not changed.
fn symbols(instance: &Instance, board: &Board, domain: &Domain) -> anyhow::Result<PathBuf> {
    let elf = instance.path(&machine::symbols(domain.isa));
    let bytes = std::fs::read(&elf).with_context(|| format!("{}", elf.display()))?;
    let staged = instance.path(&format!("{}.img", domain.name));
    let image = std::fs::read(&staged).with_context(|| format!("{}", staged.display()))?;
    if image::stage(&bytes, board, domain)? != image {
        let (elf, staged) = (elf.display(), staged.display());
        bail!("{elf} is not what {staged} was made from; start the board again");
    }
    Ok(elf)
}

fn require_gdb() -> anyhow::Result<()> {
    match Command::new(GDB).arg("--version").output() {
        Ok(_) => Ok(()),
        Err(e) => bail!("cannot run {GDB}: {e}; as root: apt-get install {GDB}"),
    }
}

/// Runs gdb on the running kernel.
fn attach(place: &Place, subject: &Subject, line: &Line) -> anyhow::Result<ExitCode> {
    require_gdb()?;
    let (instance, domain) = (&subject.instance, subject.domain());
    let states = instance.states(&subject.board);
    let now = states.get(subject.index).map_or(0, |it| it.1);
    let mut script = Script::new(place, subject);
    script.line(&format!("target remote {}", machine::gdb(domain)));
    // The soc has stopped it: detaching would resume it without the soc's knowledge.
    let stopped = now == state::INACTIVE;
    script.end(if stopped { "disconnect" } else { "detach" });
    if line.batch.is_empty() {
        eprintln!("pen: {} is stopped until gdb ends; other domains may wait for it", domain.name);
    }
    script.run(instance, &line.batch)
}

/// Runs gdb on the memory of a dead kernel.
fn look(
    place: &Place,
    subject: &Subject,
    ending: Option<&log::Ending>,
    line: &Line,
) -> anyhow::Result<ExitCode> {
    require_gdb()?;
    let mut memory = remains::Memory::open(&subject.instance.path("ram"), &subject.board)?;
    let frame = ending.and_then(|it| memory.frame(subject.domain(), &it.addresses));
    match (ending, &frame) {
        (None, _) => eprintln!("pen: its log has no panic; registers are unknown"),
        (Some(it), None) => eprintln!("pen: {}; its stack was not found", it.words),
        (Some(it), Some(_)) => eprintln!("pen: {}", it.words),
    }
    let registers = stub::registers(subject.domain().isa, frame.unwrap_or_default());
    let name = format!("{}.remains", subject.domain().name);
    let mut script = Script::new(place, subject);
    script.line(&format!("target remote {name}"));
    script.end("disconnect");
    let socket = subject.instance.path(&name);
    let server = stub::serve(&socket, registers, memory)?;
    let ended = script.run(&subject.instance, &line.batch);
    server.end();
    ended
}

/// Prints the last panic, with the files and lines of its frames.
fn show(place: &Place, subject: &Subject, ending: &log::Ending) -> anyhow::Result<ExitCode> {
    println!("{}", ending.words);
    let mut script = Script::new(place, subject);
    for at in &ending.addresses {
        script.line(&format!("info symbol {at:#x}"));
        script.line(&format!("info line *{at:#x}"));
    }
    script.end("echo");
    // With at least one command gdb is not interactive.
    script.run(&subject.instance, &["echo".to_string()])
}

/// gdb's initial commands, in a file of the run folder.
struct Script {
    name: String,
    text: String,
    end: String,
}

impl Script {
    fn new(place: &Place, subject: &Subject) -> Script {
        let architecture = match subject.domain().isa {
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv:rv64",
        };
        let mut script = Script {
            name: format!("{}.gdbinit", subject.domain().name),
            text: String::new(),
            end: String::new(),
        };
        script.line("set confirm off");
        script.line("set pagination off");
        script.line("set print asm-demangle on");
        script.line("set language rust");
        script.line(&format!("set architecture {architecture}"));
        script.line(&format!("directory {}", place.root.display()));
        let elf = subject.elf.file_name().unwrap_or_default().display();
        script.line(&format!("symbol-file -o {:#x} {elf}", subject.base()));
        script
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Adds a command that runs before gdb ends, including when the user quits.
    fn end(&mut self, command: &str) {
        self.end = command.to_string();
        self.line(&format!("define hook-quit\n{command}\nend"));
    }

    /// Runs gdb interactively, or with the commands of `batch`.
    fn run(&self, instance: &Instance, batch: &[String]) -> anyhow::Result<ExitCode> {
        std::fs::write(instance.path(&self.name), &self.text)?;
        let mut gdb = Command::new(GDB);
        gdb.current_dir(&instance.folder).args(["-q", "-nx"]);
        if !batch.is_empty() {
            gdb.arg("-batch");
        }
        gdb.args(["-x", &self.name]);
        for command in batch {
            gdb.args(["-ex", command]);
        }
        if !batch.is_empty() {
            gdb.args(["-ex", &self.end]);
        }
        let status = gdb.status().with_context(|| format!("cannot run {GDB}"))?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
