//! Nothing traps here; interrupts come from `machine`.

use core::fmt;

use crate::types::Handlers;

/// Bytes of a kernel stack's slot, guard included; slots are aligned to it.
pub const STACK_SIZE: usize = 64 << 10;

/// What a handler could look at.
#[derive(Debug, Default)]
pub struct TrapFrame {
    pc: u64,
}

impl TrapFrame {
    /// Where it was interrupted.
    pub fn pc(&self) -> u64 {
        self.pc
    }
    /// Continues elsewhere.
    pub fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
    /// Its stack pointer.
    pub fn sp(&self) -> u64 {
        0
    }
    /// Continues on another stack.
    pub fn set_sp(&mut self, _: u64) {}
    /// Goes on elsewhere.
    pub fn call(&mut self, target: u64, _: [u64; 4]) {
        self.pc = target;
    }
    /// Its frame pointer.
    pub fn fp(&self) -> u64 {
        0
    }
    /// None.
    pub fn cause(&self) -> u64 {
        0
    }
    /// None.
    pub fn address(&self) -> u64 {
        0
    }
}

impl fmt::Display for TrapFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pc {:016x}", self.pc)
    }
}

/// This thread's handlers from now on.
pub fn install(handlers: &'static Handlers) {
    super::machine::install(handlers);
}
