//! The files of a kernel's directory in `/proc`: their names, what is read, and what a write does.
//!
//! Where a command of the monitor prints the same, its output is the file's text.

use crate::commands;
use abi::fs::Errno;
use alloc::string::String;
use core::fmt::{self, Write};
use kernel_services::session::Session;

/// Most bytes of a text: a line for each of the sockets that there may be.
const LONGEST: usize = abi::net::SOCKETS * 144;

/// The text of a file, while it is written. Fails beyond [`LONGEST`] bytes, or without memory.
#[derive(Default)]
pub struct Page(pub String);

impl Write for Page {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_room = self.0.len() + text.len() <= LONGEST;
        if !is_room || self.0.try_reserve(text.len()).is_err() {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Writes a file's text.
pub type Text = fn(&Session, &mut Page) -> fmt::Result;

/// Executes a line that was written to a file.
pub type Written = fn(&Session, &str) -> Result<(), Errno>;

pub struct File {
    pub name: &'static str,
    pub text: Text,
    /// `None` if the file is read-only.
    pub write: Option<Written>,
}

/// Creates a read-only file.
const fn shows(name: &'static str, text: Text) -> File {
    File { name, text, write: None }
}

/// Files with links in `/proc`, because they describe the whole board, or tools look for them.
pub const COMMON: &[&str] = &[
    "kernels",
    "kmsg",
    "meminfo",
    "mounts",
    "names",
    "network",
    "power",
    "processes",
    "sockets",
    "uptime",
    "version",
];

/// All files. The order gives their node numbers.
pub const FILES: &[File] = &[
    shows("balloon", |session, out| print_command(session, out, "balloon")),
    shows("channels", |session, out| print_command(session, out, "channels")),
    shows("cpus", |session, out| print_command(session, out, "cpus")),
    shows("descriptors", |session, out| print_command(session, out, "descriptors")),
    shows("dsm", dsm),
    shows("energy", |session, out| print_command(session, out, "energy")),
    File { name: "frequency", text: frequency, write: Some(set_frequency) },
    File { name: "idle", text: idle, write: Some(set_idle) },
    shows("interrupts", |session, out| print_command(session, out, "irq")),
    shows("kernels", |session, out| print_command(session, out, "peers")),
    shows("kmsg", |_, out| kernel_node::print::kept(out)),
    shows("meminfo", meminfo),
    shows("memory", |session, out| print_command(session, out, "mem")),
    shows("mounts", |session, out| print_command(session, out, "mounts")),
    shows("names", |session, out| print_command(session, out, "names")),
    shows("network", |session, out| print_command(session, out, "network")),
    File {
        name: "power",
        text: |session, out| print_command(session, out, "power"),
        write: Some(set_power),
    },
    shows("processes", |session, out| print_command(session, out, "ps")),
    shows("services", |session, out| print_command(session, out, "services")),
    shows("sockets", |session, out| print_command(session, out, "sockets")),
    shows("tasks", |session, out| print_command(session, out, "tasks")),
    shows("threads", |session, out| print_command(session, out, "threads")),
    shows("trace", |session, out| print_command(session, out, "log 200")),
    shows("traffic", |session, out| print_command(session, out, "traffic")),
    shows("uptime", uptime),
    shows("version", version),
];

/// Writes the output of a command.
fn print_command(session: &Session, out: &mut Page, line: &str) -> fmt::Result {
    commands::run(session, out, line);
    Ok(())
}

/// Runs a command. It has failed if a line of its output begins with `! `.
fn execute(session: &Session, line: &str) -> Result<(), Errno> {
    let mut said = Page::default();
    commands::run(session, &mut said, line);
    let refused = said.0.lines().any(|line| line.starts_with("! "));
    if refused { Err(Errno::Inval) } else { Ok(()) }
}

/// Lines of `NAME: NUMBER kB`, for the tool `free`.
fn meminfo(_: &Session, out: &mut Page) -> fmt::Result {
    let now = kernel_node::memory::Use::now();
    let lines = [
        ("MemTotal", now.total),
        ("MemFree", now.free),
        ("MemUsed", now.used()),
        ("Image", now.image),
        ("Heap", now.heap),
        ("HeapUsed", now.heap_live),
        ("Tables", now.metadata),
    ];
    lines.iter().try_for_each(|(name, bytes)| writeln!(out, "{name}: {} kB", bytes >> 10))
}

/// Counters of the coherence driver since boot.
fn dsm(session: &Session, out: &mut Page) -> fmt::Result {
    let Some(coherence) = &session.kernel.coherence else {
        return out.write_str("no memory is shared on this board\n");
    };
    let names = ["faults", "messages", "given", "cleaned", "thrashing", "broken"];
    for (name, count) in names.iter().zip(coherence.counts()) {
        writeln!(out, "{name}: {count}")?;
    }
    writeln!(out, "giving: {} ns", coherence.served().1)
}

/// Seconds since this kernel booted, and since the chip started.
fn uptime(session: &Session, out: &mut Page) -> fmt::Result {
    let now = arch::time::soc_time();
    let up = now.saturating_sub(session.kernel.booted_at);
    let seconds = |ns: u64| (ns / 1_000_000_000, ns / 10_000_000 % 100);
    let ((up, up_rest), (chip, chip_rest)) = (seconds(up), seconds(now));
    writeln!(out, "{up}.{up_rest:02} {chip}.{chip_rest:02}")
}

fn version(session: &Session, out: &mut Page) -> fmt::Result {
    let kernel = session.kernel;
    let isa = abi::boot::isa::name(kernel.domain().isa);
    let (name, board) = (kernel.name(), abi::boot::text(&kernel.blob.name));
    let version = env!("CARGO_PKG_VERSION");
    writeln!(out, "Penumbra {version} {name} {isa} on {board}, life {}", kernel.epoch.0)
}

/// Executes `sync`, `poweroff` or `reboot`.
fn set_power(session: &Session, word: &str) -> Result<(), Errno> {
    match word {
        "sync" => kernel_services::files::settle(session),
        "poweroff" | "off" => execute(session, "poweroff"),
        // The soc refuses a reboot in exact runs, because these must be repeatable.
        "reboot" => execute(session, "reboot").map_err(|_| Errno::Notsup),
        _ => Err(Errno::Inval),
    }
}

/// The frequency that was requested, in MHz, or else the nominal one.
fn frequency(session: &Session, out: &mut Page) -> fmt::Result {
    let asked = commands::asked_frequency(session.kernel);
    let nominal = u64::from(session.kernel.domain().khz) / 1000;
    writeln!(out, "{}", if asked == 0 { nominal } else { asked })
}

fn set_frequency(session: &Session, word: &str) -> Result<(), Errno> {
    let mhz: u64 = word.parse().map_err(|_| Errno::Inval)?;
    execute(session, &alloc::format!("frequency {mhz}"))
}

fn idle(session: &Session, out: &mut Page) -> fmt::Result {
    let gates = commands::gates_idle(session.kernel);
    out.write_str(if gates { "clocked [gated]\n" } else { "[clocked] gated\n" })
}

fn set_idle(session: &Session, word: &str) -> Result<(), Errno> {
    match word {
        "clocked" => execute(session, "idle clocked"),
        "gated" => execute(session, "idle gated"),
        _ => Err(Errno::Inval),
    }
}
