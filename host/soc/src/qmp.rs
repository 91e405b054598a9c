//! A QMP client: the three jobs of [`crate::power::Job`], and reading the registers, each with a
//! time limit.
//!
//! Every QEMU has its own worker thread, so a slow emulator delays only its own requests. The
//! worker ends when the sender of its jobs is dropped.

use crate::fabric::Doorbell;
use crate::power::Job;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Maximum time for one job, and for a QEMU to open its socket.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(5);
/// Maximum length of a line.
const MAX_LINE: usize = 1 << 20;

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// Its socket failed.
    #[error("its QMP socket failed: {0}")]
    Io(#[from] std::io::Error),
    /// It did not answer in time.
    #[error("it did not answer within {PATIENCE:?}")]
    Timeout,
    /// It closed the connection.
    #[error("it closed its QMP socket")]
    Closed,
    /// It sent something that is not QMP.
    #[error("it does not speak QMP: {0}")]
    Protocol(String),
    /// It rejected the command.
    #[error("it refused: {0}")]
    Refused(String),
}

/// A connection to one QEMU.
#[derive(Debug)]
pub struct Qmp {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// Number of the last command.
    asked: u64,
}

impl Qmp {
    /// Negotiates on a new connection.
    pub fn new(stream: UnixStream, deadline: Instant) -> Result<Qmp, QmpError> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut qmp = Qmp { stream, buffer: Vec::new(), asked: 0 };
        let greeting = qmp.message(deadline)?;
        if greeting.get("QMP").is_none() {
            return Err(QmpError::Protocol(greeting.to_string()));
        }
        qmp.execute("qmp_capabilities", deadline)?;
        Ok(qmp)
    }

    /// Carries out one job.
    pub fn perform(&mut self, job: Job, deadline: Instant) -> Result<(), QmpError> {
        match job {
            Job::Stop => self.execute("stop", deadline).map(drop),
            Job::Continue => self.execute("cont", deadline).map(drop),
            Job::Reset => self.reset(deadline),
        }
    }

    /// Returns the cores' registers, as far as the emulator knows them. The cores keep running: a
    /// stopped one could be late from then on.
    pub fn registers(&mut self, deadline: Instant) -> Result<String, QmpError> {
        let command = json!({ "command-line": "info registers -a" });
        let order = json!({ "execute": "human-monitor-command", "arguments": command });
        let (registers, _) = self.ask(order, deadline)?;
        Ok(registers.as_str().unwrap_or_default().to_string())
    }

    /// Resets the machine. The RESET event comes after the answer or just before it.
    fn reset(&mut self, deadline: Instant) -> Result<(), QmpError> {
        self.execute("stop", deadline)?;
        let mut happened = self.execute("system_reset", deadline)?;
        while !happened {
            happened = is_reset(&self.message(deadline)?);
        }
        Ok(())
    }

    /// Executes a command. Returns true if a RESET event came before its answer.
    fn execute(&mut self, command: &str, deadline: Instant) -> Result<bool, QmpError> {
        self.ask(json!({ "execute": command }), deadline).map(|(_, reset)| reset)
    }

    /// Sends a command. Returns the answer, and whether a RESET event came before it. Late answers
    /// to abandoned commands are skipped.
    fn ask(&mut self, mut order: Value, deadline: Instant) -> Result<(Value, bool), QmpError> {
        self.asked += 1;
        order["id"] = self.asked.into();
        self.stream.write_all(format!("{order}\r\n").as_bytes())?;
        let mut reset = false;
        loop {
            let mut message = self.message(deadline)?;
            if message.get("id").is_some_and(|id| *id != self.asked) {
                continue;
            }
            if let Some(answer) = message.get_mut("return") {
                return Ok((answer.take(), reset));
            }
            if let Some(error) = message.get("error") {
                return Err(QmpError::Refused(error.to_string()));
            }
            reset |= is_reset(&message);
        }
    }

    fn message(&mut self, deadline: Instant) -> Result<Value, QmpError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|_| QmpError::Protocol(String::from_utf8_lossy(&line).into()));
            }
            if self.buffer.len() > MAX_LINE {
                return Err(QmpError::Protocol("a line without end".into()));
            }
            self.fill(deadline)?;
        }
    }

    fn fill(&mut self, deadline: Instant) -> Result<(), QmpError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(QmpError::Timeout);
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut bytes = [0u8; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(QmpError::Closed),
            Ok(n) => {
                self.buffer.extend_from_slice(&bytes[..n]);
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Err(QmpError::Timeout),
            Err(e) => Err(e.into()),
        }
    }
}

