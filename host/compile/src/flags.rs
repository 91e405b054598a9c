//! The unsafe step of this crate: code for a chip that has more than its ISA's base.
#![allow(unsafe_code)]

use wasmtime::Config;

/// Lets code use one of `abi::program::engine::extensions`.
pub fn enable(config: &mut Config, extension: &'static str) {
    // SAFETY: nothing that is compiled runs here, and every core that runs it has the extension.
    unsafe { config.cranelift_flag_enable(extension) };
}
