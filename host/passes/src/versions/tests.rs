//! The pairs of a module, each wrong pair, and what refers to the functions of a pair.

use super::*;
use crate::{prepare, read};
use abi::boot::isa;
use wasmparser::{Validator, WasmFeatures};

/// A body that uses SIMD.
const VECTORS: &str = "(i32x4.extract_lane 0 (i32x4.splat (i32.const 2)))";

fn select(text: &str, has_simd: bool) -> Vec<u8> {
    let wasm = read(text);
    selected(&wasm, has_simd).unwrap().unwrap_or(wasm)
}

fn pairs(wasm: &[u8]) -> Result<Vec<(u32, u32)>, WrongVersion> {
    let found = Found::in_module(wasm).unwrap().pairs()?;
    Ok(found.into_iter().map(|pair| (pair.plain, pair.version)).collect())
}

/// Returns the pairs of a module with these functions, and their names.
fn pairs_of(functions: &str) -> Result<Vec<(u32, u32)>, WrongVersion> {
    pairs(&read(&format!("(module {functions})")))
}

/// Returns the error of a module with these functions, as it is installed on either ISA.
fn refused(functions: &str) -> String {
    let text = format!("(module {functions})");
    let [one, other] =
        [isa::AARCH64, isa::RISCV64].map(|isa| match prepare(text.as_bytes(), isa) {
            Err(why) => why.to_string(),
            Ok(_) => panic!("{text} for {isa}"),
        });
    assert_eq!(one, other);
    one
}

#[test]
fn names_of_versions() {
    assert_eq!(parts("f@simd128"), Some(("f", "simd128")));
    assert_eq!(parts("a::b@c@x"), Some(("a::b@c", "x")));
    let others =
        ["f", "@simd128", "f@", "f@@simd128", "f@12", "wasi:cli/run@0.2.0#run", "f@simd128 ", ""];
    for other in others {
        assert_eq!(parts(other), None, "{other}");
    }
}

#[test]
fn pairs_come_from_exports_and_names() {
    let exported = "(func (export \"f\")) (func (export \"f@simd128\"))";
    assert_eq!(pairs_of(exported), Ok(vec![(0, 1)]));
    assert_eq!(pairs_of("(func $f@simd128) (func $f)"), Ok(vec![(1, 0)]));
    assert_eq!(pairs_of("(func $f) (func (export \"f@simd128\"))"), Ok(vec![(0, 1)]));
    assert_eq!(pairs_of("(func $f@simd128) (func (export \"f\"))"), Ok(vec![(1, 0)]));
    assert_eq!(pairs_of("(func $f) (func $g)"), Ok(vec![]));
    // Imported functions are functions, too.
    let imported = "(import \"wasi_snapshot_preview1\" \"sched_yield\" (func $f (result i32))) \
                    (func $f@simd128 (result i32) (i32.const 0))";
    assert_eq!(pairs_of(imported), Ok(vec![(0, 1)]));
}

#[test]
fn an_export_decides_against_the_name_section() {
    // A plain function, a version, and a function that has two names of versions.
    assert_eq!(pairs_of("(func $f) (func (export \"f\")) (func $f@simd128)"), Ok(vec![(1, 2)]));
    let version = "(func $f) (func $f@simd128) (func (export \"f@simd128\"))";
    assert_eq!(pairs_of(version), Ok(vec![(0, 2)]));
    let both = "(func (export \"f\")) (func $g@simd128 (export \"f@simd128\"))";
    assert_eq!(pairs_of(both), Ok(vec![(0, 1)]));
}

#[test]
fn a_stripped_module_has_the_versions_of_its_exports() {
    let both = "(module (func $f (export \"f\")) (func $f@simd128 (export \"f@simd128\")) \
                (func $g) (func $g@simd128))";
    assert_eq!(pairs(&read(both)), Ok(vec![(0, 1), (2, 3)]));
    assert_eq!(pairs(&shown(&read(both))), Ok(vec![(0, 1)]));
}

#[test]
fn other_exports_and_names_are_left_alone() {
    assert_eq!(pairs_of("(memory (export \"m@simd128\") 1)"), Ok(vec![]));
    assert_eq!(pairs_of("(func (export \"wasi:cli/run@0.2.0#run\"))"), Ok(vec![]));
    assert_eq!(pairs_of("(func $f@varargs)"), Ok(vec![]), "as AssemblyScript has");
}

