//! The used part of QEMU's plugin interface, version 4 (its header is not packaged), and inner
//! functions that Debian's binary exports.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Opaque: a translated block.
#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}
/// Opaque: a translated instruction.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}
/// Opaque: the target of an access.
#[repr(C)]
pub struct Address {
    _opaque: [u8; 0],
}
/// Opaque: QEMU's handle of a register.
#[repr(C)]
pub struct Handle {
    _opaque: [u8; 0],
}
/// Opaque: a scoreboard.
#[repr(C)]
pub struct Scoreboard {
    _opaque: [u8; 0],
}

/// `qemu_plugin_u64`: a word in every virtual CPU's part of a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Word {
    pub board: *mut Scoreboard,
    pub offset: usize,
}

/// `qemu_plugin_mem_value`; the unused upper half of a 128-bit value is omitted.
#[repr(C)]
pub struct Value {
    pub kind: c_int,
    pub data: [u64; 2],
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Register {
    pub handle: *mut Handle,
    pub name: *const c_char,
    pub feature: *const c_char,
}

/// GLib's array: elements and length.
#[repr(C)]
pub struct Array {
    pub data: *mut c_void,
    pub len: c_uint,
}

/// `qemu_info_t`, version 4.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

pub type OnCpu = extern "C" fn(id: u64, cpu: c_uint);
pub type OnBlock = extern "C" fn(id: u64, block: *mut Block);
pub type OnExec = extern "C" fn(cpu: c_uint, data: *mut c_void);
pub type OnAccess = extern "C" fn(cpu: c_uint, info: u32, at: u64, data: *mut c_void);

pub const NO_REGISTERS: c_int = 0;
pub const READS_REGISTERS: c_int = 1;
pub const LOADS: c_int = 1;
pub const STORES: c_int = 2;
pub const GREATER_OR_EQUAL: c_int = 7;
pub const ADD: c_int = 0;
pub const LOADS_AND_STORES: c_int = 3;
/// `QEMU_CLOCK_VIRTUAL`.
pub const VIRTUAL: c_int = 1;
/// `QEMU_TIMER_ATTR_ALL`.
pub const ALL_TIMERS: c_int = -1;

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: u64, cb: OnCpu);
    pub fn qemu_plugin_register_vcpu_idle_cb(id: u64, cb: OnCpu);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, cb: OnBlock);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        cb: OnExec,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut Block,
        cb: OnExec,
        flags: c_int,
        condition: c_int,
        word: Word,
        value: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut Block,
        op: c_int,
        word: Word,
        value: u64,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        cb: OnExec,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        cb: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(i: *const Instruction, to: *mut c_void, bytes: usize) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub fn qemu_plugin_mem_get_value(info: u32) -> Value;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_get_hwaddr(info: u32, at: u64) -> *const Address;
    pub fn qemu_plugin_hwaddr_is_io(address: *const Address) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(address: *const Address) -> u64;
    pub fn qemu_plugin_get_registers() -> *mut Array;
    pub fn qemu_plugin_read_register(handle: *mut Handle, into: *mut Array) -> c_int;
    pub fn g_byte_array_new() -> *mut Array;
    pub fn g_byte_array_set_size(array: *mut Array, bytes: c_uint) -> *mut Array;
    pub fn qemu_plugin_scoreboard_new(bytes: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_scoreboard_find(board: *mut Scoreboard, cpu: c_uint) -> *mut c_void;

    pub fn module_object_class_by_name(name: *const c_char) -> *mut c_void;
    pub fn cpus_get_virtual_clock() -> i64;
    pub fn qemu_clock_deadline_ns_all(clock: c_int, attributes: c_int) -> i64;
    pub fn qemu_clock_run_timers(clock: c_int) -> bool;
    pub fn bql_lock_impl(file: *const c_char, line: c_int);
    pub fn bql_unlock();
    pub fn rcu_register_thread();
    pub fn qemu_get_cpu(index: c_int) -> *mut c_void;
    pub fn qemu_cpu_kick(cpu: *mut c_void);
    pub fn cpu_has_work(cpu: *mut c_void) -> bool;
    pub fn object_resolve_path_type(
        path: *const c_char,
        kind: *const c_char,
        ambiguous: *mut bool,
    ) -> *mut c_void;
    pub fn object_resolve_path_component(parent: *mut c_void, part: *const c_char) -> *mut c_void;
    pub fn msix_notify(device: *mut c_void, vector: c_uint);
}
