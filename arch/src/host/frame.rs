//! The trap frame of a simulated core: where it continues. A core of a test's machine never traps.

use core::fmt;

#[derive(Debug, Default)]
pub struct TrapFrame {
    pc: u64,
    sp: u64,
}

impl TrapFrame {
    /// The frame of code that was interrupted at `pc`.
    pub fn at(pc: u64, sp: u64) -> TrapFrame {
        TrapFrame { pc, sp }
    }
    pub fn pc(&self) -> u64 {
        self.pc
    }
    pub fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
    pub fn sp(&self) -> u64 {
        self.sp
    }
    pub fn set_sp(&mut self, sp: u64) {
        self.sp = sp;
    }
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
