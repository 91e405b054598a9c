//! Finds where the instances of a module keep the address of the imported clock, from the layout
//! in `wasmtime_environ`. `short` replaces that address.

use kernel_process::functions;
use wasmtime::{ExternType, Module};
use wasmtime_environ::{FuncIndex, HostPtr, PtrSize, VMOffsets, VMOffsetsFields};

/// Returns the offset of the clock's address in contexts of this module, or `None` if it cannot be
/// called directly: the module must have exactly one memory, its own, and import only functions.
pub fn clock_of(module: &Module) -> Option<u32> {
    let is_function = |kind: &ExternType| matches!(kind, ExternType::Func(_));
    let owns_memory = module.resources_required().num_memories == 1
        && module.get_export("memory").is_some_and(|kind| kind.memory().is_some());
    let only_functions = module.imports().all(|import| is_function(&import.ty()));
    let clock = module
        .imports()
        .position(|import| (import.module(), import.name()) == (functions::WASI, "clock_time_get"));
    let number = clock.filter(|_| owns_memory && only_functions)?;
    u32::try_from(number).ok().map(call_of)
}

/// Returns the offset of the address of imported function `number`, in a context with one memory of
/// its own.
fn call_of(number: u32) -> u32 {
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
