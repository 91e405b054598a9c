//! How a process has ended, as the process table and other kernels have it.

use abi::process::End as How;
use abi::program::trap;
use kernel_engine::End;

pub fn encode(end: &End) -> (How, u32) {
    match *end {
        End::Return => (How::Exit, 0),
        End::Exit(code) => (How::Exit, code),
        End::Signal(signal) => (How::Signal, signal.into()),
        End::Trap(code, _) => (How::Trap, code),
        End::Lost | End::Left => (How::Lost, 0),
        End::NoMemory(_) => (How::Trap, trap::NO_MEMORY),
    }
}

/// The reverse, of numbers that may be anything.
pub fn decode(how: u32, status: u32) -> End {
    match How::from_code(how as u16) {
        Some(How::Exit) => End::Exit(status),
        Some(How::Trap) => End::Trap(status, Default::default()),
        Some(How::Lost) => End::Lost,
        _ => End::Signal(status as u16),
    }
}
