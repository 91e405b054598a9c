//! One QEMU with Debian's kernel in it: its command line, its life, and what a person may choose.
//!
//! Cases of the DMA engine need the chip around it: a soc runs, and the QEMU under it (`chip.rs`).
//! All others run in a QEMU of our own. It dies with us: it is killed when [`Guest`] is dropped,
//! and by the system when this process is killed.

use super::chip::Chip;
use super::packages::Kernel;
use super::records::{self, Reader};
use super::{Folders, chip};
use crate::place::Place;
use crate::progress::Step;
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
/// Longer than any case takes without a word.
const PATIENCE: Duration = Duration::from_secs(300);
/// How soon an interrupt from the keyboard is seen.
const LOOK: Duration = Duration::from_millis(200);
/// The case that is none: busybox's shell on this terminal.
const SHELL: &str = "shell";

/// What a person may choose.
#[derive(clap::Args, Clone, Debug)]
pub struct Choice {
    /// A case, or the beginning of the names of several; "shell" to look around.
    #[arg(default_value = "all")]
    case: String,
    /// Count instructions: one nanosecond of the guest each, the same in every run.
    #[arg(long)]
    icount: bool,
    /// The core; cortex-a76, or cortex-a53 with --icount, without it.
    #[arg(long)]
    cpu: Option<String>,
    /// Measured rounds, instead of each case's own.
    #[arg(long)]
    rounds: Option<u32>,
    /// Rounds before the measured ones, instead of each case's own.
    #[arg(long)]
    warmup: Option<u32>,
    /// After the work of one case, idle for so many seconds before the records come.
    #[arg(long)]
    idle_after: Option<u32>,
}

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum GuestError {
    /// No QEMU.
    #[error("cannot run {0}: {1}; `./pen setup` installs it")]
    Start(&'static str, std::io::Error),
    /// The engine's clock is the host's.
    #[error("the DMA engine works in the host's time, which --icount knows nothing of")]
    Time,
    /// Ctrl-c, or a kill.
    #[error("interrupted")]
    Interrupted,
    /// Silence.
    #[error("the guest was silent for {0} s; the console's last words:\n{1}")]
    Silent(u64, String),
    /// It ended badly.
    #[error("{why}; the console's last words:\n{last}")]
    Bad {
        /// What the guest said of it.
        why: records::RecordError,
        /// The end of the console.
        last: String,
    },
}

impl Choice {
    fn cpu(&self) -> &str {
        let usual = if self.icount { "cortex-a53" } else { "cortex-a76" };
        self.cpu.as_deref().unwrap_or(usual)
    }

    fn needs_chip(&self) -> bool {
        self.case.starts_with(chip::CASES)
    }

    /// The kernel's command line. Without `nokaslr` two runs would differ.
    fn arguments(&self) -> String {
        let mut line = format!("console=ttyAMA0 nokaslr panic=-1 penumbra.case={}", self.case);
        if self.case != SHELL {
            line.push_str(" quiet");
        }
        let more =
            [("rounds", self.rounds), ("warmup", self.warmup), ("idle_after", self.idle_after)];
        for (name, value) in more.into_iter().filter_map(|(n, v)| Some((n, v?))) {
            line.push_str(&format!(" penumbra.{name}={value}"));
        }
        line
    }

    /// What the figures depend on, for their records.
    fn config(&self, kernel: &Kernel) -> String {
        let mode = if self.icount { "icount" } else { "tcg" };
        let mut text = format!("{mode}; {}; Linux {}", self.cpu(), kernel.release);
        if self.needs_chip() {
            text.push_str(&format!("; chip {}", chip::BOARD));
        }
        for (name, value) in [("rounds", self.rounds), ("warmup", self.warmup)] {
            if let Some(value) = value {
                text.push_str(&format!("; {name}={value}"));
            }
        }
        text
    }
}

/// What every guest has: QEMU's command line without console and memory, program first; `more`
/// goes on the kernel's.
pub fn command(kernel: &Path, image: &Path, choice: &Choice, more: &str) -> Vec<String> {
    let mut line: Vec<String> =
        [PROGRAM, "-cpu", choice.cpu(), "-smp", "1"].map(String::from).to_vec();
    line.extend(["-nodefaults", "-display", "none"].map(String::from));
    // Nothing of the host's: neither its random numbers nor its time of day.
    line.extend(["-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"].map(String::from));
    line.extend(["-no-reboot", "-kernel"].map(String::from));
    line.push(kernel.display().to_string());
    line.extend(["-initrd".to_string(), image.display().to_string()]);
    line.extend(["-append".to_string(), format!("{}{more}", choice.arguments())]);
    let counting = ["-icount", "shift=0,sleep=off"];
    let free = ["-accel", "tcg,thread=multi"];
    line.extend((if choice.icount { counting } else { free }).map(String::from));
    line
}

/// The whole of it for a guest without a chip.
fn alone(kernel: &Path, image: &Path, choice: &Choice) -> Vec<String> {
    let mut line = command(kernel, image, choice, "");
    line.extend(["-M", "virt,gic-version=2", "-m", "1G", "-serial", "stdio"].map(String::from));
    line
}

/// A QEMU and the lines that it says.
struct Guest {
    child: Child,
    lines: Receiver<String>,
}

impl Guest {
    /// Starts it; the system kills it when the calling thread ends, which must be the main one.
    fn start(line: &[String]) -> Result<Self, GuestError> {
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
        // It has ended already unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `pen lab linux run`
pub fn run(
    place: &Place,
    folders: &Folders,
    kernel: &Kernel,
    image: &Path,
    choice: &Choice,
) -> anyhow::Result<ExitCode> {
    let paths = (kernel.image(), image);
    if choice.case == SHELL {
        return shell(&alone(&paths.0, paths.1, choice));
    }
    let step = Step::begin("Linux measures");
    // Whichever it is lives until this function ends.
    let (mut guest, mut chip) = (None, None);
    let lines = if choice.needs_chip() {
        if choice.icount {
            return Err(GuestError::Time.into());
        }
        let line = |more: &str| command(&paths.0, paths.1, choice, more);
        &chip.insert(Chip::start(place, folders, line)?).lines
    } else {
        &guest.insert(Guest::start(&alone(&paths.0, paths.1, choice))?).lines
    };
    let config = choice.config(kernel);
    let console = folders.base.join("console.log");
    let (mut reader, mut said) = (Reader::default(), String::new());
    let ended = listen(lines, &mut said, |line| {
        if let Some(figure) = reader.line(line) {
            println!("{}", records::json(&figure, choice.icount, &config)?);
        }
        Ok(())
    });
    // The console helps to understand a failure; it is no failure of its own.
    let _ = std::fs::write(&console, &said);
    ended?;
    let last = last_lines(&said);
    reader.end().map_err(|why| GuestError::Bad { why, last })?;
    step.done();
    Ok(ExitCode::SUCCESS)
}

/// Hands every line on, until the guest has closed its console.
fn listen(
    lines: &Receiver<String>,
    said: &mut String,
    mut take: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
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
        if interrupted.load(Ordering::Relaxed) {
            return Err(GuestError::Interrupted.into());
        }
    }
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(10)..].iter().map(|l| format!("    {l}\n")).collect()
}

/// The guest's console on this terminal, until the shell ends.
fn shell(line: &[String]) -> anyhow::Result<ExitCode> {
    let status = Command::new(&line[0]).args(&line[1..]).status();
    let status = status.map_err(|e| GuestError::Start(PROGRAM, e))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(icount: bool) -> Choice {
        Choice {
            case: "udp".to_string(),
            icount,
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
    }

    #[test]
    fn counting_and_free_running_exclude_each_other() {
        let line = |icount| alone(Path::new("k"), Path::new("i"), &choice(icount)).join(" ");
        assert!(line(true).contains("-cpu cortex-a53") && line(true).contains("-icount"));
        assert!(line(false).contains("-cpu cortex-a76") && !line(false).contains("-icount"));
        assert!(line(false).contains("thread=multi"));
    }
}
