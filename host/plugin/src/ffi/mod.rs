//! The only module with `unsafe`: functions that QEMU calls, and functions of QEMU that we call.
#![allow(unsafe_code, reason = "the interface of a C program")]

mod api;
mod caches;
mod hooks;
pub mod machine;
mod tlbs;

use crate::class::Isa;
use crate::memory::{self, Touch};
use crate::sanitizer::Sanitizer;
use crate::seat::Seat;
use crate::shadow::Shadow;
use crate::translate::{self, Instruction};
use crate::vectors::Tables;
use crate::{Arguments, Parts, start};
use caches::Registers;
use lab::model::Domain as Model;
use lab::profile::{Block, Profile};
use machine::{LIMIT, Machine, THREAD, Thread, Word};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Version of the plugin interface.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 4;

struct Plugin {
    machine: Machine,
    seat: Option<Seat>,
    sanitizer: Option<Sanitizer>,
    shadow: Option<Shadow>,
    profile: Option<Profile>,
    registers: OnceLock<Registers>,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Maximum cores: beyond it QEMU's scoreboards move.
const MOST_CORES: usize = 16;

fn plugin() -> &'static Plugin {
    PLUGIN.get().expect("callbacks are registered after the plugin is set up")
}

/// Returns the machine and the seat, for the callbacks of time.
fn seated() -> (&'static Machine, &'static Seat) {
    let Plugin { machine, seat, .. } = plugin();
    (machine, seat.as_ref().expect("callbacks of time are registered for a seat only"))
}

/// QEMU calls this when it loads the plugin.
///
/// # Safety
/// `info` and `argv[..argc]` are what QEMU's interface says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const api::Info,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: as QEMU's interface says.
    let (info, words) = unsafe {
        let word = |i| CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned();
        (&*info, (0..usize::try_from(argc).unwrap_or(0)).map(word).collect::<Vec<_>>())
    };
    // SAFETY: a name that lives as long as QEMU.
    let target = unsafe { CStr::from_ptr(info.target_name) }.to_string_lossy();
    match install(id, info, &target, &words) {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("The lab's plugin cannot work: {reason}.");
            1
        }
    }
}

fn install(id: u64, info: &api::Info, target: &str, words: &[String]) -> Result<(), String> {
    let isa = Isa::named(target).ok_or_else(|| format!("{target} is no target of ours"))?;
    let Parts { seat, sanitizer, shadow, profile } = start(isa, target, &Arguments::parse(words)?)?;
    let cores = usize::try_from(info.smp_vcpus).unwrap_or(0);
    if let Some(told) = seat.as_ref().map(|seat| seat.model().cores() as usize)
        && (told != cores || cores > MOST_CORES || !info.system_emulation)
    {
        return Err(format!("the model has {told} cores, QEMU {cores}, and most are {MOST_CORES}"));
    }
    let takes_time = seat.is_some();
    // SAFETY: 16 bytes for each virtual CPU.
    let board = Word(unsafe { api::qemu_plugin_scoreboard_new(24) });
    let machine = Machine {
        isa,
        board,
        words: (0..cores).map(|_| OnceLock::new()).collect(),
        doorbell: OnceLock::new(),
        tables: Tables::default(),
    };
    if takes_time {
        hooks::clock(get_clock)?;
    }
    let registers = OnceLock::new();
    let plugin = Plugin { machine, seat, sanitizer, shadow, profile, registers };
    if PLUGIN.set(plugin).is_err() {
        return Err("it is loaded twice".to_owned());
    }
    // SAFETY: functions that live as long as the process.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, on_init);
        if takes_time {
            api::qemu_plugin_register_vcpu_idle_cb(id, on_idle);
        }
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    }
    Ok(())
}

extern "C" fn get_clock() -> i64 {
    let Some(Plugin { machine, seat: Some(seat), .. }) = PLUGIN.get() else { return 0 };
    seat.now_ns(machine, THREAD.get()) as i64
}

