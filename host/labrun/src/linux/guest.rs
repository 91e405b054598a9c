//! A QEMU with Debian's kernel: its command line, its execution, and the options of `pen lab linux
//! run`.
//!
//! Benchmarks of the DMA engine need the chip around it: a soc, which runs the QEMU (`chip.rs`).
//! All others run in a QEMU started here. It ends with this process: dropping [`Guest`] kills it,
//! and so does the system when this process is killed.

use super::packages::Kernel;
use super::{chip, records};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use thiserror::Error;

const PROGRAM: &str = "qemu-system-aarch64";
/// Longer than any benchmark is silent.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between two checks for an interrupt from the keyboard.
const LOOK: Duration = Duration::from_millis(200);
/// Instead of a benchmark: busybox's shell on this terminal.
pub const SHELL: &str = "shell";

/// Options of `pen lab linux run`.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choice {
    /// A benchmark, or the prefix of several; "shell" for a shell.
    #[arg(default_value = "all")]
    pub case: String,
    /// A frequency in MHz, in the lab; may be repeated. By default, 350 and 1200.
    #[arg(long, value_name = "MHZ")]
    pub mhz: Vec<u32>,
    /// Instead of the lab: count instructions, one nanosecond of the guest each.
    #[arg(long, conflicts_with = "mhz")]
    pub icount: bool,
    /// The core. By default, cortex-a76, or cortex-a53 with --icount.
    #[arg(long)]
    pub cpu: Option<String>,
    /// Number of measured rounds, instead of each benchmark's own.
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Number of rounds before the measured ones, instead of each benchmark's own.
    #[arg(long)]
    pub warmup: Option<u32>,
    /// Run each benchmark once and without warm-up, as after a wake.
    #[arg(long, conflicts_with_all = ["rounds", "warmup"])]
    pub cold: bool,
    /// Set every cost but the instruction's to zero.
    #[arg(long)]
    pub no_costs: bool,
    /// After a benchmark's work, idle for this many seconds before the records are printed; in the
    /// lab, 5 by default.
    #[arg(long)]
    pub idle_after: Option<u32>,
    /// List the benchmarks, and measure none.
    #[arg(skip)]
    pub list: bool,
}

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum GuestError {
    /// QEMU could not be started.
    #[error("cannot run {0}: {1}; `./pen setup` installs it")]
    Start(&'static str, std::io::Error),
    /// Another one is running.
    #[error("another run of the lab's Linux is in progress: wait until it ends")]
    Busy,
    /// The engine needs the lab's clock.
    #[error("the DMA engine works in the lab's time; run these cases without --icount")]
    Time,
    /// Interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
    /// The guest was silent for too long.
    #[error("the guest was silent for {0} s; its last output:\n{1}")]
    Silent(u64, String),
    /// The guest failed.
    #[error("{why}; the last output:\n{last}")]
    Bad {
        /// The failure.
        why: records::RecordError,
        /// The last lines on the console.
        last: String,
    },
}

impl Choice {
    fn cpu(&self) -> &str {
        let usual = if self.icount { "cortex-a53" } else { "cortex-a76" };
        self.cpu.as_deref().unwrap_or(usual)
    }

    /// Returns whether it is a benchmark of the DMA engine.
    pub fn needs_chip(&self) -> bool {
        self.case.starts_with(chip::CASES)
    }

    fn rounds(&self) -> Option<u32> {
        if self.cold { Some(1) } else { self.rounds }
    }

    fn warmup(&self) -> Option<u32> {
        if self.cold { Some(0) } else { self.warmup }
    }

    /// Returns the name of a series of the lab, and of its file.
    pub fn title(&self) -> &'static str {
        if self.cold { "linux-cold" } else { "linux" }
    }

    /// Returns the kernel's command line. Without `nokaslr` two runs would differ.
    fn arguments(&self) -> String {
        let mut line = format!("console=ttyAMA0 nokaslr panic=-1 penumbra.case={}", self.case);
        if self.case != SHELL {
            line.push_str(" quiet");
        }
        let more = [
            ("rounds", self.rounds()),
            ("warmup", self.warmup()),
            ("idle_after", self.idle_after),
            ("list", self.list.then_some(1)),
        ];
        for (name, value) in more.into_iter().filter_map(|(n, v)| Some((n, v?))) {
            line.push_str(&format!(" penumbra.{name}={value}"));
        }
        line
    }

    /// Describes what the figures depend on, for their records.
    pub fn config(&self, images: &Images<'_>) -> String {
        let mode = if self.icount { "icount; " } else { "" };
        let mut text = format!("{mode}{}; Linux {}", self.cpu(), images.kernel.release);
        for (name, value) in [("rounds", self.rounds()), ("warmup", self.warmup())] {
            if let Some(value) = value {
                text.push_str(&format!("; {name}={value}"));
            }
        }
        text
    }
}

