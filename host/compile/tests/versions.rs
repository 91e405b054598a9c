//! A module with versions of functions, prepared for each ISA and executed on this host: both
//! selections compute the same, and say which one they are.

use abi::boot::isa;
use wasmtime::{Engine, Instance, Module, Store};

/// `$sum` adds the numbers from 1; `$sum@simd128` adds four at a time, and leaves the rest to it.
/// Everything else reaches them in another way.
const MODULE: &str = r#"(module
    (type $kind (func (param i32) (result i32)))
    (table funcref (elem $sum $sum@simd128))
    (func $sum (export "sum") (type $kind) (local $all i32)
        (loop $next
            (local.set $all (i32.add (local.get $all) (local.get 0)))
            (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))
            (br_if $next (i32.gt_s (i32.const 0))))
        (local.get $all))
    (func $sum@simd128 (export "sum@simd128") (type $kind) (local $all v128) (local $four v128)
        (if (i32.lt_s (local.get 0) (i32.const 4))
            (then (return (call $sum (local.get 0)))))
        (local.set $four (i32x4.splat (local.get 0)))
        (local.set $four (i32x4.sub (local.get $four) (v128.const i32x4 0 1 2 3)))
        (local.set $all (i32x4.add (local.get $all) (local.get $four)))
        (i32.add
            (i32.add
                (i32.add (i32x4.extract_lane 0 (local.get $all))
                         (i32x4.extract_lane 1 (local.get $all)))
                (i32.add (i32x4.extract_lane 2 (local.get $all))
                         (i32x4.extract_lane 3 (local.get $all))))
            (call $sum@simd128 (i32.sub (local.get 0) (i32.const 4)))))
    (func $which (result i32) (i32.const 0))
    (func $which@simd128 (result i32) (i32x4.extract_lane 0 (i32x4.splat (i32.const 1))))
    (func (export "which") (result i32) (call $which))
    (func (export "call") (type $kind) (call $sum (local.get 0)))
    (func (export "other") (type $kind) (call $sum@simd128 (local.get 0)))
    (func (export "tail") (type $kind) (return_call $sum (local.get 0)))
    (func (export "slot 0") (type $kind)
        (call_indirect (type $kind) (local.get 0) (i32.const 0)))
    (func (export "slot 1") (type $kind)
        (call_indirect (type $kind) (local.get 0) (i32.const 1))))"#;

const WAYS: [&str; 7] = ["sum", "sum@simd128", "call", "other", "tail", "slot 0", "slot 1"];

fn instance(wasm: &[u8]) -> (Store<()>, Instance) {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let module = Module::new(&engine, wasm).unwrap();
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    (store, instance)
}

fn prepared(text: &str, isa: u32) -> Vec<u8> {
    let prepared = passes::prepare(text.as_bytes(), isa).unwrap();
    assert_eq!(prepared.trapping, 0);
    compile::compile(&prepared.wasm, isa).unwrap();
    prepared.wasm
}

#[test]
fn both_selections_compute_the_same() {
    for (isa, answer) in [(isa::AARCH64, 1), (isa::RISCV64, 0)] {
        let (mut store, instance) = instance(&prepared(MODULE, isa));
        let which = instance.get_typed_func::<(), i32>(&mut store, "which").unwrap();
        assert_eq!(which.call(&mut store, ()).unwrap(), answer);
        for way in WAYS {
            let function = instance.get_typed_func::<i32, i32>(&mut store, way).unwrap();
            for count in [1, 3, 4, 5, 1003] {
                let sum = function.call(&mut store, count).unwrap();
                assert_eq!(sum, count * (count + 1) / 2, "{way} of {count} for ISA {isa}");
            }
        }
    }
}
