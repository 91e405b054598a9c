//! This terminal on a board's console: bytes both ways, ctrl-a x leaves, ctrl-a ? helps.
//!
//! Works with a pipe as standard input too: all of it is sent, and when it has ended the output is
//! shown until the board has been quiet for a while. Ends by itself when the soc goes away.

use crate::instance::{Instance, tail};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use thiserror::Error;

/// After the end of piped input, so much silence means that the answers are out.
const QUIET: Duration = Duration::from_millis(1500);
const ESCAPE: u8 = 1;
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
    let path = instance.path("console.sock");
    let failed = |e| ConsoleError::Attach(path.display().to_string(), e);
    let socket = UnixStream::connect(&path).map_err(failed)?;
    let reader = socket.try_clone().map_err(failed)?;
    if std::io::stdin().is_terminal() {
        eprintln!("[pen: attached to {}; ctrl-a x leaves]", instance.name);
    }
    if replay {
        eprint!("{}", tail(&instance.path("console.log"), 10));
    }
    let raw = Raw::enter();
    let (events, inbox) = channel();
    let output = events.clone();
    std::thread::spawn(move || read_board(reader, &output));
    std::thread::spawn(move || read_person(socket, &events));
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
    let mut input_ended = false;
    loop {
        let event = if input_ended {
            match inbox.recv_timeout(QUIET) {
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
            Event::InputEnd => input_ended = true,
            Event::Gone => return Ok(false),
            Event::Output(bytes) => {
                out.write_all(&bytes)?;
                out.flush()?;
            }
        }
    }
}

fn read_board(mut socket: UnixStream, events: &Sender<Event>) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = socket.read(&mut buffer) {
        if events.send(Event::Output(buffer[..n].to_vec())).is_err() {
            return;
        }
    }
    // The receiver has gone only when the person left.
    let _ = events.send(Event::Gone);
}

fn read_person(mut socket: UnixStream, events: &Sender<Event>) {
    let (mut buffer, mut escaped) = ([0; 4096], false);
    while let Ok(n @ 1..) = std::io::stdin().lock().read(&mut buffer) {
        let mut send = Vec::with_capacity(n);
        for &byte in &buffer[..n] {
            match (std::mem::take(&mut escaped), byte) {
                (true, b'x' | b'X') => {
                    // What stood before the escape still goes out; the board may be gone by now.
                    let _ = socket.write_all(&send);
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
        if socket.write_all(&send).is_err() {
            return;
        }
    }
    let _ = events.send(Event::InputEnd);
}
