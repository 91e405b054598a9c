//! Modules of nonsense, which kernels must endure. Each has a memory and a `_start`, and uses only
//! what a kernel's engine supports (`docs/design/programs.md`). Every third imports nothing; the
//! others call what they may import with random arguments.

use base::prng::Prng;
use wasm_smith::{Config, Module};

/// Exports of every module.
const EXPORTS: &str = "(module (func (export \"_start\")) (memory (export \"memory\") 1 64))";
/// Number of random bytes for a module.
const BYTES: usize = 8192;

/// Returns module `index` of a seed. It may import what `imports`, a module as text, imports.
pub fn numbered(seed: u64, index: u64, imports: &str) -> Result<Vec<u8>, String> {
    let imports = if index.is_multiple_of(3) { "(module)" } else { imports };
    module(seed.wrapping_mul(1 << 20).wrapping_add(index), imports)
}

/// Returns a module for a seed. If the seed's bytes do not suffice, the next seed is used.
fn module(seed: u64, imports: &str) -> Result<Vec<u8>, String> {
    let parsed = |text: &str| wat::parse_str(text).map_err(|e| e.to_string());
    let config = config(parsed(EXPORTS)?, parsed(imports)?);
    let mut prng = Prng::new(seed);
    loop {
        let bytes: Vec<u8> = (0..BYTES).map(|_| prng.next() as u8).collect();
        let mut source = arbitrary::Unstructured::new(&bytes);
        if let Ok(module) = Module::new(config.clone(), &mut source) {
            return Ok(module.to_bytes());
        }
    }
}

fn config(exports: Vec<u8>, imports: Vec<u8>) -> Config {
    Config {
        available_imports: Some(imports),
        allow_start_export: true,
        // Those that it imports count: half of all, and hardly ever as few as 20.
        max_funcs: 64,
        max_instructions: 400,
        ..supported(exports)
    }
}

/// What a kernel's engine supports, for a module with these exports.
pub fn supported(exports: Vec<u8>) -> Config {
    Config {
        exports: Some(exports),
        min_funcs: 4,
        max_table_elements: 10_000,
        // No memory besides the exported one: a program has one.
        max_memories: 0,
        // Results must be the same on each ISA.
        canonicalize_nans: true,
        // Features that the engine is built without, or that an ISA lacks.
        compact_imports_enabled: false,
        custom_page_sizes_enabled: false,
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        reference_types_enabled: false,
        relaxed_simd_enabled: false,
        shared_everything_threads_enabled: false,
        simd_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_module() {
        let imports = "(module (import \"m\" \"f\" (func (param i32) (result i32))))";
        for seed in 0..20 {
            let (one, other) = (module(seed, imports).unwrap(), module(seed, imports).unwrap());
            assert_eq!(one, other);
            assert!(one.starts_with(b"\0asm"));
            assert_ne!(one, module(seed + 1, imports).unwrap());
        }
    }

    #[test]
    fn each_module_can_be_installed() {
        let imports = "(module (import \"penumbra\" \"kill\" (func (param i32 i32) (result i32))))";
        for seed in 0..200 {
            assert_eq!(passes::unsupported(&module(seed, imports).unwrap()), None, "{seed}");
        }
    }
}