/// The files that a guest boots.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// Debian's kernel.
    pub kernel: &'a Kernel,
    /// Our initial RAM disk.
    pub disk: &'a Path,
}

/// Returns QEMU's command line without console and memory, program first; `more` is appended to the
/// kernel's command line.
pub fn command(images: &Images<'_>, choice: &Choice, more: &str) -> Vec<String> {
    let mut line: Vec<String> =
        [PROGRAM, "-cpu", choice.cpu(), "-smp", "1"].map(String::from).to_vec();
    line.extend(["-nodefaults", "-display", "none"].map(String::from));
    // Nothing from the host: neither its random numbers nor its time of day.
    line.extend(["-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"].map(String::from));
    line.extend(["-no-reboot", "-kernel"].map(String::from));
    line.push(images.kernel.image().display().to_string());
    line.extend(["-initrd".to_string(), images.disk.display().to_string()]);
    line.extend(["-append".to_string(), format!("{}{more}", choice.arguments())]);
    let counting = ["-icount", "shift=0,sleep=off"];
    let free = ["-accel", "tcg,thread=multi"];
    line.extend((if choice.icount { counting } else { free }).map(String::from));
    line
}

/// Returns the complete command line for a guest without a chip.
pub fn alone(images: &Images<'_>, choice: &Choice) -> Vec<String> {
    let mut line = command(images, choice, "");
    line.extend(["-M", "virt,gic-version=2", "-m", "1G", "-serial", "stdio"].map(String::from));
    line
}

/// A QEMU, and its output by lines.
pub struct Guest {
    child: Child,
    /// Its output; closed when it has ended.
    pub lines: Receiver<String>,
}

impl Guest {
    /// Starts it. The system kills it when the calling thread ends, which must be the main thread.
    pub fn start(line: &[String]) -> Result<Self, GuestError> {
        let failed = |e| GuestError::Start(PROGRAM, e);
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .args(line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut bytes = Vec::new();
                while let Ok(1..) = output.read_until(b'\n', &mut bytes) {
                    if sender.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                        return;
                    }
                    bytes.clear();
                }
            });
        }
        Ok(Self { child, lines })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It has already ended, unless there was an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Set by ctrl-c or a termination signal: guests are stopped before this process ends.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts listening for signals.
    pub fn listen() -> std::io::Result<Interrupt> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, interrupted.clone())?;
        }
        Ok(Interrupt(interrupted))
    }

    /// Passes on every line of a guest until it has closed its console.
    pub fn lines(
        &self,
        lines: &Receiver<String>,
        said: &mut String,
        mut take: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut heard = Instant::now();
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) => {
                    heard = Instant::now();
                    said.push_str(&line);
                    take(&line)?;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() > PATIENCE => {
                    return Err(GuestError::Silent(PATIENCE.as_secs(), last_lines(said)).into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.0.load(Ordering::Relaxed) {
                return Err(GuestError::Interrupted.into());
            }
        }
    }
}

/// Returns the last lines of a guest's output.
pub fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(10)..].iter().map(|l| format!("    {l}\n")).collect()
}

/// Connects the guest's console to this terminal until the shell ends.
pub fn shell(line: &[String]) -> anyhow::Result<ExitCode> {
    let status = Command::new(&line[0]).args(&line[1..]).status();
    let status = status.map_err(|e| GuestError::Start(PROGRAM, e))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn choice(icount: bool) -> Choice {
        Choice {
            case: "udp".to_string(),
            mhz: vec![],
            list: false,
            cold: false,
            icount,
            no_costs: false,
            cpu: None,
            rounds: Some(3),
            warmup: None,
            idle_after: Some(5),
        }
    }

    #[test]
    fn the_guest_is_told_what_was_chosen() {
        let line = choice(false).arguments();
        assert!(line.contains("penumbra.case=udp quiet penumbra.rounds=3 penumbra.idle_after=5"));
        let line = Choice { cold: true, list: true, ..choice(false) }.arguments();
        let end = "penumbra.rounds=1 penumbra.warmup=0 penumbra.idle_after=5 penumbra.list=1";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn counting_and_free_running_exclude_each_other() {
        let kernel = Kernel { release: "6".to_string(), tree: PathBuf::new() };
        let images = Images { kernel: &kernel, disk: Path::new("i") };
        let line = |icount| alone(&images, &choice(icount)).join(" ");
        assert!(line(true).contains("-cpu cortex-a53") && line(true).contains("-icount"));
        assert!(line(false).contains("-cpu cortex-a76") && !line(false).contains("-icount"));
        assert!(line(false).contains("thread=multi"));
    }
}
