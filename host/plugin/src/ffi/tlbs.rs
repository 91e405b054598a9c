//! The callbacks of the model of TLBs: each barrier, each invalidation, each read of a fault's
//! address. Accesses come from [`super::caches`].

use super::caches::{CORE, Registers};
use super::{Isa, api, plugin};
use crate::shadow::{self, Shadow};
use crate::tlb::{self, Effect};
use crate::translate::Instruction;
use lab_tlb::Site;
use std::ffi::{c_uint, c_void};

impl shadow::Registers for Registers {
    fn general(&self, number: u8) -> u64 {
        Registers::general(self, number)
    }

    fn root(&self) -> u64 {
        Registers::root(self)
    }

    fn exception(&self) -> [u64; 3] {
        Registers::exception(self)
    }
}

extern "C" fn on_effect(core: c_uint, data: *mut c_void) {
    // SAFETY: what `translated` passed, which is never freed.
    let (effect, pc) = unsafe { *data.cast::<(Effect, u64)>() };
    let plugin = plugin();
    if let (Some(shadow), Some(registers)) = (&plugin.shadow, plugin.registers.get()) {
        shadow.affects(Site { core: core as usize, pc }, effect, registers);
    }
}

/// Registers the callbacks of a block; called during the translation callback.
pub fn translated(
    shadow: &Shadow,
    isa: Isa,
    handles: &[*mut api::Instruction],
    list: &[Instruction],
) {
    if let (Some(first), Some(last)) = (list.first(), list.last()) {
        let bytes = last.at.wrapping_sub(first.at) + isa.bytes(last.word);
        shadow.fetched(CORE.get(), first.at, bytes);
    }
    for (&handle, instruction) in handles.iter().zip(list) {
        for effect in tlb::effects(isa, instruction.word).into_iter().flatten() {
            let plain = matches!(effect, Effect::Order | Effect::Synchronize { .. });
            let flags = if plain { api::NO_REGISTERS } else { api::READS_REGISTERS };
            // One per translated instruction of a rare kind, kept as long as its code may run.
            let data = std::ptr::from_mut(Box::leak(Box::new((effect, instruction.at)))).cast();
            // SAFETY: the block's instruction, during this call; a function and data that stay.
            unsafe {
                api::qemu_plugin_register_vcpu_insn_exec_cb(handle, on_effect, flags, data);
            }
        }
    }
}
