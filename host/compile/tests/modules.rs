//! Prepared modules through Cranelift: the code is for the right ISA and reproducible, and what
//! cannot be compiled is an error.

use abi::boot::isa;
use compile::{CompileError, compile};

const HELLO: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write"
        (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 8) "\10\00\00\00\06\00\00\00hello\n")
    (func (export "_start")
        (drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 0)))))"#;

const SIMD: &str = r#"(module (func (export "f") (result i32)
    (i32x4.extract_lane 0 (i32x4.add (v128.const i32x4 1 2 3 4) (v128.const i32x4 1 2 3 4)))))"#;

/// Each instruction that threads need the engine for.
const THREADS: &str = r#"(module
    (import "env" "memory" (memory 1 2 shared))
    (func (export "wait32") (result i32)
        (memory.atomic.wait32 (i32.const 0) (i32.const 1) (i64.const -1)))
    (func (export "wait64") (result i32)
        (memory.atomic.wait64 (i32.const 0) (i64.const 1) (i64.const -1)))
    (func (export "notify") (result i32) (memory.atomic.notify (i32.const 0) (i32.const 1)))
    (func (export "grow") (result i32) (memory.grow (i32.const 1))))"#;

fn code(text: &str, isa: u32) -> Vec<u8> {
    let prepared = passes::prepare(text.as_bytes(), isa).unwrap();
    compile(&prepared.wasm, isa).unwrap_or_else(|why| panic!("{text} for {isa}: {why}"))
}

/// ELF's number of a machine.
fn machine(code: &[u8]) -> u16 {
    u16::from_le_bytes([code[18], code[19]])
}

#[test]
fn each_isa_gets_its_code() {
    for (isa, number) in [(isa::AARCH64, 183), (isa::RISCV64, 243)] {
        let first = code(HELLO, isa);
        assert!(first.starts_with(b"\x7fELF"));
        assert_eq!(machine(&first), number);
        assert_eq!(code(HELLO, isa), first, "compiled twice");
    }
}

#[test]
fn simd_compiles_for_each_isa() {
    for isa in [isa::AARCH64, isa::RISCV64] {
        code(SIMD, isa);
    }
}

/// Such a function has a symbol where code calls it.
#[test]
fn no_code_waits_in_the_engine() {
    let own = THREADS.replace("(import \"env\" \"memory\" (memory 1 2 shared))", "(memory 1 2)");
    for isa in [isa::AARCH64, isa::RISCV64] {
        let calls = |code: &[u8], name: &str| {
            code.windows(name.len()).any(|window| window == name.as_bytes())
        };
        let (threads, alone) = (code(THREADS, isa), code(&own, isa));
        assert!(!calls(&threads, "memory_atomic") && !calls(&alone, "memory_atomic"));
        assert!(!calls(&threads, "memory_grow"), "the kernel grows a memory of several threads");
        assert!(calls(&alone, "memory_grow"), "no symbols at all");
    }
}

/// Also of widths that RV64 has no instructions for.
#[test]
fn atomic_operations_compile_for_each_isa() {
    let operations = ["add", "sub", "and", "or", "xor", "xchg"].map(|name| {
        ["rmw", "rmw8", "rmw16"].map(|width| {
            let suffix = if width == "rmw" { "" } else { "_u" };
            format!(
                "i32.const 8 i32.const 1 i32.atomic.{width}.{name}{suffix} i32.const 0 i32.lt_s"
            )
        })
    });
    let exchanges = ["rmw.cmpxchg", "rmw8.cmpxchg_u", "rmw16.cmpxchg_u"]
        .map(|name| format!("i32.const 8 i32.const 1 i32.const 2 i32.atomic.{name} i32.eqz"));
    let loads = ["load", "load8_u", "load16_u"]
        .map(|name| format!("i32.const 8 i32.atomic.{name} i32.const -1 i32.eq"));
    for body in operations.as_flattened().iter().chain(&exchanges).chain(&loads) {
        let text = format!("(module (memory 1) (func (export \"f\") (result i32) {body}))");
        for isa in [isa::AARCH64, isa::RISCV64] {
            code(&text, isa);
        }
    }
}

#[test]
fn copies_of_any_length_compile_for_each_isa() {
    for length in [0, 1, 15, 16, 17, 48, 64, 127, 128, 129, 4096] {
        let constant = format!("(i32.const {length})");
        let lengths = [
            format!("(block (result i32) {constant})"),
            format!("(local.tee 0 {constant})"),
            constant,
        ];
        for length in lengths {
            for instruction in ["memory.copy", "memory.init 0"] {
                let text = format!(
                    "(module (memory 1) (data \"abc\") (func (export \"_start\") (local i32) \
                     ({instruction} (i32.const 64) (i32.const 0) {length})))"
                );
                for isa in [isa::AARCH64, isa::RISCV64] {
                    code(&text, isa);
                }
            }
        }
    }
}

#[test]
fn what_is_not_valid_is_an_error() {
    let wrong = passes::prepare(b"(module (func (result i32)))", isa::AARCH64).unwrap().wasm;
    for wasm in [&wrong[..], b"\0asm\x01\0\0\0\xff"] {
        let found = compile(wasm, isa::AARCH64);
        assert!(matches!(found, Err(CompileError::Module(_))), "{wasm:?}");
    }
    let hello = passes::prepare(HELLO.as_bytes(), isa::AARCH64).unwrap().wasm;
    assert!(matches!(compile(&hello, 0), Err(CompileError::Isa(0))));
}
