//! Which modules can be programs, and what the others are refused for.

use super::*;
use kernel_process::functions::WASI;

fn refusal(text: &str) -> Option<Unsupported> {
    unsupported(&crate::read(text))
}

#[test]
fn a_program_of_wasi_is_supported() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_write"
            (func (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
        (import "penumbra" "self" (func (param i32) (result i32)))
        (memory (export "memory") 1) (table 4 funcref) (func (export "_start")))"#;
    assert_eq!(refusal(text), None);
    assert_eq!(refusal("(module)"), None);
    assert_eq!(unsupported(b"\0asm\x01"), None);
}

#[test]
fn memories_of_other_kinds_are_refused() {
    for (text, expected) in [
        ("(module (memory 1) (memory 1))", Unsupported::Memories(2)),
        ("(module (memory i64 1))", Unsupported::Memory64),
        ("(module (table i64 1 funcref))", Unsupported::Table64),
        ("(module (table 131072 funcref) (table 1 funcref))", Unsupported::TableEntries(131073)),
        ("(module (memory i64 1 1 shared))", Unsupported::Memory64),
        (r#"(module (import "e" "m" (memory i64 1 1 shared)))"#, Unsupported::Memory64),
        ("(module (memory 1 (pagesize 1)))", Unsupported::PageSize),
    ] {
        assert_eq!(refusal(text), Some(expected), "{text}");
    }
    let tables = |count| format!("(module {})", "(table 1 funcref)".repeat(count));
    assert_eq!(refusal(&tables(8)), None);
    assert_eq!(refusal(&tables(9)), Some(Unsupported::Tables(9)));
}

#[test]
fn types_of_other_proposals_are_refused() {
    for (text, expected) in [
        ("(module (type (struct (field i32))))", Unsupported::Gc),
        ("(module (type (array i8)))", Unsupported::Gc),
        ("(module (tag (param i32)))", Unsupported::Exceptions),
    ] {
        assert_eq!(refusal(text), Some(expected), "{text}");
    }
}

#[test]
fn an_import_that_nobody_has_is_named() {
    let names = |module: &str, name: &str| (module.to_string(), name.to_string());
    let (module, name) = names("env", "log");
    let text = r#"(module (import "env" "log" (func)))"#;
    assert_eq!(refusal(text), Some(Unsupported::ImportModule { module, name }));
    let (module, name) = names(WASI, "sock_open");
    let text = r#"(module (import "wasi_snapshot_preview1" "sock_open" (func)))"#;
    assert_eq!(refusal(text), Some(Unsupported::ImportName { module, name }));
    let (module, name) = names(WASI, "fd_close");
    let text = r#"(module (import "wasi_snapshot_preview1" "fd_close" (func (param i64))))"#;
    assert_eq!(refusal(text), Some(Unsupported::ImportType { module, name }));
    let (module, name) = names("env", "memory");
    let text = r#"(module (import "env" "memory" (memory 1)))"#;
    let kind = "the memory";
    assert_eq!(refusal(text), Some(Unsupported::ImportKind { kind, module, name }));
}

/// A module that starts threads, with these types of memory, spawn and start.
fn threaded(memory: &str, spawn: &str, start: &str) -> String {
    format!(
        r#"(module
            (import "penumbra" "self" (func (param i32) (result i32)))
            (import "env" "memory" (memory {memory}))
            (import "wasi" "thread-spawn" (func {spawn}))
            (func {start} unreachable) (func)
            (export "memory" (memory 0)) (export "_start" (func 3))
            (export "wasi_thread_start" (func 2)))"#
    )
}

const SHARED: &str = "1 9 shared";
const SPAWN: &str = "(param i32) (result i32)";
const START: &str = "(param i32 i32)";

#[test]
fn a_program_with_threads_is_supported() {
    let threads = threaded(SHARED, SPAWN, START);
    assert_eq!(refusal(&threads), None);
    let own_name = threads.replace("\"env\" \"memory\"", "\"a\" \"b\"");
    assert_eq!(refusal(&own_name), None, "a memory by another name");
    let no_spawn = r#"(module (import "env" "memory" (memory 1 1 shared)))"#;
    assert_eq!(refusal(no_spawn), None);
    let atomics = r#"(module (memory 1) (func
        (drop (memory.atomic.notify (i32.const 0) (i32.const 1)))))"#;
    assert_eq!(refusal(atomics), None, "one thread, built with atomics");
}

