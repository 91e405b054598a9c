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

    /// Writes bytes, as few requests as possible: what fits in one is not divided by the output of
    /// others.
    pub fn show(&self, bytes: &[u8]) {
        let (mut room, mut length) = ([0; PIECE], 0);
        for &byte in bytes {
            let shown: &[u8] = if byte == b'\n' { b"\r\n" } else { &[byte] };
            if length + shown.len() > PIECE {
                self.write(&mut room[..length]);
                length = 0;
            }
            room[length..length + shown.len()].copy_from_slice(shown);
            length += shown.len();
        }
        self.write(&mut room[..length]);
    }

    fn write(&self, mut from: &mut [u8]) {
        while !from.is_empty() {
            let reply = self.ask(kind::WRITE, from, &Patience::ENDLESS);
            let taken = reply.map_or(0, |reply| reply.taken as usize);
            // Nothing else can be done if the console is gone.
            let Some(rest) = from.get_mut(taken..).filter(|_| taken > 0) else { return };
            from = rest;
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
