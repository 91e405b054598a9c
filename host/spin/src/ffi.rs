//! The only module with `unsafe`: what QEMU calls, and the four functions of its plugin interface
//! that are used (its header is not packaged).
#![allow(unsafe_code, reason = "the interface of a C program")]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Opaque: a translated block.
#[repr(C)]
struct Block {
    _opaque: [u8; 0],
}

/// Opaque: a translated instruction.
#[repr(C)]
struct Instruction {
    _opaque: [u8; 0],
}

type OnBlock = extern "C" fn(id: u64, block: *mut Block);
type OnExec = extern "C" fn(cpu: c_uint, data: *mut c_void);

/// The callback does not read registers.
const NO_REGISTERS: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, cb: OnBlock);
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        cb: OnExec,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_data(i: *const Instruction, to: *mut c_void, bytes: usize) -> usize;
}

/// Version of the plugin interface.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 4;

/// QEMU calls this when it loads the plugin.
#[unsafe(no_mangle)]
pub extern "C" fn qemu_plugin_install(
    id: u64,
    _info: *const c_void,
    _argc: c_int,
    _argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: the plugin's own id, and a callback that lives as long as QEMU.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

/// QEMU has translated a block.
extern "C" fn translated(_: u64, block: *mut Block) {
    // SAFETY: the block lives until this returns, and the index is below its number of
    // instructions.
    unsafe {
        for index in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            if is_hint(instruction) {
                let nothing = std::ptr::null_mut();
                qemu_plugin_register_vcpu_insn_exec_cb(
                    instruction,
                    executed,
                    NO_REGISTERS,
                    nothing,
                );
            }
        }
    }
}

fn is_hint(instruction: *const Instruction) -> bool {
    let mut bytes = [0; 4];
    // SAFETY: the caller's instruction, and four bytes that are ours.
    let got = unsafe { qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), bytes.len()) };
    got == bytes.len() && crate::is_hint(u32::from_le_bytes(bytes))
}

extern "C" fn executed(_: c_uint, _: *mut c_void) {
    crate::hint();
}
