//! Cranelift for the ISAs of our boards: a WebAssembly module in, the code of one ISA out, as a
//! kernel's engine loads it.
//!
//! The settings that both sides must share are `abi::program::engine`; a kernel refuses code that
//! was compiled with others. Nothing is read from the environment, so one module gives the same
//! code on every host.
//!
//! This crate takes minutes to build, so nothing of ours depends on it: `pen` builds its binary,
//! `pen-compile`, only where the official wasmtime release cannot be had
//! (`docs/design/programs.md`).

mod flags;

use abi::program::engine;
use thiserror::Error;
use wasmtime::{Config, Engine, OptLevel, WasmBacktraceDetails, WasmFeatures};

/// Why there is no code.
#[derive(Debug, Error)]
pub enum CompileError {
    #[error("there is no code for ISA {0}")]
    Isa(u32),
    /// A bug of ours.
    #[error("Cranelift refuses our settings: {0}")]
    Settings(String),
    /// The module is not valid, or uses what the engine is built without.
    #[error("{0}")]
    Module(String),
}

/// Settings for `isa` ([`abi::boot::isa`]).
fn settings(isa: u32) -> Result<Config, CompileError> {
    let target = engine::target(isa).ok_or(CompileError::Isa(isa))?;
    let mut config = Config::new();
    config.target(target).map_err(|e| CompileError::Settings(format!("{e:#}")))?;
    // An explicit target skips the host's defaults, so every setting that matters is given.
    config
        .signals_based_traps(true)
        .memory_reservation(engine::RESERVATION)
        .memory_guard_size(engine::GUARD)
        .memory_reservation_for_growth(engine::GROWTH)
        .guard_before_linear_memory(false)
        .memory_init_cow(false)
        .concurrency_support(false)
        .max_wasm_stack(engine::STACK)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_features(WasmFeatures::THREADS, true)
        .wasm_simd(engine::has_simd(isa))
        .wasm_relaxed_simd(engine::has_simd(isa));
    // A kernel accepts any choice here. It finds a trap by frame pointers and names its function;
    // without the address map an image is a third smaller.
    config
        .cranelift_opt_level(OptLevel::Speed)
        .generate_address_map(false)
        .debug_info(false)
        .native_unwind_info(false);
    for flag in engine::extensions(isa) {
        flags::enable(&mut config, flag);
    }
    Ok(config)
}

/// Compiles `wasm` (binary), which has been through `passes::prepare` for the same `isa`.
pub fn compile(wasm: &[u8], isa: u32) -> Result<Vec<u8>, CompileError> {
    let engine =
        Engine::new(&settings(isa)?).map_err(|e| CompileError::Settings(format!("{e:#}")))?;
    engine.precompile_module(wasm).map_err(|e| CompileError::Module(format!("{e:#}")))
}
