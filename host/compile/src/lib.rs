//! Programs ahead of time: a WebAssembly module in, the code of one ISA out, as a kernel's engine
//! loads it.
//!
//! What both sides must agree on is `abi::program::engine`, with what its comment says; a kernel
//! refuses code that was made otherwise. Nothing is read from the environment, so the same module
//! gives the same code on every host.
//!
//! This crate holds Cranelift, which takes minutes to build. So nothing of ours depends on it:
//! `pen` builds its binary, `pen-compile`, when the first program is installed, and keeps what it
//! made (`docs/programs.md`).

mod flags;
mod names;
mod plain;
mod stop;
mod wide;

use abi::program::engine;
use thiserror::Error;
use wasmtime::{Config, Engine, OptLevel, WasmBacktraceDetails};

/// Why there is no code.
#[derive(Debug, Error)]
pub enum CompileError {
    /// We know no such ISA.
    #[error("there is no code for ISA {0}")]
    Isa(u32),
    /// Cranelift does not take our settings: a bug of ours.
    #[error("the compiler's settings: {0}")]
    Settings(String),
    /// The other form of WebAssembly.
    #[error("this is a component; programs are modules: build for wasm32-wasip1")]
    Component,
    /// It is no valid module, or uses what the engine is built without.
    #[error("{0}")]
    Module(String),
}

/// What a component begins with.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// The settings of an engine for `isa` ([`abi::boot::isa`]).
fn settings(isa: u32) -> Result<Config, CompileError> {
    let target = engine::target(isa).ok_or(CompileError::Isa(isa))?;
    let mut config = Config::new();
    config.target(target).map_err(|e| CompileError::Settings(format!("{e:#}")))?;
    // An explicit target has no defaults of the host's: each that matters is set.
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
        .wasm_simd(engine::has_simd(isa))
        .wasm_relaxed_simd(engine::has_simd(isa));
    // These do not change what a kernel accepts: how quick code is, and what is kept beside it. A
    // trap is found by frame pointers and told by functions' names: without the map of addresses an
    // image is a third smaller.
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

/// The code of the module `wasm` (binary, or text of WebAssembly) for `isa`.
pub fn compile(wasm: &[u8], isa: u32) -> Result<Vec<u8>, CompileError> {
    compile_and_count(wasm, isa).map(|(code, _)| code)
}

/// The same, and how many functions trap when they are called, since `isa` has no SIMD.
pub fn compile_and_count(wasm: &[u8], isa: u32) -> Result<(Vec<u8>, usize), CompileError> {
    if wasm.starts_with(COMPONENT) {
        return Err(CompileError::Component);
    }
    let engine =
        Engine::new(&settings(isa)?).map_err(|e| CompileError::Settings(format!("{e:#}")))?;
    let wasm = read(wasm)?;
    let (wasm, traps) = if engine::has_simd(isa) { (wasm, 0) } else { plain::without_simd(&wasm) };
    let wasm = if isa == abi::boot::isa::RISCV64 { wide::widened(&wasm) } else { wasm };
    let code = engine.precompile_module(&stop::with_way_out(&wasm));
    code.map(|code| (code, traps)).map_err(|e| CompileError::Module(format!("{e:#}")))
}

/// A module in binary, from text too.
fn read(wasm: &[u8]) -> Result<Vec<u8>, CompileError> {
    let bytes = wat::parse_bytes(wasm).map_err(|e| CompileError::Module(format!("{e:#}")))?;
    Ok(bytes.into_owned())
}
