//! What each instruction becomes, and that everything else means the same with moved indices.

use super::unshared;
use crate::{prepare, read};
use wasmparser::{BinaryReader, Name, NameSectionReader, Operator, Parser, Payload};
use wasmparser::{Validator, WasmFeatures};

const ISAS: [u32; 2] = [abi::boot::isa::AARCH64, abi::boot::isa::RISCV64];

/// What the compilers accept.
fn is_valid(wasm: &[u8]) -> bool {
    let features = WasmFeatures::default() | WasmFeatures::THREADS;
    Validator::new_with_features(features).validate_all(wasm).is_ok()
}

fn becomes(text: &str, expected: &str) {
    let found = unshared(&read(text)).unwrap().expect("the module changes");
    assert!(is_valid(&found), "{text}");
    assert_eq!(found, read(expected), "{text}");
}

/// Fields of a module with a shared memory, and of what it becomes: its type, the type and the
/// import that are added after those of `grow`, the rest.
fn threads_become(module: &str, [own, types, imports, rest]: [&str; 4]) {
    becomes(
        &format!("(module (import \"env\" \"memory\" (memory 1 9 shared)) {module})"),
        &format!(
            "(module {own} {GROW} {types} (import \"penumbra_threads\" \"grow\" (func (type 1))) \
             {imports} (memory 1 9) {rest})"
        ),
    );
}

/// The type of `grow`.
const GROW: &str = "(type (func (param i32) (result i32)))";

#[test]
fn a_shared_import_is_unshared_and_atomics_stay() {
    let body = "(func (type 0) i32.const 8 i32.const 1 i32.atomic.rmw.add offset=4 drop \
                atomic.fence memory.size drop i32.const 0 i64.atomic.load drop)";
    let types = "(type (func))";
    threads_become(&format!("{types} {body}"), [types, "", "", body]);
    // Without functions there is nothing to call.
    becomes(
        r#"(module (import "a" "b" (memory 0 65536 shared)) (import "a" "c" (global i32))
            (export "memory" (memory 0)))"#,
        r#"(module (import "a" "c" (global i32)) (memory 0 65536) (export "memory" (memory 0)))"#,
    );
}

#[test]
fn growth_becomes_a_call() {
    threads_become(
        "(func (param i32) (result i32) local.get 0 memory.grow)",
        ["(type (func (param i32) (result i32)))", "", "", "(func (type 0) local.get 0 call 0)"],
    );
}

#[test]
fn waiting_becomes_a_call_with_the_offset() {
    threads_become(
        "(func (param i32 i32 i64) (result i32) \
         local.get 0 local.get 1 local.get 2 memory.atomic.wait32 offset=40)",
        [
            "(type (func (param i32 i32 i64) (result i32)))",
            "(type (func (param i32 i32 i64 i32) (result i32)))",
            r#"(import "penumbra_threads" "wait32" (func (type 2)))"#,
            "(func (type 0) local.get 0 local.get 1 local.get 2 i32.const 40 call 1)",
        ],
    );
    threads_become(
        "(func (param i32 i64 i64) (result i32) \
         local.get 0 local.get 1 local.get 2 memory.atomic.wait64)",
        [
            "(type (func (param i32 i64 i64) (result i32)))",
            "(type (func (param i32 i64 i64 i32) (result i32)))",
            r#"(import "penumbra_threads" "wait64" (func (type 2)))"#,
            "(func (type 0) local.get 0 local.get 1 local.get 2 i32.const 0 call 1)",
        ],
    );
}

#[test]
fn notification_becomes_a_call_with_the_offset() {
    for (offset, constant) in [(0, 0), (8, 8), (0x8000_0000, i32::MIN), (u32::MAX, -1)] {
        threads_become(
            &format!(
                "(func (param i32 i32) (result i32) \
                 local.get 0 local.get 1 memory.atomic.notify offset={offset})"
            ),
            [
                "(type (func (param i32 i32) (result i32)))",
                "(type (func (param i32 i32 i32) (result i32)))",
                r#"(import "penumbra_threads" "notify" (func (type 2)))"#,
                &format!("(func (type 0) local.get 0 local.get 1 i32.const {constant} call 1)"),
            ],
        );
    }
}