#[test]
fn a_shared_memory_of_the_modules_own_is_refused() {
    let own = "(module (memory 1 1 shared))";
    assert_eq!(refusal(own), Some(Unsupported::SharedMemory));
    let advice = Unsupported::SharedMemory.to_string();
    assert!(advice.contains("--import-memory --export-memory"), "{advice}");
    let two = r#"(module (import "env" "memory" (memory 1 1 shared)) (memory 1))"#;
    assert_eq!(refusal(two), Some(Unsupported::Memories(2)));
    let import = r#"(import "env" "memory" (memory 1 1 shared))"#;
    let two = format!("(module {import} {import})");
    assert_eq!(refusal(&two), Some(Unsupported::Memories(2)));
}

#[test]
fn threads_without_what_they_need_are_refused() {
    let threads = threaded(SHARED, SPAWN, START);
    let own = threads.replace("(import \"env\" \"memory\" (memory 1 9 shared))", "");
    let own = own.replace("(func unreachable)", "(memory 1) (func unreachable)");
    for (text, expected) in [
        (own, Unsupported::NoSharedMemory),
        (
            threads.replace("\"memory\" (memory 0)", "\"m\" (memory 0)"),
            Unsupported::MemoryNotExported,
        ),
        (threads.replace("wasi_thread_start", "start"), Unsupported::NoThreadStart),
        (threads.replace("start\" (func 2)", "start\" (memory 0)"), Unsupported::NoThreadStart),
        (threaded(SHARED, SPAWN, "(param i32)"), Unsupported::NoThreadStart),
        (threaded(SHARED, SPAWN, "(param i32 i32) (result i32)"), Unsupported::NoThreadStart),
    ] {
        assert_eq!(refusal(&text), Some(expected), "{text}");
    }
    let names = |module: &str, name: &str| (module.to_string(), name.to_string());
    let (module, name) = names("wasi", "thread-spawn");
    let text = threaded(SHARED, "(param i64) (result i32)", START);
    assert_eq!(refusal(&text), Some(Unsupported::ImportType { module, name }));
    let (module, name) = names("env", "memory");
    let kind = "the memory";
    let text = threaded("1 9", SPAWN, START);
    assert_eq!(refusal(&text), Some(Unsupported::ImportKind { kind, module, name }));
}

/// What is missing might be in the part that cannot be read.
#[test]
fn a_module_that_ends_early_is_left_to_the_compiler() {
    let whole = crate::read(&threaded(SHARED, SPAWN, START));
    for end in 0..whole.len() {
        let found = unsupported(&whole[..end]);
        let between_sections =
            wasmparser::Parser::new(0).parse_all(&whole[..end]).all(|it| it.is_ok());
        assert!(found.is_none() || between_sections, "{end}: {found:?}");
    }
}

#[test]
fn only_the_installer_imports_the_functions_for_threads() {
    let (module, name) = (abi::program::THREADS.to_string(), "grow".to_string());
    let text = r#"(module (import "penumbra_threads" "grow" (func (param i32) (result i32))))"#;
    assert_eq!(refusal(text), Some(Unsupported::ImportModule { module, name }));
}

#[test]
fn shared_types_are_refused() {
    let text = "(module (type (shared (func))))";
    assert_eq!(refusal(text), Some(Unsupported::SharedTypes));
    let text = "(module (global (shared i32) (i32.const 0)))";
    assert_eq!(refusal(text), None);
    assert_eq!(used(&crate::read(text)), Some(&Unsupported::SharedTypes));
}

#[test]
fn what_only_instructions_use_is_found_when_the_compiler_refuses() {
    let atomics = "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))";
    assert_eq!((refusal(atomics), used(&crate::read(atomics))), (None, None));
    let throws = "(module (func (try_table)))";
    assert_eq!(used(&crate::read(throws)), Some(&Unsupported::Exceptions));
    assert_eq!(used(&crate::read("(module (memory 1) (func))")), None);
    assert_eq!(used(b"no module"), None);
}
