//! Modules of nonsense with atomic instructions go through the installer's passes: with a shared
//! memory, which they import, and with one of their own.

use crate::nonsense::supported;
use base::prng::Prng;
use wasm_smith::{Config, Module};
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

const MODULES: u64 = 400;
/// Number of random bytes for a module.
const BYTES: usize = 6000;

/// Imports and exports of every module. wasm-smith takes an exported memory for a defined one, and
/// a module that starts threads must export its memory.
const SHARED: &str = r#"(module
    (import "penumbra" "self" (func (param i32) (result i32)))
    (import "env" "memory" (memory 1 9 shared))
    (func (param i32 i32)) (func)
    (export "_start" (func 2)) (export "wasi_thread_start" (func 1)))"#;
const ALONE: &str = r#"(module
    (import "penumbra" "self" (func (param i32) (result i32)))
    (memory 1 9) (func) (export "memory" (memory 0)) (export "_start" (func 1)))"#;

fn module(seed: u64, shape: &str) -> Vec<u8> {
    let config = Config {
        exports: None,
        module_shape: Some(wat::parse_str(shape).unwrap()),
        allow_start_export: true,
        threads_enabled: true,
        max_funcs: 24,
        max_instructions: 400,
        ..supported(vec![])
    };
    let mut prng = Prng::new(seed);
    loop {
        let bytes: Vec<u8> = (0..BYTES).map(|_| prng.next() as u8).collect();
        let mut source = arbitrary::Unstructured::new(&bytes);
        if let Ok(module) = Module::new(config.clone(), &mut source) {
            return module.to_bytes();
        }
    }
}

/// Numbers of instructions of a module: those that wait or notify, and other atomic ones.
fn atomics(wasm: &[u8]) -> (usize, usize) {
    let (mut waits, mut others) = (0, 0);
    for payload in Parser::new(0).parse_all(wasm) {
        let Payload::CodeSectionEntry(body) = payload.unwrap() else { continue };
        for operator in body.get_operators_reader().unwrap() {
            let name = format!("{:?}", operator.unwrap());
            let is_wait = name.starts_with("MemoryAtomic");
            waits += usize::from(is_wait);
            others += usize::from(!is_wait && name.contains("Atomic"));
        }
    }
    (waits, others)
}

fn is_valid(wasm: &[u8]) -> bool {
    let features = WasmFeatures::default() | WasmFeatures::THREADS;
    Validator::new_with_features(features).validate_all(wasm).is_ok()
}

#[test]
fn each_module_with_atomics_is_prepared_and_valid() {
    for shape in [SHARED, ALONE] {
        let (mut waited, mut atomic) = (0, 0);
        for seed in 0..MODULES {
            let wasm = module(seed, shape);
            assert_eq!(passes::unsupported(&wasm), None, "{seed}");
            let (waits, others) = atomics(&wasm);
            for isa in [abi::boot::isa::AARCH64, abi::boot::isa::RISCV64] {
                let prepared = passes::prepare(&wasm, isa).unwrap().wasm;
                assert!(is_valid(&prepared), "{seed}");
                let (waits, left) = atomics(&prepared);
                assert_eq!(waits, 0, "{seed}");
                // RV64 loses unreachable code; a notification may become a load.
                let stays = isa == abi::boot::isa::AARCH64 && shape == SHARED;
                assert!(!stays || left == others, "{seed}: {left} of {others}");
            }
            waited += waits;
            atomic += others;
        }
        assert!(waited > 50 && atomic > 1000, "{waited} waits, {atomic} others");
    }
}