extern "C" fn on_init(_: u64, cpu: c_uint) {
    let Plugin { machine, seat, registers, .. } = plugin();
    if registers.get().is_none() {
        match Registers::find(machine.isa) {
            Ok(found) => drop(registers.set(found)),
            Err(reason) => refuse(&reason),
        }
    }
    let core = cpu as usize;
    caches::CORE.set(core);
    let Some(own) = machine.words.get(core).filter(|own| seat.is_some() && own.get().is_none())
    else {
        return;
    };
    THREAD.set(Thread::Runner(core));
    // SAFETY: this CPU's part has 24 bytes, which stay where they are up to `MOST_CORES`.
    unsafe {
        let words = api::qemu_plugin_scoreboard_find(machine.board.0, cpu).cast::<u64>();
        let _ = own.set([0, 1, 2].map(|at| AtomicU64::from_ptr(words.add(at))));
    }
    machine.set_counter(core, LIMIT);
    if core == 0 {
        start_helper();
    }
}

fn start_helper() {
    let helper = std::thread::Builder::new().name("lab helper".into()).spawn(|| {
        THREAD.set(Thread::Helper);
        // SAFETY: once in this thread, which never ends.
        unsafe { api::rcu_register_thread() };
        let (machine, seat) = seated();
        seat.help(machine);
    });
    if let Err(e) = helper {
        refuse(&format!("its thread cannot start: {e}"));
    }
}

/// Ends the process: it is too late to return an error to QEMU.
fn refuse(reason: &str) -> ! {
    eprintln!("The lab's plugin cannot work: {reason}.");
    std::process::exit(1)
}

/// Finds the doorbell device, once, at the first block, when all devices exist.
fn find_doorbell(machine: &Machine) {
    machine.doorbell.get_or_init(|| match hooks::Doorbell::hook(on_register) {
        Ok(doorbell) => doorbell,
        Err(reason) => refuse(&reason),
    });
}

extern "C" fn on_register(device: *mut c_void, at: u64, value: u64, size: c_uint) {
    let (machine, seat) = seated();
    match (hooks::ring_of(at, value), machine.doorbell.get()) {
        (Some((slot, vector)), _) => seat.ring(machine, runner(), slot, vector),
        (None, Some(Some(doorbell))) => doorbell.write(device, at, value, size),
        (None, _) => {}
    }
}

/// Returns the virtual CPU of this thread.
fn runner() -> usize {
    match THREAD.get() {
        Thread::Runner(core) => core,
        Thread::Helper | Thread::Other => 0,
    }
}

extern "C" fn on_idle(_: u64, core: c_uint) {
    let (machine, seat) = seated();
    seat.idle(machine, core as usize);
}

extern "C" fn on_limit(core: c_uint, _: *mut c_void) {
    let (machine, seat) = seated();
    find_doorbell(machine);
    seat.limit(machine, core as usize);
}

extern "C" fn on_sync(core: c_uint, _: *mut c_void) {
    let (machine, seat) = seated();
    seat.sync(machine, core as usize);
}

extern "C" fn on_timer(core: c_uint, _: *mut c_void) {
    let (machine, seat) = seated();
    seat.report_next(machine, core as usize);
}

/// A mark's number is above this bit, the units that follow below it.
const NUMBER: u32 = 56;

extern "C" fn on_mark(core: c_uint, data: *mut c_void) {
    let (machine, seat) = seated();
    let (number, rest) = (data.addr() >> NUMBER, data.addr() & ((1 << NUMBER) - 1));
    if let Err(reason) = seat.mark(machine, core as usize, number as u8, rest as u64) {
        refuse(&reason);
    }
}

extern "C" fn on_table(_: c_uint, register: *mut c_void) {
    let Plugin { machine, registers, .. } = plugin();
    if let Some(registers) = registers.get() {
        machine.tables.add(registers.general(register.addr() as u8));
    }
}

extern "C" fn on_block(_: c_uint, number: *mut c_void) {
    if let Some(profile) = &plugin().profile {
        profile.executed(number.addr());
    }
}

extern "C" fn on_access(core: c_uint, info: u32, at: u64, number: *mut c_void) {
    let (machine, seat) = seated();
    // SAFETY: `info` is what QEMU has just passed.
    let stored = unsafe {
        api::qemu_plugin_mem_is_store(info).then(|| api::qemu_plugin_mem_get_value(info).data[0])
    };
    let units = seat.touched(machine, core as usize, at, stored);
    if let Some(profile) = &plugin().profile {
        profile.accessed(number.addr(), units);
    }
}

