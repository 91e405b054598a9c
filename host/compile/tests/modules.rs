//! Modules through the compiler: what comes out is for the right ISA, always the same, and says so
//! where there is none.

use abi::boot::isa;
use compile::{CompileError, compile, compile_and_count};

const HELLO: &[u8] = br#"(module
    (import "wasi_snapshot_preview1" "fd_write"
        (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 8) "\10\00\00\00\06\00\00\00hello\n")
    (func (export "_start")
        (drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 0)))))"#;

const SIMD: &[u8] = br#"(module (func (export "f") (result i32)
    (i32x4.extract_lane 0 (i32x4.add (v128.const i32x4 1 2 3 4) (v128.const i32x4 1 2 3 4)))))"#;

/// ELF's number of a machine.
fn machine(code: &[u8]) -> u16 {
    u16::from_le_bytes([code[18], code[19]])
}

#[test]
fn each_isa_gets_its_code() {
    for (isa, number) in [(isa::AARCH64, 183), (isa::RISCV64, 243)] {
        let code = compile(HELLO, isa).unwrap();
        assert!(code.starts_with(b"\x7fELF"));
        assert_eq!(machine(&code), number);
        assert_eq!(compile(HELLO, isa).unwrap(), code, "twice the same");
    }
}

#[test]
fn vectors_are_for_who_has_them() {
    assert!(compile(SIMD, isa::AARCH64).is_ok());
    assert!(compile(SIMD, isa::RISCV64).is_ok());
    let traps = |isa| compile_and_count(SIMD, isa).unwrap().1;
    assert_eq!((traps(isa::AARCH64), traps(isa::RISCV64)), (0, 1));
}

#[test]
fn what_is_no_module_is_refused() {
    let component = b"\0asm\x0d\0\x01\0";
    assert!(matches!(compile(component, isa::AARCH64), Err(CompileError::Component)));
    for wrong in [&b"\0asm\x01\0\0\0\xff"[..], b"(module (func (result i32)))"] {
        assert!(matches!(compile(wrong, isa::AARCH64), Err(CompileError::Module(_))), "{wrong:?}");
    }
    assert!(matches!(compile(HELLO, 0), Err(CompileError::Isa(0))));
    let threads = br#"(module (memory 1 1 shared))"#;
    assert!(matches!(compile(threads, isa::AARCH64), Err(CompileError::Module(_))), "threads");
}
