//! Connects this terminal to a board's console. Ctrl-a x leaves, ctrl-a ? shows help.
//!
//! Standard input may be a pipe: it is sent when the board prompts, and after its end the output is
//! shown until the board prompts again and is quiet. The console ends when the soc does. If the
//! board starts again, the console waits for it and continues; keys typed meanwhile are lost.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;
use workbench::instance::{Instance, tail};
use workbench::life::Life;
use workbench::run_files::CONSOLE;

/// After the end of piped input: silence after a prompt for this time means that the output is
/// complete.
const QUIET: Duration = Duration::from_millis(1500);
/// Silence without a prompt for this time: there will be no more output.
const SILENT: Duration = Duration::from_secs(60);
/// An unfinished line for this time is a prompt.
const STEADY: Duration = Duration::from_millis(300);
const ESCAPE: u8 = 1;
const RESTARTED: &str = "\r\n[pen: the board was restarted]\r\n";
const HELP: &str = "\r\n[pen: ctrl-a x leaves, ctrl-a ctrl-a sends one, ctrl-a ? this help]\r\n";

/// Why the console ended, other than at the user's request.
#[derive(Debug, Error)]
pub enum ConsoleError {
    /// The board's socket does not answer.
    #[error("cannot attach to {0}: {1}")]
    Attach(String, std::io::Error),
    /// The board died while attached.
    #[error("the board \"{name}\" has ended\n{tail}(logs: {folder})")]
    Ended {
        /// The board's name.
        name: String,
        /// End of the soc's log.
        tail: String,
        /// Its run folder.
        folder: String,
    },
    /// The terminal failed.
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// An event on either side.
enum Event {
    /// Ctrl-a x.
    Leave,
    /// Keys were typed.
    Input,
    /// Standard input has ended.
    InputEnd,
    /// Output from the board.
    Output(Vec<u8>),
    /// The connection to the board ended.
    Gone,
}

/// Restores the terminal mode when dropped.
struct Raw(Termios);

impl Raw {
    fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // An error is ignored: the terminal is gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Attaches until the user leaves (Ok) or the board ends (Err).
pub fn attach(instance: &Instance, replay: bool) -> Result<(), ConsoleError> {
    let path = instance.path(CONSOLE);
    let failed = |e| ConsoleError::Attach(path.display().to_string(), e);
    let life = instance.life();
    let socket = instance.connect(CONSOLE).map_err(failed)?;
    let reader = socket.try_clone().map_err(failed)?;
    let line = Arc::new(Line { instance: instance.clone(), socket: Mutex::new(socket) });
    if std::io::stdin().is_terminal() {
        eprintln!("[pen: attached to {}; ctrl-a x leaves]", instance.name);
    }
    if replay {
        eprint!("{}", tail(&instance.path("console.log"), 10));
    }
    let raw = Raw::enter();
    let (events, inbox) = channel();
    let (output, keys) = (events.clone(), line.clone());
    let log = instance.path("console.log");
    std::thread::spawn(move || read_board(&line, reader, life, &output));
    std::thread::spawn(move || {
        if !std::io::stdin().is_terminal() {
            wait_for_prompt(&log);
        }
        read_person(&keys, &events);
    });
    let result = show(&inbox);
    drop(raw);
    match result? {
        true => Ok(()),
        false => Err(ConsoleError::Ended {
            name: instance.name.clone(),
            tail: tail(&instance.path("soc.log"), 8),
            folder: instance.folder.display().to_string(),
        }),
    }
}

/// Shows output. Returns true if the user left, false if the board is gone.
fn show(inbox: &Receiver<Event>) -> Result<bool, ConsoleError> {
    let mut out = std::io::stdout().lock();
    let (mut input_ended, mut prompted) = (false, true);
    loop {
        let event = if input_ended {
            match inbox.recv_timeout(if prompted { QUIET } else { SILENT }) {
                Ok(event) => event,
                Err(_) => return Ok(true),
            }
        } else {
            inbox.recv().unwrap_or(Event::Gone)
        };
        match event {
            Event::Leave => {
                out.write_all(b"\r\n")?;
                return Ok(true);
            }
            Event::Input => prompted = false,
            Event::InputEnd => input_ended = true,
            Event::Gone => return Ok(false),
            Event::Output(bytes) => {
                out.write_all(&bytes)?;
                out.flush()?;
                prompted = is_prompt(&bytes);
            }
        }
    }
}

/// An unfinished line is a prompt, unless it continues soon.
fn is_prompt(said: &[u8]) -> bool {
    said.last().is_some_and(|last| *last != b'\n')
}

/// Waits for a prompt before piped input is sent: a booting board may drop earlier input.
fn wait_for_prompt(log: &Path) {
    let start = Instant::now();
    let mut seen = (0, start);
    while start.elapsed() < SILENT {
        let length = log.metadata().map_or(0, |log| log.len());
        if length != seen.0 {
            seen = (length, Instant::now());
        } else if seen.1.elapsed() > STEADY && ends_in_prompt(log).unwrap_or(false) {
            return;
        }
        std::thread::sleep(STEADY / 6);
    }
}

fn ends_in_prompt(log: &Path) -> std::io::Result<bool> {
    let (mut log, mut last) = (File::open(log)?, [0]);
    log.seek(SeekFrom::End(-1))?;
    log.read_exact(&mut last)?;
    Ok(is_prompt(&last))
}

/// The connection to the board, across restarts.
struct Line {
    instance: Instance,
    socket: Mutex<UnixStream>,
}

impl Line {
    /// Sends bytes. While the board is down they are dropped; the reading side notices.
    fn send(&self, bytes: &[u8]) {
        let _ = self.socket.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes);
    }

