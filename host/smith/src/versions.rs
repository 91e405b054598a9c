//! Modules of nonsense whose functions become versions of each other go through the installer's
//! passes: whatever refers to them, the result is valid.

use crate::nonsense::supported;
use base::prng::Prng;
use std::collections::HashMap;
use wasm_encoder::{NameMap, NameSection, Section};
use wasm_smith::{Config, Module};
use wasmparser::{Parser, Payload, TypeRef, Validator};

const MODULES: u64 = 400;
/// Number of random bytes for a module.
const BYTES: usize = 6000;

fn module(seed: u64) -> Vec<u8> {
    let config = Config {
        reference_types_enabled: true,
        simd_enabled: true,
        tail_call_enabled: true,
        allow_start_export: true,
        max_types: 4,
        max_funcs: 24,
        max_instructions: 400,
        ..supported(wat::parse_str("(module (func (export \"_start\")))").unwrap())
    };
    let imports = "(module (import \"penumbra\" \"kill\" (func (param i32 i32) (result i32))))";
    let available_imports = Some(wat::parse_str(imports).unwrap());
    let config = Config { available_imports, ..config };
    let mut prng = Prng::new(seed);
    loop {
        let bytes: Vec<u8> = (0..BYTES).map(|_| prng.next() as u8).collect();
        let mut source = arbitrary::Unstructured::new(&bytes);
        if let Ok(module) = Module::new(config.clone(), &mut source) {
            return module.to_bytes();
        }
    }
}

/// The types of a module's functions, imported ones first.
fn functions(wasm: &[u8]) -> Vec<u32> {
    let mut all = vec![];
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.unwrap() {
            Payload::ImportSection(imports) => {
                all.extend(imports.into_imports().filter_map(|import| match import.unwrap().ty {
                    TypeRef::Func(kind) => Some(kind),
                    _ => None,
                }));
            }
            Payload::FunctionSection(kinds) => all.extend(kinds.into_iter().map(Result::unwrap)),
            _ => {}
        }
    }
    all
}

/// Appends names, by which each function is the version of the one before it of the same type.
/// Returns how many pairs there are.
fn pair(wasm: &mut Vec<u8>) -> usize {
    let (mut map, mut alone, mut pairs) = (NameMap::new(), HashMap::new(), 0);
    for (index, kind) in functions(wasm).into_iter().enumerate() {
        match alone.remove(&kind) {
            None => {
                map.append(index as u32, &format!("f{index}"));
                alone.insert(kind, index);
            }
            Some(plain) => {
                map.append(index as u32, &format!("f{plain}@simd128"));
                pairs += 1;
            }
        }
    }
    let mut names = NameSection::new();
    names.functions(&map);
    names.append_to(wasm);
    pairs
}

#[test]
fn each_module_with_versions_is_prepared_and_valid() {
    let (mut pairs, mut fewer) = (0, 0);
    for seed in 0..MODULES {
        let mut wasm = module(seed);
        let trapping = passes::prepare(&wasm, abi::boot::isa::RISCV64).unwrap().trapping;
        pairs += pair(&mut wasm);
        for isa in [abi::boot::isa::AARCH64, abi::boot::isa::RISCV64] {
            let prepared = passes::prepare(&wasm, isa).unwrap();
            let valid = Validator::new().validate_all(&prepared.wasm);
            assert!(valid.is_ok(), "{seed}: {:?}", valid.err());
            if isa == abi::boot::isa::RISCV64 {
                assert!(prepared.trapping <= trapping, "{seed}");
                fewer += trapping - prepared.trapping;
            }
        }
    }
    assert!(pairs > 500 && fewer > 200, "{pairs} pairs, {fewer} functions trap no more");
}
