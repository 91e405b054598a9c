//! This terminal on a board's console: bytes both ways, ctrl-a x leaves, ctrl-a ? helps.
//!
//! Works with a pipe as standard input too: all of it is sent once somebody prompts for it, and
//! when it has ended the output is shown until the board prompts again and is quiet. Ends by itself
//! when the soc goes away; a board that starts again is waited for, and goes on here. Keys that it
//! cannot take then are lost.

use crate::instance::{Instance, tail};
use crate::life::Life;
use crate::run_files::CONSOLE;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// After the end of piped input, so much silence behind a prompt means that the answers are out.
const QUIET: Duration = Duration::from_millis(1500);
/// The same in the midst of something: nothing more will come.
const SILENT: Duration = Duration::from_secs(60);
/// A line that has not ended for so long is a prompt.
const STEADY: Duration = Duration::from_millis(300);
const ESCAPE: u8 = 1;
const RESTARTED: &str = "\r\n[pen: the board was restarted]\r\n";
const HELP: &str = "\r\n[pen: ctrl-a x leaves, ctrl-a ctrl-a sends one, ctrl-a ? this help]\r\n";

/// Why the console ended other than by the person's wish.
#[derive(Debug, Error)]
pub enum ConsoleError {
    /// No board behind the socket.
    #[error("cannot attach to {0}: {1}")]
    Attach(String, std::io::Error),
    /// The board died while attached.
    #[error("the board \"{name}\" has ended\n{tail}(logs: {folder})")]
    Ended {
        /// Which.
        name: String,
        /// End of the soc's log.
        tail: String,
        /// Its folder.
        folder: String,
    },
    /// The terminal.
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// What happened.
enum Event {
    /// Ctrl-a x.
    Leave,
    /// Keys are about to be sent.
    Input,
    /// Standard input has ended.
    InputEnd,
    /// The board said something.
    Output(Vec<u8>),
    /// The board is gone.
    Gone,
}

/// Puts the terminal back, whatever happens.
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
        // Nothing better can be done for a terminal that has gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Attaches until the person leaves (Ok) or the board ends (Err).
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

/// Shows output; true when the person left, false when the board is gone.
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

/// What ends in the middle of a line is a prompt, or soon goes on.
fn is_prompt(said: &[u8]) -> bool {
    said.last().is_some_and(|last| *last != b'\n')
}

/// Piped input waits for somebody who takes it: a board that boots may drop what comes before.
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

/// The way to the board, whichever of its lives it is in.
struct Line {
    instance: Instance,
    socket: Mutex<UnixStream>,
}

impl Line {
    /// To a board without a life there is no way; who reads from it finds out.
    fn send(&self, bytes: &[u8]) {
        let _ = self.socket.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes);
    }

    /// The board starts again: the way to its next life, once that is there.
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
        // Should it end before we are there, we look for one more in vain.
        life = line.instance.life();
        let Some(next) = line.again() else { break };
        socket = next;
        // The receiver has gone only when the person left.
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
                    // What stood before the escape still goes out; the board may be gone by now.
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
        // It is at work for longer than a prompt may be quiet.
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