extern "C" fn on_translation(_: u64, block: *mut api::Block) {
    let Plugin { machine, seat, sanitizer, shadow, profile, .. } = plugin();
    // SAFETY: QEMU's block, valid during this call.
    let handles: Vec<*mut api::Instruction> = unsafe {
        (0..api::qemu_plugin_tb_n_insns(block))
            .map(|i| api::qemu_plugin_tb_get_insn(block, i))
            .collect()
    };
    let list: Vec<Instruction> = handles.iter().map(|&handle| read(handle)).collect();
    if let Some(seat) = seat {
        take_time(machine, (seat.model(), profile.as_ref()), block, &handles, &list);
    }
    if let Some(sanitizer) = sanitizer {
        caches::translated(sanitizer, machine.isa, &handles, &list);
    }
    if let Some(shadow) = shadow {
        tlbs::translated(shadow, machine.isa, &handles, &list);
    }
}

/// Registers the callbacks that time needs in a block; called during the translation callback.
fn take_time(
    machine: &Machine,
    (model, profile): (&Model, Option<&Profile>),
    block: *mut api::Block,
    handles: &[*mut api::Instruction],
    list: &[Instruction],
) {
    let plan = translate::plan(machine.isa, model, &machine.tables, list);
    let [units, instructions, exceptions] = machine.counters();
    let none = std::ptr::null_mut();
    let number = profile.map(|profile| numbered(profile, plan.units, list));
    let data = number.map_or(none, std::ptr::without_provenance_mut);
    let flags = api::NO_REGISTERS;
    // SAFETY: the block and its instructions, during this call; functions and words that live as
    // long as the process. The limit is checked before the block is added.
    unsafe {
        if plan.sync {
            api::qemu_plugin_register_vcpu_tb_exec_cb(block, on_sync, flags, none);
        }
        let ge = api::GREATER_OR_EQUAL;
        api::qemu_plugin_register_vcpu_tb_exec_cond_cb(
            block, on_limit, flags, ge, units, LIMIT, none,
        );
        let add = api::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu;
        add(block, api::ADD, units, plan.units);
        add(block, api::ADD, instructions, list.len() as u64);
        if plan.enters {
            add(block, api::ADD, exceptions, 1);
        }
        if number.is_some() {
            api::qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, flags, data);
        }
        for index in plan.timers {
            let handle = handles[index];
            api::qemu_plugin_register_vcpu_insn_exec_cb(handle, on_timer, flags, none);
        }
        for mark in plan.marks {
            let data = std::ptr::without_provenance_mut(
                usize::from(mark.number) << NUMBER | mark.rest as usize,
            );
            let handle = handles[mark.index];
            api::qemu_plugin_register_vcpu_insn_exec_cb(handle, on_mark, flags, data);
        }
        for (index, register) in plan.tables {
            let (handle, data) = (handles[index], std::ptr::without_provenance_mut(register));
            let read = api::READS_REGISTERS;
            api::qemu_plugin_register_vcpu_insn_exec_cb(handle, on_table, read, data);
        }
        for index in plan.accesses {
            // A swap is one access.
            let swaps = memory::touch(machine.isa, list[index].word) == Touch::Change;
            let which = if swaps { api::STORES } else { api::LOADS_AND_STORES };
            api::qemu_plugin_register_vcpu_mem_cb(handles[index], on_access, flags, which, data);
        }
    }
}

/// Returns the number of a block in the profile.
fn numbered(profile: &Profile, units: u64, list: &[Instruction]) -> usize {
    let at = list.first().map_or(0, |first| first.at);
    let block = Block { at, instructions: list.len() as u64, units };
    match profile.number(block) {
        Ok(number) => number,
        Err(reason) => refuse(&reason.to_string()),
    }
}

fn read(handle: *mut api::Instruction) -> Instruction {
    let mut bytes = [0u8; 4];
    // SAFETY: QEMU's instruction, during the call of `on_translation`; four bytes of ours.
    let at = unsafe {
        api::qemu_plugin_insn_data(handle, bytes.as_mut_ptr().cast(), bytes.len());
        api::qemu_plugin_insn_vaddr(handle)
    };
    Instruction { at, word: u32::from_le_bytes(bytes) }
}
