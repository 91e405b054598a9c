//! Modules of nonsense, executed as they are and as they are said again: every result, every trap
//! and all memory are the same.

use base::prng::Prng;
use passes::widened;
use wasm_smith::{Config, Module};
use wasmtime::{Engine, Func, Instance, Memory, Store, Val, ValType};

/// How many, and random bytes that one is made of.
const MODULES: u64 = 1000;
const BYTES: usize = 4096;
/// Loops go round so often before the module ends itself.
const FUEL: u32 = 2000;

fn module(seed: u64) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let config = Config {
        export_everything: true,
        max_imports: 0,
        min_funcs: 4,
        min_memories: 1,
        max_memory32_bytes: 4 << 20,
        max_instructions: 300,
        canonicalize_nans: true,
        compact_imports_enabled: false,
        custom_page_sizes_enabled: false,
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        // Functions with such stay as they are.
        multi_value_enabled: seed.is_multiple_of(3),
        reference_types_enabled: false,
        shared_everything_threads_enabled: false,
        simd_enabled: false,
        relaxed_simd_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    };
    loop {
        let bytes: Vec<u8> = (0..BYTES).map(|_| prng.next() as u8).collect();
        let mut source = arbitrary::Unstructured::new(&bytes);
        let Ok(mut module) = Module::new(config.clone(), &mut source) else { continue };
        if module.ensure_termination(FUEL).is_ok() {
            return module.to_bytes();
        }
    }
}

/// Numbers at which widths show.
fn argument(kind: ValType, prng: &mut Prng) -> Option<Val> {
    let odd = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX];
    let bits = if prng.chance(1, 2) { odd[prng.below(7) as usize] } else { prng.next() >> 20 };
    match kind {
        ValType::I32 => Some(Val::I32(bits as i32)),
        ValType::I64 => Some(Val::I64(bits as i64)),
        ValType::F32 => Some(Val::F32(bits as u32 & 0x7f7f_ffff)),
        ValType::F64 => Some(Val::F64(bits & 0x7fef_ffff_ffff_ffff)),
        _ => None,
    }
}

/// What became of a module and each of its functions, in words.
fn executed(engine: &Engine, wasm: &[u8], seed: u64) -> Vec<String> {
    let module = wasmtime::Module::new(engine, wasm).unwrap();
    let mut store = Store::new(engine, ());
    let instance = match Instance::new(&mut store, &module, &[]) {
        Ok(instance) => instance,
        Err(why) => return vec![trap(&why)],
    };
    let mut said = vec![];
    let mut prng = Prng::new(seed);
    let exports: Vec<_> = module.exports().map(|export| export.name().to_string()).collect();
    for _ in 0..3 {
        for name in &exports {
            if let Some(function) = instance.get_func(&mut store, name) {
                said.push(called(&mut store, function, &mut prng));
            }
        }
    }
    for name in &exports {
        if let Some(memory) = instance.get_memory(&mut store, name) {
            said.push(sum(&store, memory));
        } else if let Some(global) = instance.get_global(&mut store, name) {
            let value = global.get(&mut store);
            said.extend(shown(&value));
        }
    }
    said
}

fn called(store: &mut Store<()>, function: Func, prng: &mut Prng) -> String {
    let kind = function.ty(&*store);
    let arguments: Option<Vec<Val>> = kind.params().map(|it| argument(it, prng)).collect();
    let Some(arguments) = arguments else { return "not called".to_string() };
    let mut results: Vec<Val> = kind.results().map(|_| Val::I32(0)).collect();
    match function.call(store, &arguments, &mut results) {
        Ok(()) => results.iter().filter_map(shown).collect::<Vec<_>>().join(" "),
        Err(why) => trap(&why),
    }
}

/// A number; a reference has none.
fn shown(value: &Val) -> Option<String> {
    matches!(value, Val::I32(_) | Val::I64(_) | Val::F32(_) | Val::F64(_))
        .then(|| format!("{value:?}"))
}

fn trap(why: &wasmtime::Error) -> String {
    format!("{:?}", why.downcast_ref::<wasmtime::Trap>())
}

fn sum(store: &Store<()>, memory: Memory) -> String {
    let bytes = memory.data(store);
    let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{} bytes {:x}", bytes.len(), bytes.iter().fold(1, fold))
}

#[test]
fn nonsense_means_the_same() {
    let engine = Engine::default();
    let (mut changed, mut calls) = (0, 0);
    for seed in 0..MODULES {
        let wasm = module(seed);
        let wide = widened(&wasm);
        let expected = executed(&engine, &wasm, seed);
        assert_eq!(executed(&engine, &wide, seed), expected, "seed {seed}");
        changed += usize::from(wide != wasm);
        calls += expected.len();
    }
    assert!(changed > 300 && calls > 9000, "{changed} of {MODULES}, {calls} calls");
}