#[test]
fn equal_functions_may_have_been_merged() {
    let merged = "(func (export \"f\") (export \"f@simd128\"))";
    assert_eq!(pairs_of(merged), Ok(vec![]));
    let shared = "(func $f (export \"f\")) (func $g (export \"g\")) \
                  (func $v (export \"f@simd128\") (export \"g@simd128\"))";
    assert_eq!(pairs_of(shared), Ok(vec![(0, 2), (1, 2)]));
    let calls = "(func (export \"h\") call $f call $g call $v)";
    let plain = select(&format!("(module {shared} {calls})"), false);
    let expected = "(func $f (export \"f\")) (func $g (export \"g\")) (func $v unreachable) \
                    (export \"f@simd128\" (func $f)) (export \"g@simd128\" (func $f)) \
                    (func (export \"h\") call $f call $g call $f)";
    assert_eq!(shown(&plain), shown(&read(&format!("(module {expected})"))));
}

#[test]
fn wrong_pairs_are_refused_and_say_what_to_do() {
    let unknown = refused("(func (export \"f\")) (func (export \"f@simd\"))");
    assert!(unknown.contains("feature \"simd\"") && unknown.contains("\"f@simd128\""), "{unknown}");
    let alone = refused("(func (export \"f@simd128\"))");
    assert!(alone.contains("no function \"f\"") && alone.contains("inlining"), "{alone}");
    assert_eq!(refused("(func $f@simd128)"), alone);
    let kinds = ["(param i32)", "(param i64)", "(result i32)", "(param i32 i32)"];
    for kind in kinds {
        let text = format!("(func $f) (func (export \"f@simd128\") {kind} unreachable)");
        let other = refused(&text);
        assert!(other.contains("parameters or results"), "{other}");
    }
    let further = [
        "(func $f) (func $f@simd128) (func $f@simd128@simd128)",
        "(func $f (export \"f\") (export \"g\")) (func (export \"f@simd128\")) \
         (func (export \"g@simd128\"))",
        "(func $f@simd128@simd128) (func $f@simd128) (func $f)",
    ];
    for text in further {
        let found = refused(text);
        assert!(found.contains("a version none of its own"), "{text}: {found}");
    }
}

#[test]
fn a_name_of_two_functions_is_no_name() {
    let mut names = wasm_encoder::NameSection::new();
    let mut functions = wasm_encoder::NameMap::new();
    for (index, name) in ["f", "f", "f@simd128", "f@simd128"].iter().enumerate() {
        functions.append(index as u32, name);
    }
    names.functions(&functions);
    let with_names = |text: &str| {
        let mut wasm = read(text);
        wasm.extend(&Module::new().section(&names).clone().finish()[8..]);
        wasm
    };
    let found = pairs(&with_names("(module (func) (func) (func))")).unwrap_err().to_string();
    assert!(found.contains("several functions called \"f\""), "{found}");
    let exported = with_names("(module (func) (func (export \"f\")) (func))");
    assert_eq!(pairs(&exported), Ok(vec![(1, 2)]), "an index without a function is no name");
    let two = pairs(&with_names("(module (func) (func (export \"f\")) (func) (func))"));
    assert!(matches!(two, Err(WrongVersion::Further { .. })), "{two:?}");
}

/// Returns a module without its names.
fn shown(wasm: &[u8]) -> Vec<u8> {
    struct Nameless;
    impl Reencode for Nameless {
        type Error = Infallible;
        fn parse_custom_section(
            &mut self,
            _module: &mut Module,
            _section: wasmparser::CustomSectionReader<'_>,
        ) -> Result<(), Error<Infallible>> {
            Ok(())
        }
    }
    let mut module = Module::new();
    Nameless.parse_core_module(&mut module, Parser::new(0), wasm).unwrap();
    module.finish()
}

/// A module that refers to its functions 0 and 1, a pair, in every way: as `first` and `second`.
fn referring(first: &str, second: &str, version: &str) -> String {
    format!(
        "(module (type (func)) (table funcref (elem {first} {second})) \
         (global funcref (ref.func {first})) \
         (func $f) (func $v {version}) (func call {first} call {second} ref.func {first} drop \
         return_call {second}) (start {first}) (elem declare func {second}) \
         (export \"f\" (func {first})) (export \"f@simd128\" (func {second})) \
         (elem (i32.const 0) funcref (ref.func {second})))"
    )
}

