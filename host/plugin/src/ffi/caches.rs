//! The sanitizer's callbacks: each access, each maintenance instruction, each translated block.
//!
//! QEMU reports an access after it has happened, an instruction before. A callback's data is the
//! instruction's address; for maintenance also the operation and the register with the address.

use super::{Isa, api, plugin};
use crate::memory::{self, Touch, Upkeep};
use crate::sanitizer::{Look, Sanitizer};
use crate::translate::Instruction;
use lab_tlb::{Access, Site};
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_uint, c_void};

/// Number of general registers, which QEMU lists first.
const GENERAL: usize = 31;

/// QEMU's handles of the registers that are read.
#[derive(Debug)]
pub struct Registers {
    /// Indexed by register number.
    general: Vec<*mut api::Handle>,
    /// AArch64's SCTLR_EL1, RV64's satp.
    control: *mut api::Handle,
    /// AArch64's TTBR1_EL1, RV64's satp.
    root: *mut api::Handle,
    /// The last exception's syndrome or cause, address and instruction.
    exception: [*mut api::Handle; 3],
}

// SAFETY: names that QEMU's function takes from any virtual CPU.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

thread_local! {
    /// The virtual CPU of this thread.
    pub static CORE: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<*mut api::Array> = const { Cell::new(std::ptr::null_mut()) };
}

impl Registers {
    /// Finds the registers; called in a virtual CPU's thread.
    pub fn find(isa: Isa) -> Result<Registers, String> {
        // SAFETY: the list is QEMU's, and stays; its elements are descriptors.
        let list: Vec<api::Register> = unsafe {
            let list = &*api::qemu_plugin_get_registers();
            std::slice::from_raw_parts(list.data.cast::<api::Register>(), list.len as usize)
                .to_vec()
        };
        // SAFETY: names are C strings that live as long as the list.
        let name = |register: &api::Register| unsafe { CStr::from_ptr(register.name) }.to_owned();
        let find = |wanted: &CStr| list.iter().position(|r| *name(r) == *wanted);
        let must = |wanted: &CStr| {
            let missing = || format!("this build of QEMU does not show its register {wanted:?}");
            find(wanted).ok_or_else(missing)
        };
        let (first, skip, names) = match isa {
            Isa::Aarch64 => {
                (c"x0", 0, [c"SCTLR", c"TTBR1_EL1", c"ESR_EL1", c"FAR_EL1", c"ELR_EL1"])
            }
            // x0 is not among them: it is always 0.
            Isa::Riscv64 => (c"ra", 1, [c"satp", c"satp", c"scause", c"stval", c"sepc"]),
        };
        let first = must(first)?;
        let mut general = vec![std::ptr::null_mut(); skip];
        general.extend(list[first..].iter().take(GENERAL).map(|register| register.handle));
        let mut special = [std::ptr::null_mut(); 5];
        for (handle, name) in special.iter_mut().zip(names) {
            *handle = list[must(name)?].handle;
        }
        let [control, root, exception @ ..] = special;
        Ok(Registers { general, control, root, exception })
    }

    /// Returns TTBR1_EL1 or satp.
    pub fn root(&self) -> u64 {
        read(self.root)
    }

    /// Returns the last exception's syndrome or cause, address and instruction.
    pub fn exception(&self) -> [u64; 3] {
        self.exception.map(read)
    }

    /// Returns a general register, by its number in instructions.
    pub fn general(&self, number: u8) -> u64 {
        self.general.get(usize::from(number)).map_or(0, |&handle| read(handle))
    }
}

/// Reads a register of this thread's virtual CPU, in a callback that was registered for it.
fn read(handle: *mut api::Handle) -> u64 {
    if handle.is_null() {
        return 0;
    }
    // SAFETY: GLib's byte array of this thread, made at its first use and emptied before each; QEMU
    // fills it with as many bytes as it says.
    unsafe {
        if BYTES.get().is_null() {
            BYTES.set(api::g_byte_array_new());
        }
        let bytes = api::g_byte_array_set_size(BYTES.get(), 0);
        let size = api::qemu_plugin_read_register(handle, bytes);
        let size = usize::try_from(size).unwrap_or(0).min(8);
        let mut value = [0; 8];
        std::ptr::copy_nonoverlapping((*bytes).data.cast(), value.as_mut_ptr(), size);
        u64::from_le_bytes(value)
    }
}

/// The access or the instruction of the current callback.
struct Here<'a> {
    registers: &'a Registers,
    isa: Isa,
    access: Option<(u32, u64)>,
}

