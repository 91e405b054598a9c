//! Options on which the compiler on the host (`host/compile`) and the runtime must agree. wasmtime
//! refuses code with other options. `abi::program::engine` has the numbers.

use crate::raw::{CodeMemory, Publish};
use abi::program::IMAGE_ALIGN;
use abi::program::engine::{GROWTH, GUARD, RESERVATION, STACK, has_simd};
use alloc::sync::Arc;
use wasmtime::Config;

/// Returns the options for a kernel on `isa`, which makes code executable by `publish`.
pub fn config(isa: u32, publish: Publish) -> Config {
    let mut config = Config::new();
    let code = CodeMemory { page: IMAGE_ALIGN as usize, publish };
    config
        .with_custom_code_memory(Some(Arc::new(code)))
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
        .wasm_relaxed_simd(has_simd(isa));
    config
}