/// Growth stays in a module with one thread, and a read takes the place of a notification.
#[test]
fn a_memory_that_is_not_shared_has_nobody_to_wait_for() {
    let module = |body: &str| format!("(module (memory 1) (func (param i32) {body}))");
    becomes(
        &module(
            "local.get 0 i32.const 7 memory.atomic.notify offset=12 drop \
             local.get 0 memory.grow drop",
        ),
        &module(
            "local.get 0 i32.const 7 drop i32.atomic.load offset=12 drop i32.const 0 drop \
             local.get 0 memory.grow drop",
        ),
    );
    becomes(
        &module("local.get 0 i32.const 7 i64.const -1 memory.atomic.wait32 i32.eqz drop"),
        &module("local.get 0 i32.const 7 i64.const -1 unreachable i32.eqz drop"),
    );
    becomes(
        &module("local.get 0 i64.const 7 i64.const -1 memory.atomic.wait64 drop"),
        &module("local.get 0 i64.const 7 i64.const -1 unreachable drop"),
    );
}

#[test]
fn a_module_without_such_instructions_stays() {
    for text in [
        "(module)",
        "(module (func) (memory 1) (func i32.const 1 memory.grow drop))",
        "(module (memory 1) (func i32.const 0 i32.const 1 i32.atomic.rmw8.xchg_u drop \
         atomic.fence))",
    ] {
        assert_eq!(unshared(&read(text)), Ok(None), "{text}");
    }
}

/// Every place that has an index of a function; imports between which the memory is, and groups of
/// types, which count by their members.
#[test]
fn indices_of_defined_functions_move_and_others_stay() {
    let types =
        "(rec (type (func)) (type (func (param i32)))) (type (func (param i32) (result i32)))";
    let own = r#"(import "wasi" "thread-spawn" (func (type 2)))"#;
    let exit = r#"(import "wasi_snapshot_preview1" "proc_exit" (func (type 1)))"#;
    let rest = |spawn: u32, exit: u32, defined: [u32; 3], grow: &str| {
        let [one, two, three] = defined;
        format!(
            "(table 9 funcref) \
             (global funcref (ref.func {two})) (global funcref (ref.func {exit})) \
             (export \"one\" (func {one})) (export \"spawn\" (func {spawn})) (start {three}) \
             (elem (i32.const 0) func {spawn} {one} {three}) \
             (elem (table 0) (i32.const 4) funcref (ref.func {two}) (ref.null func)) \
             (elem declare func {three} {exit}) \
             (func (type 0) call {three} i32.const 1 call {exit} ref.func {three} drop \
                ref.func {exit} drop) \
             (func (type 2) local.get 0 {grow} return_call {spawn}) \
             (func (type 0) return_call {one})"
        )
    };
    becomes(
        &format!(
            "(module {types} {own} (import \"env\" \"memory\" (memory 1 2 shared)) {exit} {})",
            rest(0, 1, [2, 3, 4], "memory.grow local.get 0 memory.atomic.notify")
        ),
        &format!(
            "(module {types} (type (func (param i32) (result i32))) \
             (type (func (param i32 i32 i32) (result i32))) {own} {exit} \
             (import \"penumbra_threads\" \"grow\" (func (type 3))) \
             (import \"penumbra_threads\" \"notify\" (func (type 4))) (memory 1 2) {})",
            rest(0, 1, [4, 5, 6], "call 2 local.get 0 i32.const 0 call 3")
        ),
    );
}

#[test]
fn functions_keep_their_names() {
    let text = r#"(module (import "env" "memory" (memory 1 2 shared))
        (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
        (func $grows (param i32) (result i32) (memory.grow (local.get 0)))
        (func $wasi_thread_start (export "wasi_thread_start") (param i32 i32))
        (export "memory" (memory 0)))"#;
    for isa in ISAS {
        let prepared = prepare(text.as_bytes(), isa).unwrap().wasm;
        let expected = [(0, "spawn"), (2, "grows"), (3, "wasi_thread_start")];
        assert_eq!(names(&prepared), expected.map(|(index, name)| (index, name.to_string())));
    }
}

fn names(wasm: &[u8]) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        let Payload::CustomSection(custom) = payload.unwrap() else { continue };
        for part in NameSectionReader::new(BinaryReader::new(custom.data(), 0)) {
            let Name::Function(map) = part.unwrap() else { panic!("other names") };
            found.extend(map.into_iter().flatten().map(|one| (one.index, one.name.to_string())));
        }
    }
    found
}

/// A name of no function.
#[test]
fn a_name_with_the_highest_index_is_no_overflow() {
    let mut wasm = read(EVERYTHING);
    let (mut section, mut map) = (wasm_encoder::NameSection::new(), wasm_encoder::NameMap::new());
    map.append(u32::MAX, "none");
    section.functions(&map);
    wasm.extend(&wasm_encoder::Module::new().section(&section).clone().finish()[8..]);
    let found = unshared(&wasm).unwrap().unwrap();
    assert_eq!(names(&found), [(u32::MAX, "none".to_string())]);
}

