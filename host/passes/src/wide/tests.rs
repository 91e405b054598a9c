//! Which functions change, and that all of them still compute the same.

use super::widened;
use crate::read;

fn becomes(text: &str, expected: &str) {
    let [wasm, expected] = [text, expected].map(|it| read(&format!("(module (memory 1) {it})")));
    let found = widened(&wasm);
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(&found));
}

fn stays(text: &str) {
    becomes(text, text);
}

#[test]
fn what_is_compared_is_wide() {
    becomes(
        "(func (param i32) (result i32) local.get 0 i32.load16_s i32.const -1 i32.lt_u)",
        "(func (param i32) (result i32) local.get 0 i64.load16_s i64.const -1 i64.lt_u)",
    );
    becomes(
        "(func (result i32) memory.size i32.const 3 i32.add i32.eqz)",
        "(func (result i32) memory.size i32.const 3 i32.add i64.extend_i32_s i64.eqz)",
    );
    becomes(
        "(func (param i32) local.get 0 i32.load if end)",
        "(func (param i32) local.get 0 i64.load32_s i64.const 0 i64.ne if end)",
    );
}

#[test]
fn a_local_that_loops_compare_is_wide_and_a_parameter_gets_another() {
    becomes(
        "(func (param i32) loop local.get 0 i32.load local.tee 0 br_if 0 end)",
        "(func (param i32) (local i64) local.get 0 i64.extend_i32_s local.set 1 \
         loop local.get 1 i32.wrap_i64 i64.load32_s local.tee 1 i64.const 0 i64.ne br_if 0 end)",
    );
    becomes(
        "(func (local f32 i32) loop local.get 1 i32.const 1 i32.add local.tee 1 i32.const 9 \
         i32.ne br_if 0 end)",
        "(func (local f32 i64) loop local.get 1 i32.wrap_i64 i32.const 1 i32.add \
         i64.extend_i32_s local.tee 1 i64.const 9 i64.ne br_if 0 end)",
    );
}

#[test]
fn bits_and_choices_are_as_wide_as_what_they_are_made_of() {
    becomes(
        "(func (param i32) (result i32) local.get 0 i32.load local.get 0 i32.load8_u i32.xor \
         i32.const 7 i32.and i32.eqz)",
        "(func (param i32) (result i32) local.get 0 i64.load32_s local.get 0 i64.load8_u i64.xor \
         i64.const 7 i64.and i64.eqz)",
    );
    becomes(
        "(func (result i32) i32.const 1 i32.const 2 memory.size select i32.const 2 i32.eq)",
        "(func (result i32) i64.const 1 i64.const 2 memory.size i64.extend_i32_s i64.const 0 \
         i64.ne select i64.const 2 i64.eq)",
    );
    // Each of two values would cost an extension; their bitwise combination costs one.
    becomes(
        "(func (result i32) memory.size memory.size i32.or i32.eqz)",
        "(func (result i32) memory.size memory.size i32.or i64.extend_i32_s i64.eqz)",
    );
}

/// Other atomic operations have no version that extends a sign. All of them are executed in order.
#[test]
fn atomic_operations_stay_or_become_loads_of_the_same_width() {
    for width in ["8", "16"] {
        becomes(
            &format!("(func (param i32) loop local.get 0 i32.atomic.load{width}_u br_if 0 end)"),
            &format!(
                "(func (param i32) loop local.get 0 i64.atomic.load{width}_u i64.const 0 i64.ne \
                 br_if 0 end)"
            ),
        );
    }
    for (operation, operands) in [
        ("i32.atomic.load offset=4", ""),
        ("i32.atomic.rmw.add", "i32.const 1"),
        ("i32.atomic.rmw8.xchg_u", "i32.const 1"),
        ("i32.atomic.rmw16.or_u", "i32.const 1"),
        ("i32.atomic.rmw.cmpxchg", "i32.const -1 i32.const 1"),
    ] {
        let module = |negative: &str| {
            format!("(func (param i32) (result i32) local.get 0 {operands} {operation} {negative})")
        };
        becomes(&module("i32.const -1 i32.eq"), &module("i64.extend_i32_s i64.const -1 i64.eq"));
    }
    stays(
        "(func (param i32) local.get 0 local.get 0 i32.atomic.load8_u i32.atomic.store16 \
         local.get 0 i64.const 1 i64.atomic.rmw32.add_u drop atomic.fence)",
    );
}

#[test]
fn what_nobody_compares_stays() {
    stays("(func (param i32 i32) local.get 0 local.get 1 i32.load i32.store)");
    stays("(func (result i32) i32.const 3 i32.const 4 i32.mul)");
    stays("(func (param i64) (result i64) local.get 0 i64.const 1 i64.xor)");
    stays("(func (param i32) (result i64) local.get 0 i64.extend_i32_s)");
    // An operator with several results.
    stays("(func (result i32 i32) i32.const 1 i32.const 2) (func call 0 i32.eq drop)");
}

#[test]
fn what_is_never_executed_goes() {
    becomes(
        "(func (result i32) block (result i32) i32.const 1 br 0 i32.eqz loop br 0 end end \
         return i32.eqz if nop else end)",
        "(func (result i32) block (result i32) i32.const 1 br 0 end return)",
    );
    becomes("(func unreachable i32.add drop)", "(func unreachable)");
}

/// A module that was written to keep a compiler busy.
#[test]
fn what_is_deep_or_has_locals_without_end_takes_no_time() {
    let deep = format!("(func {} {})", "loop ".repeat(20_000), "end ".repeat(20_000));
    let locals = format!("(func (local {}))", "i32 ".repeat(20_000)).repeat(50);
    let large = format!("(func (param i32) {} local.get 0 i32.eqz drop)", "nop ".repeat(1 << 20));
    let begun = std::time::Instant::now();
    for text in [deep, locals, large] {
        let module = read(&format!("(module {text})"));
        assert_eq!(widened(&module), module);
    }
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn what_is_no_module_stays() {
    for wrong in [&b"no module"[..], b"\0asm\x01\0\0\0\xff"] {
        assert_eq!(widened(wrong), wrong);
    }
}
