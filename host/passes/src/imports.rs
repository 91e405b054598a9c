//! Imports that a module fulfils itself.
//!
//! `std` of Rust's target wasm32-wasip2 imports a few functions of components' interfaces. A
//! program is no component, and brings these functions itself (`sdk/std`): it exports each one
//! under the import's module, without a version, a space, and the import's name.
//! ```text
//!   import wasi:cli/environment@0.2.4  get-arguments      calls of the import become calls of the
//!   export "wasi:cli/environment get-arguments"           function; import and export disappear
//! ```
//! Imports that no export fulfils stay, and a kernel refuses the program if it lacks them.

use crate::names;
use std::collections::HashMap;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{ExportSection, ImportSection, Module, NameSection};
use wasmparser::{
    BinaryReaderError, ExportSectionReader, ExternalKind, FuncType, Import, ImportSectionReader,
    NameSectionReader, Parser, Payload, TypeRef, Validator,
};

/// What an export of a function that fulfils this import is called.
fn export_for(import: &Import<'_>) -> String {
    let module = import.module.split_once('@').map_or(import.module, |(module, _)| module);
    format!("{module} {}", import.name)
}

/// A module's imported functions, and which of its own take their places.
#[derive(Default)]
struct Bound {
    /// By the number of the import.
    replacements: Vec<Option<u32>>,
    /// The names of the exports that are used for it.
    exports: Vec<String>,
}

/// What a module says of its functions.
#[derive(Default)]
struct Functions<'a> {
    types: Vec<FuncType>,
    /// The type of each, those that are imported first.
    all: Vec<u32>,
    /// What would fulfil each import.
    wanted: Vec<String>,
    exports: HashMap<&'a str, u32>,
}

