//! The trap frame, in the layout that `vectors` stores.

use core::fmt;

/// Bytes of a [`TrapFrame`].
pub(super) const FRAME: usize = 576;

/// All registers but `tp` are restored when the handler returns.
#[repr(C, align(16))]
pub struct TrapFrame {
    /// Indexed by register number; `x[0]` is unused.
    x: [u64; 32],
    pc: u64,
    sstatus: u64,
    scause: u64,
    stval: u64,
    fcsr: u64,
    spare: u64,
    f: [u64; 32],
    /// A frame record, so that backtraces continue from the handler into the interrupted code.
    link: [u64; 2],
}

const _: () = assert!(size_of::<TrapFrame>() == FRAME);
const _: () = assert!(core::mem::offset_of!(TrapFrame, pc) == 256);
const _: () = assert!(core::mem::offset_of!(TrapFrame, f) == 304);
const _: () = assert!(core::mem::offset_of!(TrapFrame, link) == 560);

const NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];

impl TrapFrame {
    pub fn pc(&self) -> u64 {
        self.pc
    }

    pub fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }

    pub fn sp(&self) -> u64 {
        self.x[2]
    }

    pub fn set_sp(&mut self, sp: u64) {
        self.x[2] = sp;
    }

    pub fn call(&mut self, target: u64, arguments: [u64; 4]) {
        self.x[10..14].copy_from_slice(&arguments);
        self.x[1] = 0;
        self.pc = target;
    }

    pub fn fp(&self) -> u64 {
        self.x[8]
    }

    /// scause; the top bit is set for interrupts.
    pub fn cause(&self) -> u64 {
        self.scause
    }

    /// stval: an address for access, page and alignment faults, else the instruction or 0.
    pub fn address(&self) -> u64 {
        self.stval
    }
}

impl fmt::Display for TrapFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pc   {:016x}  sp   {:016x}  sstatus {:x}", self.pc, self.x[2], self.sstatus)?;
        writeln!(f, "cause {:x}  stval {:016x}  fcsr {:x}", self.scause, self.stval, self.fcsr)?;
        for (row, registers) in self.x.chunks(4).enumerate() {
            for (column, value) in registers.iter().enumerate() {
                write!(f, "{:<4} {value:016x}  ", NAMES[row * 4 + column])?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