/// With each instruction, in live and in dead code.
const EVERYTHING: &str = r#"(module
    (import "env" "memory" (memory 1 2 shared))
    (import "wasi" "thread-spawn" (func (param i32) (result i32)))
    (table 1 funcref) (elem (i32.const 0) func 1) (data "abc")
    (export "memory" (memory 0)) (export "wasi_thread_start" (func 2))
    (start 3)
    (func (result i32)
        (memory.atomic.wait32 (i32.const 0) (i32.const 1) (i64.const -1))
        (memory.atomic.wait64 offset=8 (i32.const 0) (i64.const 1) (i64.const -1))
        i32.add
        (memory.atomic.notify (i32.const 0) (i32.const 1))
        (memory.grow (i32.const 1))
        i32.add i32.sub
        return
        memory.atomic.wait32 memory.grow memory.atomic.notify)
    (func (param i32 i32)
        (if (i32.atomic.rmw8.cmpxchg_u (local.get 0) (i32.const 0) (i32.const 1))
            (then (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 3)) (data.drop 0))
            (else (drop (memory.atomic.notify (local.get 0) (i32.const -1))))))
    (func))"#;

/// Returns whether a function waits or notifies with an instruction.
fn waits(wasm: &[u8]) -> bool {
    Parser::new(0).parse_all(wasm).any(|payload| {
        let Payload::CodeSectionEntry(body) = payload.unwrap() else { return false };
        body.get_operators_reader().unwrap().into_iter().any(|operator| {
            use Operator::{MemoryAtomicNotify, MemoryAtomicWait32, MemoryAtomicWait64};
            matches!(
                operator.unwrap(),
                MemoryAtomicNotify { .. } | MemoryAtomicWait32 { .. } | MemoryAtomicWait64 { .. }
            )
        })
    })
}

#[test]
fn after_all_passes_the_module_is_valid_and_waits_nowhere() {
    let unshared_memory = "(import \"env\" \"memory\" (memory 1 2 shared))";
    let own = EVERYTHING.replace(unshared_memory, "").replace("(table", "(memory 1) (table");
    let own = own.replace("wasi\" \"thread-spawn", "penumbra\" \"self");
    for text in [EVERYTHING, &own] {
        assert!(waits(&read(text)));
        for isa in ISAS {
            let prepared = prepare(text.as_bytes(), isa).unwrap().wasm;
            assert!(is_valid(&prepared) && !waits(&prepared), "{text}");
        }
    }
}

#[test]
fn a_module_that_ends_early_is_refused_or_has_no_code() {
    let whole = read(EVERYTHING);
    let has_code = |wasm: &[u8]| {
        Parser::new(0).parse_all(wasm).any(|it| matches!(it, Ok(Payload::CodeSectionEntry(_))))
    };
    assert!(has_code(&whole));
    for isa in ISAS {
        let cuts = (0..whole.len()).map(|end| prepare(&whole[..end], isa));
        let accepted: Vec<_> = cuts.flatten().collect();
        assert!(accepted.iter().all(|cut| !has_code(&cut.wasm)));
        assert!(accepted.len() < 9, "more than there are ends of sections: {}", accepted.len());
    }
}

#[test]
fn a_module_with_any_byte_changed_is_refused_or_waits_nowhere() {
    let whole = read(EVERYTHING);
    let (mut refused, mut valid) = (0, 0);
    for at in 8..whole.len() {
        for byte in [0, 1, 2, 3, 0x41, 0x7f, 0x80, 0xfd, 0xfe, 0xff, whole[at] ^ 1] {
            let mut changed = whole.clone();
            changed[at] = byte;
            match prepare(&changed, ISAS[at % 2]) {
                Ok(prepared) => {
                    assert!(!waits(&prepared.wasm), "byte {at}: {byte}");
                    valid += usize::from(is_valid(&prepared.wasm));
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1000 && valid > 100, "{refused} refused, {valid} valid");
}

/// Afterwards nothing of them would be left to complain about.
#[test]
fn an_invalid_instruction_that_would_be_replaced_is_refused() {
    for body in [
        "(drop (memory.atomic.notify 1 (i32.const 0) (i32.const 1)))",
        "(drop (memory.atomic.notify offset=4294967296 (i32.const 0) (i32.const 1)))",
        "(drop (memory.atomic.notify (i32.const 0) (i64.const 1)))",
        "(drop (memory.grow 1 (i32.const 0)))",
    ] {
        for memory in [r#"(import "env" "memory" (memory 1 1 shared))"#, "(memory 1)"] {
            let other = "(func (drop (memory.atomic.notify (i32.const 0) (i32.const 1))))";
            let wasm = read(&format!("(module {memory} {other} (func {body}))"));
            assert!(unshared(&wasm).is_err(), "{body}");
        }
    }
}