impl<'a> Functions<'a> {
    fn of(wasm: &'a [u8]) -> Result<Functions<'a>, BinaryReaderError> {
        let mut found = Functions::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(section) => {
                    for kind in section.into_iter_err_on_gc_types() {
                        found.types.push(kind?);
                    }
                }
                Payload::ImportSection(imports) => found.imports(imports)?,
                Payload::FunctionSection(section) => {
                    for kind in section {
                        found.all.push(kind?);
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            found.exports.insert(export.name, export.index);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    fn imports(&mut self, imports: ImportSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for import in imports.into_imports() {
            let import = import?;
            if let TypeRef::Func(kind) | TypeRef::FuncExact(kind) = import.ty {
                self.all.push(kind);
                self.wanted.push(export_for(&import));
            }
        }
        Ok(())
    }

    /// Returns the type of a function; `None` in an invalid module.
    fn kind(&self, function: usize) -> Option<&FuncType> {
        self.types.get(*self.all.get(function)? as usize)
    }
}

impl Bound {
    fn in_module(wasm: &[u8]) -> Result<Bound, String> {
        let found = Functions::of(wasm).map_err(|why| why.to_string())?;
        let mut bound = Bound::default();
        for (import, name) in found.wanted.iter().enumerate() {
            let own = found.exports.get(&**name).copied();
            let own = own.filter(|function| *function as usize >= found.wanted.len());
            if let Some(own) = own {
                if found.kind(own as usize) != found.kind(import) {
                    return Err(format!("the import \"{name}\" and its function differ in type"));
                }
                bound.exports.push(name.clone());
            }
            bound.replacements.push(own);
        }
        Ok(bound)
    }
}

impl Reencode for Bound {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Infallible>> {
        let fulfilled = self.replacements.get(function as usize).copied().flatten();
        let function = fulfilled.unwrap_or(function);
        let before = self.replacements.iter().take(function as usize).flatten().count();
        Ok(function - before as u32)
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        let mut function = 0;
        for import in section.into_imports() {
            let import = import?;
            let is_function = matches!(import.ty, TypeRef::Func(_) | TypeRef::FuncExact(_));
            let is_bound = is_function && self.replacements[function].is_some();
            function += usize::from(is_function);
            if !is_bound {
                self.parse_import(imports, import)?;
            }
        }
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        for export in section {
            let export = export?;
            if !self.exports.iter().any(|name| name == export.name) {
                self.parse_export(exports, export)?;
            }
        }
        Ok(())
    }

    fn custom_name_section(
        &mut self,
        section: NameSectionReader<'_>,
    ) -> Result<NameSection, Error<Infallible>> {
        let replacements = self.replacements.clone();
        let is_kept = |function: u32| !matches!(replacements.get(function as usize), Some(Some(_)));
        names::moved(section, is_kept, |function| self.function_index(function))
    }
}

/// Returns the module with such imports bound; `None` if it has none. Fails if it is invalid, or if
/// a function has another type than the import that it would fulfil.
pub fn bound(wasm: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut bound = Bound::in_module(wasm)?;
    if bound.exports.is_empty() {
        return Ok(None);
    }
    Validator::new().validate_all(wasm).map_err(|why| why.to_string())?;
    let mut module = Module::new();
    match bound.parse_core_module(&mut module, Parser::new(0), wasm) {
        Ok(()) => Ok(Some(module.finish())),
        Err(why) => Err(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    /// An import that the module fulfils, between two that it does not.
    const PROGRAM: &str = r#"
        (module
          (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
          (import "wasi:random/random@0.2.4" "seven" (func $import (param i32) (result i32)))
          (import "wasi:random/random@0.2.4" "other" (func $other))
          (table 3 funcref)
          (elem (i32.const 0) $import $start $yield)
          (func $start (export "_start")
            (drop (call $import (i32.const 1)))
            (drop (call $yield))
            (call $other))
          (func $own (export "wasi:random/random seven") (param i32) (result i32)
            (i32.add (local.get 0) (i32.const 6))))"#;

    /// What it is without that import.
    const BOUND: &str = r#"
        (module
          (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
          (import "wasi:random/random@0.2.4" "other" (func $other))
          (table 3 funcref)
          (elem (i32.const 0) $own $start $yield)
          (func $start (export "_start")
            (drop (call $own (i32.const 1)))
            (drop (call $yield))
            (call $other))
          (func $own (param i32) (result i32)
            (i32.add (local.get 0) (i32.const 6))))"#;

    /// Returns the module's sections but its types, whose order is the text's.
    fn sections(wasm: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let payloads = Parser::new(0).parse_all(wasm).map(Result::unwrap);
        let sections = payloads.filter_map(|payload| payload.as_section());
        let sections = sections
            .map(|(id, range)| (id, wasm[range.start as usize..range.end as usize].to_vec()));
        sections.filter(|(id, _)| ![1, 2, 3].contains(id)).collect()
    }

    #[test]
    fn calls_and_tables_lead_to_the_function_and_names_follow() {
        let made = bound(&read(PROGRAM)).unwrap().unwrap();
        assert_eq!(sections(&made), sections(&read(BOUND)));
        let bound = Bound::in_module(&made).unwrap();
        assert_eq!((bound.replacements, bound.exports), (vec![None, None], vec![]));
    }

    #[test]
    fn a_module_without_such_a_function_stays() {
        let other = PROGRAM.replace("random seven", "random eight");
        assert_eq!(bound(&read(&other)), Ok(None));
        assert_eq!(bound(&read("(module)")), Ok(None));
    }

    #[test]
    fn a_function_of_another_type_is_an_error() {
        let other = PROGRAM.replace("seven\") (param i32)", "seven\") (param i64)");
        let other = other.replace("(i32.add (local.get 0) (i32.const 6))", "(i32.const 6)");
        assert!(bound(&read(&other)).unwrap_err().contains("differ in type"));
        assert!(bound(b"\0asm\x01\0\0\0\x05").is_err());
    }

    #[test]
    fn a_cut_module_is_no_panic() {
        let wasm = read(PROGRAM);
        for length in 0..wasm.len() {
            let _ = bound(&wasm[..length]);
        }
    }
}