impl Look for Here<'_> {
    fn physical(&self) -> Option<u64> {
        let (info, at) = self.access?;
        // SAFETY: `info` and `at` are what QEMU has just passed; its answer lives during the call.
        unsafe {
            let address = api::qemu_plugin_get_hwaddr(info, at);
            let memory = !address.is_null() && !api::qemu_plugin_hwaddr_is_io(address);
            memory.then(|| api::qemu_plugin_hwaddr_phys_addr(address))
        }
    }

    fn mmu_is_on(&self) -> bool {
        let control = read(self.registers.control);
        match self.isa {
            Isa::Aarch64 => control & 1 != 0,
            Isa::Riscv64 => control >> 60 != 0,
        }
    }
}

fn here(access: Option<(u32, u64)>) -> Option<(&'static Sanitizer, Here<'static>)> {
    let plugin = plugin();
    let registers = plugin.registers.get()?;
    let sanitizer = plugin.sanitizer.as_ref()?;
    Some((sanitizer, Here { registers, isa: plugin.machine.isa, access }))
}

fn touched(core: c_uint, how: Touch, stored: bool, info: u32, at: u64, pc: *mut c_void) {
    let Some((sanitizer, here)) = here(Some((info, at))) else { return };
    // SAFETY: `info` is what QEMU has just passed.
    let bytes = 1 << unsafe { api::qemu_plugin_mem_size_shift(info) };
    sanitizer.touched(how, stored, (at, bytes), pc as u64, &here);
    if let Some(shadow) = &plugin().shadow {
        let site = Site { core: core as usize, pc: pc as u64 };
        let access = if stored { Access::Write } else { Access::Read };
        shadow.touched(site, access, at, bytes, &here);
    }
}

extern "C" fn on_load(core: c_uint, info: u32, at: u64, pc: *mut c_void) {
    touched(core, Touch::Plain, false, info, at, pc);
}

extern "C" fn on_store(core: c_uint, info: u32, at: u64, pc: *mut c_void) {
    touched(core, Touch::Plain, true, info, at, pc);
}

extern "C" fn on_exclusive(core: c_uint, info: u32, at: u64, pc: *mut c_void) {
    touched(core, Touch::Exclusive, false, info, at, pc);
}

extern "C" fn on_change(core: c_uint, info: u32, at: u64, pc: *mut c_void) {
    touched(core, Touch::Change, true, info, at, pc);
}

extern "C" fn on_upkeep(core: c_uint, data: *mut c_void) {
    // SAFETY: what `translated` passed, which is never freed.
    let (what, pc) = unsafe { *data.cast::<(Upkeep, u64)>() };
    let Some((sanitizer, here)) = here(None) else { return };
    let va = match what {
        Upkeep::Clean(from)
        | Upkeep::Invalidate(from)
        | Upkeep::Flush(from)
        | Upkeep::Unify(from)
        | Upkeep::Zero(from) => here.registers.general(from),
        Upkeep::UnifyAll | Upkeep::Barrier => 0,
    };
    sanitizer.upkeep(what, va, pc, &here);
    if let Some(shadow) = &plugin().shadow {
        shadow.maintained(Site { core: core as usize, pc }, what, va);
    }
}

/// Registers all callbacks of a block; called during the translation callback.
pub fn translated(
    sanitizer: &Sanitizer,
    isa: Isa,
    handles: &[*mut api::Instruction],
    list: &[Instruction],
) {
    if let (Some(first), Some(last)) = (list.first(), list.last()) {
        sanitizer.fetched(first.at, last.at.wrapping_sub(first.at) + isa.bytes(last.word));
    }
    for (&handle, instruction) in handles.iter().zip(list) {
        accesses(handle, instruction, memory::touch(isa, instruction.word));
        if let Some(upkeep) = memory::upkeep(isa, instruction.word) {
            // One per translated instruction of a rare kind, kept as long as its code may run.
            let data = Box::new((upkeep, instruction.at));
            let data = std::ptr::from_mut(Box::leak(data)).cast();
            let flags = api::READS_REGISTERS;
            // SAFETY: the block's instruction, during this call; a function and data that stay.
            unsafe {
                api::qemu_plugin_register_vcpu_insn_exec_cb(handle, on_upkeep, flags, data);
            }
        }
    }
}

fn accesses(handle: *mut api::Instruction, instruction: &Instruction, touch: Touch) {
    // Kernels run at high addresses, with the MMU on, so no register has to be read.
    let high = instruction.at >> 63 != 0;
    let flags = if high { api::NO_REGISTERS } else { api::READS_REGISTERS };
    let pc = instruction.at as *mut c_void;
    let ask = |which: c_int, callback: api::OnAccess| {
        // SAFETY: the block's instruction, during this call; a function that stays.
        unsafe { api::qemu_plugin_register_vcpu_mem_cb(handle, callback, flags, which, pc) };
    };
    match touch {
        Touch::Plain => {
            ask(api::LOADS, on_load);
            ask(api::STORES, on_store);
        }
        Touch::Exclusive => ask(api::LOADS_AND_STORES, on_exclusive),
        Touch::Change => ask(api::LOADS_AND_STORES, on_change),
    }
}
