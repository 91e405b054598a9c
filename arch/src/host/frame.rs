//! The trap frame of a core that never traps.

use core::fmt;

#[derive(Debug, Default)]
pub struct TrapFrame {
    pc: u64,
}

impl TrapFrame {
    pub fn pc(&self) -> u64 {
        self.pc
    }
    pub fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
    pub fn sp(&self) -> u64 {
        0
    }
    pub fn set_sp(&mut self, _: u64) {}
    pub fn call(&mut self, target: u64, _: [u64; 4]) {
        self.pc = target;
    }
    pub fn fp(&self) -> u64 {
        0
    }
    pub fn cause(&self) -> u64 {
        0
    }
    pub fn address(&self) -> u64 {
        0
    }
}

impl fmt::Display for TrapFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pc {:016x}", self.pc)
    }
}