fn is_reset(message: &Value) -> bool {
    message.get("event").and_then(Value::as_str) == Some("RESET")
}

/// A worker's job.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// A job, and the number under which its end is reported.
    Job(Job, u64),
    /// Log the registers; nothing is reported.
    Look,
}

/// Domain, job number, success.
pub type Outcome = (usize, u64, bool);

/// The worker of one QEMU.
#[derive(Debug)]
pub struct Worker {
    /// Index of the domain.
    pub domain: usize,
    /// Its name, for the log.
    pub name: String,
    /// QEMU's QMP socket.
    pub path: PathBuf,
    /// Receives the outcomes.
    pub outcomes: Sender<Outcome>,
    /// Rung after each outcome.
    pub bell: Arc<Doorbell>,
}

impl Worker {
    /// Serves jobs until all senders are gone.
    pub fn run(self, orders: &Receiver<Order>) {
        let Some((mut qmp, early)) = self.connect(orders) else { return };
        if let Some(order) = early {
            self.serve(&mut qmp, order);
        }
        while let Ok(order) = orders.recv() {
            self.serve(&mut qmp, order);
        }
    }

    fn serve(&self, qmp: &mut Result<Qmp, QmpError>, order: Order) {
        let deadline = Instant::now() + PATIENCE;
        let (job, number) = match order {
            Order::Job(job, number) => (job, number),
            Order::Look => return self.look(qmp, deadline),
        };
        let result = match qmp {
            Ok(qmp) => qmp.perform(job, deadline).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        if let Err(e) = &result {
            log::error!("The emulator of {} failed at {job:?}: {e}.", self.name);
        }
        // The receiver is gone when the board ends.
        let _ = self.outcomes.send((self.domain, number, result.is_ok()));
        self.bell.ring();
    }

    fn look(&self, qmp: &mut Result<Qmp, QmpError>, deadline: Instant) {
        match qmp.as_mut().map(|qmp| qmp.registers(deadline)) {
            Ok(Ok(registers)) => log::warn!("The registers of {}:\n{registers}", self.name),
            Ok(Err(e)) => log::error!("The emulator of {} does not answer: {e}.", self.name),
            Err(e) => log::error!("The emulator of {} cannot be asked: {e}.", self.name),
        }
    }

    /// Connects as soon as QEMU has created its socket. Returns `None` if that QEMU has ended: the
    /// socket may then belong to its successor, which has its own worker.
    fn connect(&self, orders: &Receiver<Order>) -> Option<Connected> {
        let deadline = Instant::now() + PATIENCE;
        let mut early = None;
        loop {
            let attempt = UnixStream::connect(&self.path);
            match orders.recv_timeout(if early.is_none() { RETRY } else { Duration::ZERO }) {
                Ok(order) => early = Some(order),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if early.is_some() => std::thread::sleep(RETRY),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match attempt {
                Ok(stream) => return Some((Qmp::new(stream, deadline), early)),
                Err(e) if Instant::now() >= deadline => return Some((Err(e.into()), early)),
                Err(_) => {}
            }
        }
    }
}

type Connected = (Result<Qmp, QmpError>, Option<Order>);

/// Removes a QMP socket left by an earlier QEMU.
pub fn remove_socket(path: &Path) {
    // Usually it does not exist.
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::thread::JoinHandle;

    /// Answers each expected command with the given lines.
    fn fake(script: &'static [(&'static str, &'static str)]) -> (UnixStream, JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut input = BufReader::new(theirs.try_clone().unwrap());
            let mut output = theirs;
            output.write_all(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
            for (command, answer) in script {
                let mut line = String::new();
                input.read_line(&mut line).unwrap();
                assert!(line.contains(command), "expected {command}, got {line}");
                output.write_all(answer.as_bytes()).unwrap();
            }
        });
        (ours, server)
    }

    fn soon() -> Instant {
        Instant::now() + PATIENCE
    }

    const HELLO: (&str, &str) = ("qmp_capabilities", "{\"return\": {}}\r\n");

    #[test]
    fn a_reset_waits_for_its_event_before_or_after_the_answer() {
        const STOP: (&str, &str) = ("stop", "{\"event\":\"STOP\"}\n{\"return\": {}}\n");
        static AFTER: [(&str, &str); 3] =
            [HELLO, STOP, ("system_reset", "{\"return\":{}}\n{\"event\":\"RESET\"}\n")];
        static BEFORE: [(&str, &str); 3] =
            [HELLO, STOP, ("system_reset", "{\"event\":\"RESET\"}\n{\"return\":{}}\n")];
        for script in [&AFTER, &BEFORE] {
            let (stream, server) = fake(script);
            let mut qmp = Qmp::new(stream, soon()).unwrap();
            qmp.perform(Job::Reset, soon()).unwrap();
            server.join().unwrap();
        }
    }

    #[test]
    fn a_late_answer_is_not_the_next_one() {
        // The first command is abandoned before its answer comes; the next job gets its own answer.
        static LATE: [(&str, &str); 3] = [
            HELLO,
            ("human-monitor-command", ""),
            ("stop", "{\"return\": \"late\", \"id\": 2}\n{\"error\": {}, \"id\": 3}\n"),
        ];
        let (stream, server) = fake(&LATE);
        let mut qmp = Qmp::new(stream, soon()).unwrap();
        assert!(matches!(qmp.registers(Instant::now()), Err(QmpError::Timeout)));
        assert!(matches!(qmp.perform(Job::Stop, soon()), Err(QmpError::Refused(_))));
        server.join().unwrap();
    }

    #[test]
    fn refusal_silence_end_and_nonsense_are_told_apart() {
        static REFUSES: [(&str, &str); 2] = [HELLO, ("cont", "{\"error\":{\"desc\":\"no\"}}\n")];
        let (stream, server) = fake(&REFUSES);
        let mut qmp = Qmp::new(stream, soon()).unwrap();
        assert!(matches!(qmp.perform(Job::Continue, soon()), Err(QmpError::Refused(_))));
        server.join().unwrap();
        assert!(qmp.perform(Job::Stop, soon()).is_err(), "the server is gone");

        let (ours, silent) = UnixStream::pair().unwrap();
        assert!(matches!(Qmp::new(ours, Instant::now()), Err(QmpError::Timeout)));
        drop(silent);

        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"hello\n").unwrap();
        assert!(matches!(Qmp::new(ours, soon()), Err(QmpError::Protocol(_))));
    }

    #[test]
    fn a_worker_reports_and_ends_with_its_sender() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qmp");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let (outcomes, results) = std::sync::mpsc::channel();
        let (sender, orders) = std::sync::mpsc::channel();
        let bell = Arc::new(Doorbell::new().unwrap());
        let worker = Worker { domain: 3, name: "x".into(), path, outcomes, bell: bell.clone() };
        let thread = std::thread::spawn(move || worker.run(&orders));
        sender.send(Order::Job(Job::Stop, 42)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"{\"QMP\":{}}\n{\"return\":{}}\n{\"return\":{}}\n").unwrap();
        assert_eq!(results.recv().unwrap(), (3, 42, true));
        drop(sender);
        thread.join().unwrap();
        assert!(bell.take());
    }
}
