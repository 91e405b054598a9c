//! The passes over a program's module before compilation: from module to module, for one ISA. They
//! do not need Cranelift, so `pen` runs them itself and gives the result to any compiler
//! (`docs/design/programs.md`).
//!
//! ```text
//! read (binary or text) -> check -> versions -> threads -> plain (ISAs without SIMD)
//! -> wide (RV64) -> stop (all) -> a compiler
//! -> pack
//! ```
//! Programs that can move while they run go through [`with_points`] and [`exposed`] before that.
//! [`bound`] is for programs that use the sockets of Rust's std, when they are built.
//! Unsupported features are rejected first ([`Unsupported`]), and then versions of functions that
//! do not fit together ([`WrongVersion`]). `threads` and `stop` refuse a module that they do not
//! understand; the others leave such a function unchanged. An invalid function reaches the
//! compiler, which reports the error.

mod added;
mod check;
mod imports;
mod moves;
mod names;
mod pack;
mod plain;
mod stop;
mod threads;
mod versions;
mod wide;

pub use check::{Unsupported, unsupported, used};
pub use imports::bound;
pub use moves::{exposed, with_points};
pub use pack::packed;
pub use plain::without_simd;
pub use versions::WrongVersion;
pub use wide::widened;

use abi::program::engine;
use std::borrow::Cow;
use thiserror::Error;

/// Why a module cannot be a program.
#[derive(Debug, Error)]
pub enum Refused {
    #[error("there is no code for ISA {0}")]
    Isa(u32),
    #[error("this is a component; programs are modules: build for wasm32-wasip1")]
    Component,
    #[error("this is no WebAssembly module: {0}")]
    Text(String),
    #[error("the module is invalid: {0}")]
    Invalid(String),
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error(transparent)]
    Version(#[from] WrongVersion),
}

/// A module, ready for the compiler.
pub struct Prepared {
    /// Binary.
    pub wasm: Vec<u8>,
    /// Number of functions that use SIMD on an ISA without it, and are no version of a plain one:
    /// they trap when called.
    pub trapping: usize,
}

/// The first bytes of a component.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// Runs all passes over `wasm` (binary or text) for `isa` ([`abi::boot::isa`]).
pub fn prepare(wasm: &[u8], isa: u32) -> Result<Prepared, Refused> {
    if engine::target(isa).is_none() {
        return Err(Refused::Isa(isa));
    }
    if wasm.starts_with(COMPONENT) {
        return Err(Refused::Component);
    }
    let wasm = wat::parse_bytes(wasm).map_err(|e| Refused::Text(e.to_string()))?;
    if let Some(what) = check::unsupported(&wasm) {
        return Err(what.into());
    }
    let wasm = versions::selected(&wasm, engine::has_simd(isa))?.map_or(wasm, Cow::Owned);
    let wasm = threads::unshared(&wasm).map_err(Refused::Invalid)?.map_or(wasm, Cow::Owned);
    let (wasm, trapping) = match engine::has_simd(isa) {
        true => (wasm.into_owned(), 0),
        false => plain::without_simd(&wasm),
    };
    let wasm = if isa == abi::boot::isa::RISCV64 { wide::widened(&wasm) } else { wasm };
    let wasm = stop::with_way_out(&wasm).map_err(Refused::Invalid)?;
    Ok(Prepared { wasm, trapping })
}

#[cfg(test)]
fn read(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the test's module is valid text")
}
