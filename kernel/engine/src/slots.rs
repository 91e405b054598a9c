//! The functions that programs call directly, and where the instances of a module keep their
//! addresses, from the layout in `wasmtime_environ`. `short` replaces these.

use abi::program::MODULE;
use kernel_process::functions::WASI;
use wasmtime::{ExternType, Module};
use wasmtime_environ::{FuncIndex, HostPtr, PtrSize, VMOffsets, VMOffsetsFields};

/// The number of functions that are called directly.
pub const COUNT: usize = 6;

/// Module and name of each.
const DIRECT: [(&str, &str); COUNT] = [
    (WASI, "clock_time_get"),
    (WASI, "fd_read"),
    (WASI, "fd_write"),
    (MODULE, "channel_send"),
    (MODULE, "channel_receive"),
    (MODULE, "channel_call"),
];

/// Returns the place of a function in the list.
pub const fn place_of(name: &str) -> usize {
    let mut place = 0;
    while !is_same(DIRECT[place].1.as_bytes(), name.as_bytes()) {
        place += 1;
    }
    place
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Returns the offset of each function's address in contexts of this module; `None` if it is not
/// imported. A module calls nothing directly if it has not exactly one memory, its own, or imports
/// other things than functions.
pub fn slots_of(module: &Module) -> [Option<u32>; COUNT] {
    let is_function = |kind: &ExternType| matches!(kind, ExternType::Func(_));
    let owns_memory = module.resources_required().num_memories == 1
        && module.get_export("memory").is_some_and(|kind| kind.memory().is_some());
    if !owns_memory || !module.imports().all(|import| is_function(&import.ty())) {
        return [None; COUNT];
    }
    DIRECT.map(|name| {
        let number =
            module.imports().position(|import| (import.module(), import.name()) == name)?;
        u32::try_from(number).ok().map(slot_of)
    })
}

/// Returns the offset of the address of imported function `number`, in a context with one memory of
/// its own.
fn slot_of(number: u32) -> u32 {
    let offsets = VMOffsets::from(VMOffsetsFields {
        ptr: HostPtr,
        num_imported_functions: number + 1,
        num_imported_tables: 0,
        num_imported_memories: 0,
        num_imported_globals: 0,
        num_imported_tags: 0,
        num_defined_tables: 0,
        num_defined_memories: 1,
        num_owned_memories: 1,
        num_defined_globals: 0,
        num_defined_tags: 0,
        num_escaped_funcs: 0,
        num_runtime_data: 0,
        has_startup_func: false,
    });
    let import = HostPtr.vm_function_import();
    offsets.imported_functions().at(FuncIndex::from_u32(number)) + u32::from(import.wasm_call())
}
