//! The system console: client of its driver.

use crate::kernel::Kernel;
use crate::services::Patience;
use crate::session::Session;
use core::fmt;
use drivers::request::{Reply, Request, kind, told};
use kernel_msg::Level;

/// The system console, as a thread of this kernel uses it. Text is written with line feeds, each of
/// which becomes carriage return and line feed.
#[derive(Clone, Copy)]
pub struct Console(Session);

impl Kernel {
    /// Returns the system console, for a thread of this kernel.
    pub fn console(&'static self) -> Console {
        Console(Session::at(self, Level(0)))
    }
}

impl Console {
    /// Makes a request. `None`: this kernel does not reach the console.
    fn ask(&self, kind: u32, bulk: &mut [u8], patience: &Patience<'_>) -> Option<Reply> {
        let driver = &self.0.services.console;
        let request = Request { kind, length: bulk.len() as u32, ..Request::default() };
        let asked = driver.is_local().then(|| driver.ask_again(&self.0, request, bulk, patience));
        asked?.ok()?.filter(|reply| reply.told == told::DONE)
    }

    /// Reads input, waiting for at least one byte. Returns the number of bytes, or `None` if
    /// `patience` ends or this kernel does not reach the console.
    pub fn read(&self, into: &mut [u8], patience: &Patience<'_>) -> Option<usize> {
        self.ask(kind::READ, into, patience).map(|reply| reply.filled as usize)
    }

    /// Writes bytes.
    pub fn show(&self, bytes: &[u8]) {
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if index > 0 {
                self.write(b"\r\n");
            }
            self.write(line);
        }
    }

    fn write(&self, from: &[u8]) {
        let mut room = [0; PIECE];
        for piece in from.chunks(PIECE) {
            let mut done = 0;
            while done < piece.len() {
                let rest = &mut room[..piece.len() - done];
                rest.copy_from_slice(&piece[done..]);
                match self.ask(kind::WRITE, rest, &Patience::ENDLESS) {
                    Some(reply) if reply.taken > 0 => done += reply.taken as usize,
                    // Nothing else can be done if the console is gone.
                    _ => return,
                }
            }
        }
    }
}

/// Most bytes of one request.
const PIECE: usize = 256;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.show(text.as_bytes());
        Ok(())
    }
}
