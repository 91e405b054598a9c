//! Options on which the compiler on the host (`host/compile`) and the runtime must agree. wasmtime
//! refuses code with other options. `abi::program::engine` has the numbers.

use crate::platform::Platform;
use crate::raw::CodeMemory;
use crate::region::Memories;
use abi::program::IMAGE_ALIGN;
use abi::program::engine::{GROWTH, GUARD, RESERVATION, STACK, has_simd};
use alloc::sync::Arc;
use wasmtime::{Config, WasmFeatures};

/// Returns the options for a kernel on `isa`.
pub fn config(isa: u32, platform: Platform, memories: Arc<Memories>) -> Config {
    let mut config = Config::new();
    let code = CodeMemory { page: IMAGE_ALIGN as usize, publish: platform.publish };
    config
        .with_custom_code_memory(Some(Arc::new(code)))
        .with_host_memory(memories)
        .signals_based_traps(true)
        .memory_reservation(RESERVATION)
        .memory_guard_size(GUARD)
        .memory_reservation_for_growth(GROWTH)
        .guard_before_linear_memory(false)
        .memory_init_cow(false)
        .concurrency_support(false)
        .max_wasm_stack(STACK)
        .wasm_backtrace_max_frames(None)
        .wasm_simd(has_simd(isa))
        .wasm_relaxed_simd(has_simd(isa))
        // Atomic instructions; what else of the proposal there is, the installer replaces.
        .wasm_features(WasmFeatures::THREADS, true);
    config
}
