//! What needs no descriptor, or none that there is: ends, randomness, sockets.

use crate::errno::{Done, Errno, Halt, Stop};
use crate::memory::piece;
use crate::process::Process;
use crate::system::System;
use abi::process::signal;

/// Does this signal end a process that sends it to itself? `None`: there is no such signal.
pub(crate) fn ends(number: u32) -> Option<bool> {
    let known = number <= u32::from(signal::LAST);
    let ignored = number == u32::from(signal::NONE)
        || signal::IGNORED.checked_shr(number).is_some_and(|rest| rest & 1 == 1);
    known.then_some(!ignored)
}

/// Random bytes that are made between two looks.
const RANDOM: usize = 1 << 20;

impl Process {
    /// The end.
    pub fn proc_exit(&mut self, _memory: &mut [u8], _system: &mut dyn System, status: u32) -> Done {
        Err(Halt::Stop(Stop::Exit(status)))
    }

    /// A signal for itself. There are no handlers: it ends the process, or nothing happens.
    pub fn proc_raise(
        &mut self,
        _memory: &mut [u8],
        _system: &mut dyn System,
        number: u32,
    ) -> Done {
        match ends(number) {
            None => Err(Errno::INVAL.into()),
            Some(false) => Ok(()),
            Some(true) => Err(Halt::Stop(Stop::Signal(number as u16))),
        }
    }

    /// Lets others run.
    pub fn sched_yield(&mut self, _memory: &mut [u8], system: &mut dyn System) -> Done {
        system.yield_now();
        Ok(())
    }

    /// Bytes that nobody can guess.
    pub fn random_get(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        buffer: u32,
        bytes: u32,
    ) -> Done {
        for piece in piece(memory, buffer, bytes)?.chunks_mut(RANDOM) {
            system.random(piece);
            if piece.len() == RANDOM {
                // It may be to end.
                let now = system.monotonic();
                system.sleep_until(now)?;
            }
        }
        Ok(())
    }

    /// There are no sockets yet.
    fn no_socket(&self, fd: u32) -> Done {
        self.table.get(fd)?;
        Err(Errno::NOTSOCK.into())
    }

    /// A connection that came.
    pub fn sock_accept(
        &mut self,
        _memory: &mut [u8],
        _system: &mut dyn System,
        fd: u32,
        _flags: u32,
        _accepted: u32,
    ) -> Done {
        self.no_socket(fd)
    }

    /// What came.
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn sock_recv(
        &mut self,
        _memory: &mut [u8],
        _system: &mut dyn System,
        fd: u32,
        _iovs: u32,
        _count: u32,
        _flags: u32,
        _received: u32,
        _found: u32,
    ) -> Done {
        self.no_socket(fd)
    }

    /// Sends.
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn sock_send(
        &mut self,
        _memory: &mut [u8],
        _system: &mut dyn System,
        fd: u32,
        _iovs: u32,
        _count: u32,
        _flags: u32,
        _sent: u32,
    ) -> Done {
        self.no_socket(fd)
    }

    /// Ends one direction.
    pub fn sock_shutdown(
        &mut self,
        _memory: &mut [u8],
        _system: &mut dyn System,
        fd: u32,
        _how: u32,
    ) -> Done {
        self.no_socket(fd)
    }
}