#[test]
fn all_references_lead_to_the_selected_function() {
    let before = referring("0", "1", "nop");
    assert_eq!(shown(&select(&before, true)), shown(&read(&referring("1", "1", "nop"))));
    assert_eq!(shown(&select(&before, false)), shown(&read(&referring("0", "0", "unreachable"))));
}

#[test]
fn a_pair_calls_its_functions_as_it_was_written() {
    // Two pairs that call each other, and a function that calls all.
    let before = "(module (func $f call $f call $g) (func $v call $f return_call $v) \
                  (func $g call $f) (func $w call $f call $g) (func call $f call $v) \
                  (export \"f\" (func $f)) (export \"f@simd128\" (func $v)) \
                  (export \"g\" (func $g)) (export \"g@simd128\" (func $w)))";
    let after = "(module (func $f call $f call $w) (func $v call $f return_call $v) \
                 (func $g call $v) (func $w call $v call $g) (func call $v call $v) \
                 (export \"f\" (func $v)) (export \"f@simd128\" (func $v)) \
                 (export \"g\" (func $w)) (export \"g@simd128\" (func $w)))";
    assert_eq!(shown(&select(before, true)), shown(&read(after)));
    let plain = "(module (func $f call $f call $g) (func $v unreachable) \
                 (func $g call $f) (func $w unreachable) (func call $f call $f) \
                 (export \"f\" (func $f)) (export \"f@simd128\" (func $f)) \
                 (export \"g\" (func $g)) (export \"g@simd128\" (func $g)))";
    assert_eq!(shown(&select(before, false)), shown(&read(plain)));
}

#[test]
fn a_reference_within_a_pair_is_declared() {
    let text = "(module (func (export \"f\")) \
                (func (export \"f@simd128\") (ref.func 0) drop call 0))";
    for has_simd in [false, true] {
        let made = select(text, has_simd);
        assert!(Validator::new().validate_all(&made).is_ok());
    }
}

#[test]
fn versions_of_plain_functions_do_not_count_as_traps() {
    let version = format!("(func (export \"f@simd128\") (result i32) {VECTORS})");
    let other = format!("(func (export \"g\") (result i32) {VECTORS})");
    let plain = "(func (export \"f\") (result i32) (i32.const 2))";
    let trapping = |functions: &str, isa| {
        let prepared = prepare(format!("(module {functions})").as_bytes(), isa).unwrap();
        let features = WasmFeatures::default();
        assert!(Validator::new_with_features(features).validate_all(&prepared.wasm).is_ok());
        prepared.trapping
    };
    assert_eq!(trapping(&format!("{plain} {version}"), isa::RISCV64), 0);
    assert_eq!(trapping(&format!("{plain} {version} {other}"), isa::RISCV64), 1);
    let vectors = plain.replace("(i32.const 2)", VECTORS);
    assert_eq!(trapping(&format!("{vectors} {version}"), isa::RISCV64), 1, "no plain function");
    assert_eq!(trapping(&format!("{plain} {version} {other}"), isa::AARCH64), 0);
}

/// Cut after any byte, and with each byte changed: no panic, and what was valid stays so.
#[test]
fn a_damaged_module_is_refused_or_stays_valid() {
    let whole = read(&format!(
        "(module (type (func (result i32))) (table 2 funcref) (elem (i32.const 0) $f $f@simd128) \
         (func $f (export \"f\") (type 0) (i32.const 2)) \
         (func $f@simd128 (export \"f@simd128\") (type 0) {VECTORS}) \
         (func $g (type 0) (call $f)) (func $g@simd128 (type 0) (i32.add (call $g) {VECTORS})))"
    ));
    let is_valid = |wasm: &[u8]| Validator::new().validate_all(wasm).is_ok();
    let (mut made, mut wrong) = (0, 0);
    let mut tried = |wasm: &[u8]| {
        for has_simd in [false, true] {
            match selected(wasm, has_simd) {
                Ok(Some(module)) => {
                    assert!(!is_valid(wasm) || is_valid(&module), "{wasm:02x?}");
                    made += 1;
                }
                Ok(None) => {}
                Err(_) => wrong += 1,
            }
        }
    };
    for end in 0..=whole.len() {
        tried(&whole[..end]);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 2, 0x40, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            tried(&changed);
        }
    }
    assert!(made > 100 && wrong > 10, "{made} made, {wrong} refused");
}
