//! A board under test: started in its own folder, controlled through its console, and cleaned up
//! when dropped.

use crate::instance::{Instance, InstanceError, tail};
use crate::machine::Options;
use crate::network::Network;
use crate::notes::put_aside;
use crate::run_files::CONSOLE;
use builds::kernels::Built;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use thiserror::Error;
use tree::counted::Counted;
use tree::interrupt;

/// Longer than any step of a healthy board takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Why a scenario failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// The board did not start or stop.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The expected text did not appear on the console.
    #[error("waited {waited:.1} s for {wanted:?}, not seen; the last output:\n{last}")]
    Silent {
        /// The expected text.
        wanted: String,
        /// Waiting time in seconds.
        waited: f64,
        /// The last output.
        last: String,
    },
    /// The tests were interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The console was closed: the board is gone.
    #[error("the board ended while {0:?} was awaited")]
    Ended(String),
    /// An error of the host: a file, a socket of the board, a command.
    #[error("the host: {0}")]
    Host(#[from] std::io::Error),
    /// It needs something that is not installed.
    #[error("left out: {0}")]
    LeftOut(&'static str),
    /// Any other failure.
    #[error("{0}")]
    Wrong(String),
}

/// Time between two checks for an interrupt.
const LOOK: Duration = Duration::from_millis(200);

/// A running board and its console.
pub struct Rig {
    /// Its run folder.
    pub instance: Instance,
    console: UnixStream,
    output: Receiver<Vec<u8>>,
    seen: String,
    /// Start of the output that no `expect` has consumed.
    next: usize,
    /// Start time of the soc.
    pub started: Instant,
    /// The kernels of its domains.
    pub kernels: Vec<Built>,
    /// Whether the sanitizer is active, which makes storms many times slower.
    pub watched: bool,
    /// What the scenario has done so far.
    pub counted: Counted,
    parts: Parts,
    /// Another rig has taken over its folder.
    replaced: bool,
}

/// Parameters of a rig.
#[derive(Clone)]
pub struct Parts {
    /// The run folder.
    pub folder: PathBuf,
    /// The soc's binary.
    pub soc: PathBuf,
    /// The board file.
    pub board_file: PathBuf,
    /// The kernels of its ISAs.
    pub kernels: Vec<Built>,
    /// Options of the start.
    pub options: Options,
}

impl Rig {
    /// Starts the board and attaches to its console before the kernels print anything.
    pub fn start(parts: &Parts) -> Result<Self, Failure> {
        let instance = Instance::at(parts.folder.clone());
        let started = Instant::now();
        instance.start(&parts.soc, &parts.board_file, &parts.kernels, &parts.options)?;
        let console = match UnixStream::connect(instance.path(CONSOLE)) {
            Ok(console) => console,
            Err(e) => {
                instance.stop()?;
                return Err(e.into());
            }
        };
        let output = heard(&console)?;
        let watched = parts.options.is_watched();
        let (kernels, seen) = (parts.kernels.clone(), String::new());
        let (parts, replaced) = (parts.clone(), false);
        let rig = Self {
            instance,
            console,
            output,
            seen,
            next: 0,
            started,
            kernels,
            watched,
            counted: Counted::default(),
            parts,
            replaced,
        };
        Ok(rig)
    }

    /// Returns its parameters.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Sets the kernels' command line for the next start.
    pub fn set_arguments(&mut self, arguments: &str) {
        self.parts.options.arguments = Some(arguments.to_string());
    }

    /// Sets what the network device is attached to from the next start on.
    pub fn set_network(&mut self, network: Network) {
        self.parts.options.network = network;
    }

    /// Stops the board, runs `between`, and starts the board again; its disk stays.
    pub fn restart(
        &mut self,
        between: impl FnOnce(&Instance) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.instance.stop()?;
        between(&self.instance)?;
        let mut before = std::mem::replace(self, Rig::start(&self.parts)?);
        before.replaced = true;
        self.seen = std::mem::take(&mut before.seen);
        self.counted = std::mem::take(&mut before.counted);
        self.next = self.seen.len();
        Ok(())
    }

    /// Attaches to the console of the next life of a board that restarts.
    pub fn rejoin(&mut self) -> Result<(), Failure> {
        // The rest of this life's output comes before or after the soc's message about it.
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.hear(&bytes);
        }
        let told = self.seen[self.next..].contains("[soc] The board starts again.");
        self.next = self.seen.len();
        if !told {
            return Err(Failure::Wrong("the board did not start again".to_string()));
        }
        self.console = self.instance.connect(CONSOLE)?;
        self.output = heard(&self.console)?;
        Ok(())
    }

    /// Waits until the console has printed `text` (after what was expected before). Returns the
    /// output up to it.
    pub fn expect(&mut self, text: &str, patience: Duration) -> Result<String, Failure> {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen[self.next..].find(text) {
                let end = self.next + at + text.len();
                let said = self.seen[self.next..end].to_string();
                self.next = end;
                return Ok(said);
            }
            let left = patience.saturating_sub(start.elapsed());
            if interrupt::came() {
                return Err(Failure::Interrupted);
            }
            match self.output.recv_timeout(left.min(LOOK)) {
                Ok(bytes) => self.hear(&bytes),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Ended(text.to_string()));
                }
                Err(RecvTimeoutError::Timeout) if left <= LOOK => {
                    return Err(self.silent(text, start.elapsed()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.seen.push_str(&String::from_utf8_lossy(bytes));
        put_aside(&mut self.seen, self.next);
    }

    fn silent(&self, wanted: &str, waited: Duration) -> Failure {
        let lines: Vec<&str> = self.seen.lines().collect();
        let mut last: String = lines[lines.len().saturating_sub(12)..].join("\n");
        last.push('\n');
        for log in ["main.log", "soc.log"] {
            last.push_str(&format!("{log}:\n{}", tail(&self.instance.path(log), 6)));
        }
        Failure::Silent { wanted: wanted.to_string(), waited: waited.as_secs_f64(), last }
    }

    /// Types `line` and a carriage return.
    pub fn send(&mut self, line: &str) -> Result<(), Failure> {
        self.console.write_all(line.as_bytes())?;
        self.console.write_all(b"\r")?;
        Ok(())
    }

    /// Types keys without a carriage return.
    pub fn type_keys(&mut self, keys: &str) -> Result<(), Failure> {
        Ok(self.console.write_all(keys.as_bytes())?)
    }

    /// Types `line`. Returns the output up to the next prompt of `kernel`.
    pub fn ask(&mut self, kernel: &str, line: &str, patience: Duration) -> Result<String, Failure> {
        self.send(line)?;
        self.expect(&format!("{kernel}> "), patience)
    }

    /// Returns the QEMU of `domain`; waits for it to start.
    pub fn machine(&self, domain: &str, patience: Duration) -> Result<Pid, Failure> {
        let start = Instant::now();
        loop {
            if let Some(pid) = self.instance.machine(domain) {
                return Ok(pid);
            }
            if start.elapsed() > patience {
                return Err(Failure::Wrong(format!("domain {domain} has no QEMU")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the QEMU of `domain`, as kill -9 does.
    pub fn kill(&self, domain: &str) -> Result<(), Failure> {
        self.signal(domain, Signal::KILL)
    }

    /// Stops or continues the process of the QEMU of `domain`, without the soc's knowledge.
    pub fn hang(&self, domain: &str, hung: bool) -> Result<(), Failure> {
        self.signal(domain, if hung { Signal::STOP } else { Signal::CONT })
    }

    fn signal(&self, domain: &str, signal: Signal) -> Result<(), Failure> {
        let pid = self.machine(domain, Duration::from_secs(5))?;
        kill_process(pid, signal).map_err(|e| Failure::Host(e.into()))
    }

    /// Sends the soc a request through its control socket.
    pub fn control(&self, operation: &serde_json::Value) -> Result<serde_json::Value, Failure> {
        let answer = soc::control::ask(&self.instance.path("control.sock"), operation)?;
        if answer["ok"] == true {
            return Ok(answer);
        }
        Err(Failure::Wrong(format!("the soc was asked {operation} and said {answer}")))
    }

    /// Makes the power controller change the state of `domain`, without involving a kernel: off,
    /// inactive, wake.
    pub fn power(&self, domain: &str, action: &str) -> Result<(), Failure> {
        let operation = json!({ "op": "power", "domain": domain, "action": action });
        self.control(&operation).map(|_| ())
    }

    /// Returns the chip time, from the soc.
    pub fn chip_time(&self) -> Result<u64, Failure> {
        let status = self.control(&json!({ "op": "status" }))?;
        status["time_ns"].as_u64().ok_or(Failure::Wrong(format!("no time in {status}")))
    }

    /// Kills the soc.
    pub fn kill_soc(&self) -> Result<(), Failure> {
        let pid = self.instance.soc().ok_or(Failure::Wrong("there is no soc".to_string()))?;
        kill_process(pid, Signal::KILL).map_err(|e| Failure::Host(e.into()))
    }

    /// Returns the early log of `domain`.
    pub fn early_log(&self, domain: &str) -> String {
        let path = self.instance.path(&format!("{domain}.log"));
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Waits until the `count`th `aside COMMAND` of `domain` has printed `text`. Returns its output
    /// up to there.
    pub fn said_aside(
        &self,
        domain: &str,
        command: &str,
        text: &str,
        count: usize,
    ) -> Result<String, Failure> {
        let start = Instant::now();
        let name = format!("] {command}: ");
        loop {
            let log = self.early_log(domain);
            let mut answers = log.match_indices(&name).filter_map(|(at, _)| {
                let answer = &log[at + name.len()..];
                answer.find(text).map(|end| &answer[..end + text.len()])
            });
            if let Some(answer) = answers.nth(count - 1) {
                return Ok(answer.to_string());
            }
            if start.elapsed() > PATIENCE {
                let text = format!("`{command}`, {count}: no {text:?} in the log:\n{log}");
                return Err(Failure::Wrong(text));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns all output of the console so far.
    pub fn transcript(&self) -> &str {
        &self.seen
    }
}

/// Receives the output of a console until it is closed.
fn heard(console: &UnixStream) -> std::io::Result<Receiver<Vec<u8>>> {
    let mut reader = console.try_clone()?;
    let (sender, output) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = reader.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    Ok(output)
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !self.replaced
            && let Err(e) = self.instance.stop()
        {
            eprintln!("pen: {}: {e}", self.instance.folder.display());
        }
    }
}
