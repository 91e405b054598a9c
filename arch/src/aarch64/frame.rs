//! The trap frame, in the layout that `vectors` stores.

use core::fmt;

#[repr(C, align(16))]
pub struct TrapFrame {
    x: [u64; 31],
    sp: u64,
    pc: u64,
    spsr: u64,
    esr: u64,
    far: u64,
    fpcr: u64,
    fpsr: u64,
    q: [u128; 32],
    /// A frame record, so that backtraces continue from the handler into the interrupted code.
    link: [u64; 2],
}

const _: () = assert!(size_of::<TrapFrame>() == 832);
const _: () = assert!(core::mem::offset_of!(TrapFrame, q) == 304);
const _: () = assert!(core::mem::offset_of!(TrapFrame, link) == 816);

impl TrapFrame {
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

    pub fn call(&mut self, target: u64, arguments: [u64; 4]) {
        self.x[..4].copy_from_slice(&arguments);
        self.x[30] = 0;
        self.pc = target;
    }

    pub fn fp(&self) -> u64 {
        self.x[29]
    }

    /// ESR_EL1; the exception class is in bits 31:26.
    pub fn cause(&self) -> u64 {
        self.esr
    }

    /// FAR_EL1; valid for aborts and misaligned program counters.
    pub fn address(&self) -> u64 {
        self.far
    }
}

impl fmt::Display for TrapFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pc   {:016x}  sp   {:016x}  spsr {:08x}", self.pc, self.sp, self.spsr)?;
        writeln!(f, "esr  {:016x}  far  {:016x}  class {:#x}", self.esr, self.far, self.esr >> 26)?;
        for (row, registers) in self.x.chunks(4).enumerate() {
            for (column, value) in registers.iter().enumerate() {
                write!(f, "x{:<3} {value:016x}  ", row * 4 + column)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