    /// The board starts again: reconnects once its next life is up.
    fn again(&self) -> Option<UnixStream> {
        let socket = self.instance.connect(CONSOLE).ok()?;
        let reader = socket.try_clone().ok()?;
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
        Some(reader)
    }
}

fn read_board(line: &Line, mut socket: UnixStream, mut life: Life, events: &Sender<Event>) {
    let mut buffer = [0; 4096];
    loop {
        while let Ok(n @ 1..) = socket.read(&mut buffer) {
            if events.send(Event::Output(buffer[..n].to_vec())).is_err() {
                return;
            }
        }
        if !life.is_over() {
            break;
        }
        // If that life ends before we connect, we wait for one that does not come, until the
        // timeout.
        life = line.instance.life();
        let Some(next) = line.again() else { break };
        socket = next;
        // An error means that the user left.
        let _ = events.send(Event::Output(RESTARTED.as_bytes().to_vec()));
    }
    let _ = events.send(Event::Gone);
}

fn read_person(line: &Line, events: &Sender<Event>) {
    let (mut buffer, mut escaped) = ([0; 4096], false);
    while let Ok(n @ 1..) = std::io::stdin().lock().read(&mut buffer) {
        let mut send = Vec::with_capacity(n);
        let _ = events.send(Event::Input);
        for &byte in &buffer[..n] {
            match (std::mem::take(&mut escaped), byte) {
                (true, b'x' | b'X') => {
                    // Bytes before the escape are still sent; the board may be gone.
                    line.send(&send);
                    let _ = events.send(Event::Leave);
                    return;
                }
                (true, b'?' | b'h') => {
                    let _ = events.send(Event::Output(HELP.as_bytes().to_vec()));
                }
                (false, ESCAPE) => escaped = true,
                (_, byte) => send.push(byte),
            }
        }
        line.send(&send);
    }
    let _ = events.send(Event::InputEnd);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_input_waits_for_a_prompt() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("console.log");
        let start = Instant::now();
        let boots = {
            let log = log.clone();
            std::thread::spawn(move || {
                for said in ["it boots\r\n", "it boots\r\nand boots\r\n", "it boots\r\n/ $ "] {
                    std::fs::write(&log, said).unwrap();
                    std::thread::sleep(2 * STEADY);
                }
            })
        };
        wait_for_prompt(&log);
        assert!(start.elapsed() > 4 * STEADY, "{:?}", start.elapsed());
        boots.join().unwrap();
    }

    #[test]
    fn who_pipes_leaves_behind_the_prompt_that_follows_the_answer() {
        let (events, inbox) = channel();
        let shows = std::thread::spawn(move || show(&inbox));
        let said = |text: &[u8]| events.send(Event::Output(text.to_vec())).unwrap();
        said(b"/ $ ");
        events.send(Event::Input).unwrap();
        events.send(Event::InputEnd).unwrap();
        // It works for longer than a prompt may be quiet.
        std::thread::sleep(QUIET + STEADY);
        said(b"ls\r\n");
        std::thread::sleep(QUIET + STEADY);
        assert!(!shows.is_finished());
        said(b"bin\r\n/ $ ");
        let start = Instant::now();
        assert!(shows.join().unwrap().unwrap());
        assert!(start.elapsed() < 10 * QUIET);
    }
}
