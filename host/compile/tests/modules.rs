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

#[test]
fn copies_of_any_length_compile_for_each_isa() {
    for length in [0, 1, 15, 16, 17, 48, 64, 127, 128, 129, 4096] {
        let text = format!(
            "(module (memory 1) (func (export \"_start\") \
             (memory.copy (i32.const 64) (i32.const 0) (i32.const {length}))))"
        );
        for isa in [isa::AARCH64, isa::RISCV64] {
            code(&text, isa);
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
