//! Programs that can move to another kernel while they run (docs/design/moves.md). Asyncify, a pass
//! of Binaryen, makes functions that a program can leave and enter again; these are the passes
//! before and after it.
//!
//! ```text
//! with_points -> Asyncify -> exposed -> all other passes
//! ```
//! - **`with_points`**: if the program is to move in loops, too, each loop calls the kernel after
//!   every [`ROUNDS`] rounds of all loops. A program may leave wherever it calls the kernel.
//! - **`exposed`**: globals that change are exported, since the kernel takes them along.
//!
//! What else changes while a program runs, besides its memory, cannot move: a program is refused
//! that changes its tables or drops segments, that has threads, or that runs code before `_start`;
//! and one with SIMD, which would trap on an ISA without it. Functions with a version for SIMD
//! (`versions`) are the plain ones on every ISA, so that frames mean the same everywhere.

use crate::{added, names, versions};
use abi::moves::{EXPORTED_GLOBAL, POINT, asyncify};
use abi::program::MODULE;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, Function,
    GlobalSection, GlobalType, ImportSection, Instruction, Module, NameSection, SectionId,
    TypeSection, ValType,
};
use wasmparser::{
    BinaryReaderError, ExportSectionReader, FunctionBody, GlobalSectionReader, ImportSectionReader,
    NameSectionReader, Operator, Parser, Payload, TypeRef, TypeSectionReader,
};

/// Rounds of loops between two calls of the kernel: some ten microseconds.
const ROUNDS: i32 = 10_000;

/// What a module has before the passes.
#[derive(Default)]
struct Found {
    /// Numbers of imported functions, and of globals.
    functions: u32,
    globals: u32,
    /// Globals that change.
    mutable: Vec<u32>,
    has_globals: bool,
    has_exports: bool,
}

/// Fails if a module cannot move, or is invalid.
fn check(wasm: &[u8]) -> Result<(), String> {
    for payload in Parser::new(0).parse_all(wasm) {
        let found = payload.and_then(|payload| obstacle(&payload));
        if let Some(why) = found.map_err(|why| why.to_string())? {
            return Err(why.to_string());
        }
    }
    Ok(())
}

/// Returns why a module with this part cannot move.
fn obstacle(payload: &Payload<'_>) -> Result<Option<&'static str>, BinaryReaderError> {
    Ok(match payload {
        Payload::StartSection { .. } => Some("it runs a function before `_start`"),
        Payload::ImportSection(imports) => {
            let mut all = imports.clone().into_imports();
            let changes = |ty: TypeRef| matches!(ty, TypeRef::Memory(_) | TypeRef::Global(_));
            let found = all.try_fold(false, |found, it| Ok(found || changes(it?.ty)))?;
            found.then_some("it has threads, or imports what another module would change")
        }
        Payload::ExportSection(exports) => {
            let mut all = exports.clone().into_iter();
            let is_own = |name: &str| name.starts_with(EXPORTED_GLOBAL);
            let found = all.try_fold(false, |found, it| {
                let name = it?.name;
                Ok(found || asyncify::ALL.contains(&name) || is_own(name))
            })?;
            found.then_some("it uses Asyncify itself")
        }
        Payload::GlobalSection(globals) => {
            let mut all = globals.clone().into_iter();
            let is_number = |ty: wasmparser::ValType| {
                use wasmparser::ValType::{F32, F64, I32, I64};
                matches!(ty, I32 | I64 | F32 | F64)
            };
            let found = all.try_fold(false, |found, it| {
                let ty = it?.ty;
                Ok(found || ty.mutable && !is_number(ty.content_type))
            })?;
            found.then_some("it changes a global that is not a number")
        }
        Payload::CodeSectionEntry(body) => in_body(body)?,
        _ => None,
    })
}

fn in_body(body: &FunctionBody<'_>) -> Result<Option<&'static str>, BinaryReaderError> {
    let mut reader = body.get_operators_reader()?;
    while !reader.eof() {
        let why = match reader.read()? {
            Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. } => "it changes a table",
            Operator::DataDrop { .. } | Operator::ElemDrop { .. } => "it drops segments",
            _ => continue,
        };
        return Ok(Some(why));
    }
    Ok(None)
}

impl Found {
    fn in_module(wasm: &[u8]) -> Result<Found, BinaryReaderError> {
        let mut found = Found::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ImportSection(imports) => found.imports(imports)?,
                Payload::GlobalSection(globals) => found.all_globals(globals)?,
                Payload::ExportSection(_) => found.has_exports = true,
                _ => {}
            }
        }
        Ok(found)
    }

    fn imports(&mut self, imports: ImportSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for import in imports.into_imports() {
            match import?.ty {
                TypeRef::Func(_) | TypeRef::FuncExact(_) => self.functions += 1,
                TypeRef::Global(_) => self.globals += 1,
                TypeRef::Table(_) | TypeRef::Memory(_) | TypeRef::Tag(_) => {}
            }
        }
        Ok(())
    }

    fn all_globals(&mut self, globals: GlobalSectionReader<'_>) -> Result<(), BinaryReaderError> {
        self.has_globals = true;
        for global in globals {
            if global?.ty.mutable {
                self.mutable.push(self.globals);
            }
            self.globals += 1;
        }
        Ok(())
    }
}

/// Adds the import of [`POINT`], the counter of rounds, and calls in loops.
struct Points {
    found: Found,
    /// Number of the module's own types, once they have been read.
    types: u32,
}

impl Points {
    fn counter(&self) -> u32 {
        self.found.globals
    }

    /// Writes what each round of a loop begins with.
    fn round(&self, function: &mut Function) {
        let (counter, point) = (self.counter(), self.found.functions);
        function
            .instruction(&Instruction::GlobalGet(counter))
            .instruction(&Instruction::I32Const(1))
            .instruction(&Instruction::I32Sub)
            .instruction(&Instruction::GlobalSet(counter))
            .instruction(&Instruction::GlobalGet(counter))
            .instruction(&Instruction::I32Eqz)
            .instruction(&Instruction::If(BlockType::Empty))
            .instruction(&Instruction::I32Const(ROUNDS))
            .instruction(&Instruction::GlobalSet(counter))
            .instruction(&Instruction::Call(point))
            .instruction(&Instruction::Drop)
            .instruction(&Instruction::End);
    }

    fn add_counter(globals: &mut GlobalSection) {
        let kind = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
        globals.global(kind, &ConstExpr::i32_const(ROUNDS));
    }
}

impl Reencode for Points {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Infallible>> {
        Ok(added::function_index(function, self.found.functions, 1))
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        self.types = added::types(&section)?;
        utils::parse_type_section(self, types, section)?;
        types.ty().function([], [ValType::I32]);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_import_section(self, imports, section)?;
        imports.import(MODULE, POINT, EntityType::Function(self.types));
        Ok(())
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_global_section(self, globals, section)?;
        Points::add_counter(globals);
        Ok(())
    }

    /// Defines the counter where the section of globals belongs, if the module has none.
    fn intersperse_section_hook(
        &mut self,
        module: &mut Module,
        _after: Option<SectionId>,
        before: Option<SectionId>,
    ) -> Result<(), Error<Infallible>> {
        let is_late = matches!(
            before,
            None | Some(
                SectionId::Export
                    | SectionId::Start
                    | SectionId::Element
                    | SectionId::DataCount
                    | SectionId::Code
                    | SectionId::Data
            )
        );
        if is_late && !std::mem::replace(&mut self.found.has_globals, true) {
            let mut globals = GlobalSection::new();
            Points::add_counter(&mut globals);
            module.section(&globals);
        }
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Infallible>> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let operator = reader.read()?;
            let is_loop = matches!(operator, Operator::Loop { .. });
            function.instruction(&self.instruction(operator)?);
            if is_loop {
                self.round(&mut function);
            }
        }
        code.function(&function);
        Ok(())
    }

    fn custom_name_section(
        &mut self,
        section: NameSectionReader<'_>,
    ) -> Result<NameSection, Error<Infallible>> {
        names::renumbered(section, |function| self.function_index(function))
    }
}

/// Returns the module (binary or text) with calls of the kernel in its loops, if that is wanted.
/// Fails if it cannot move, or is invalid.
pub fn with_points(wasm: &[u8], in_loops: bool) -> Result<Vec<u8>, String> {
    let wasm = wat::parse_bytes(wasm).map_err(|e| e.to_string())?;
    let plain = versions::selected(&wasm, false).map_err(|why| why.to_string())?;
    let wasm = plain.as_deref().unwrap_or(&wasm);
    check(wasm)?;
    let found = Found::in_module(wasm).map_err(|why| why.to_string())?;
    if crate::plain::without_simd(wasm).1 != 0 {
        return Err("it uses SIMD, which not all ISAs have, in functions that are no `@simd128` \
                    version of a plain one"
            .to_string());
    }
    if found.functions == 0 {
        return Err("it calls no function of the kernel, so it can do nothing".to_string());
    }
    if !in_loops {
        return Ok(wasm.to_vec());
    }
    let (mut module, mut points) = (Module::new(), Points { found, types: 0 });
    points.parse_core_module(&mut module, Parser::new(0), wasm).map_err(|e| e.to_string())?;
    Ok(module.finish())
}

/// Exports the globals that change.
struct Exposed(Found);

impl Reencode for Exposed {
    type Error = Infallible;

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_export_section(self, exports, section)?;
        for (number, &global) in self.0.mutable.iter().enumerate() {
            exports.export(&format!("{EXPORTED_GLOBAL}{number}"), ExportKind::Global, global);
        }
        Ok(())
    }

    fn custom_name_section(
        &mut self,
        section: NameSectionReader<'_>,
    ) -> Result<NameSection, Error<Infallible>> {
        names::kept(section)
    }
}

/// Returns the module that Asyncify has made, with the globals that change among its exports.
pub fn exposed(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let found = Found::in_module(wasm).map_err(|why| why.to_string())?;
    if !found.has_exports {
        return Err("it exports nothing".to_string());
    }
    let (mut module, mut exposed) = (Module::new(), Exposed(found));
    exposed.parse_core_module(&mut module, Parser::new(0), wasm).map_err(|e| e.to_string())?;
    Ok(module.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;
    use wasmparser::Validator;

    const IMPORT: &str = r#"(import "wasi_snapshot_preview1" "sched_yield" (func (type 0)))"#;

    #[test]
    fn loops_call_the_kernel_now_and_then() {
        let types = "(type (func (result i32))) (type (func))";
        let body = "(func (type 1) loop br 0 end call 1)";
        let before = format!("(module {types} {IMPORT} (global i32 (i32.const 0)) {body})");
        let round = format!(
            "global.get 1 i32.const 1 i32.sub global.set 1 global.get 1 i32.eqz \
             if i32.const {ROUNDS} global.set 1 call 1 drop end"
        );
        let after = format!(
            r#"(module {types} (type (func (result i32))) {IMPORT} (import "penumbra" "move_point"
                (func (type 2))) (global i32 (i32.const 0)) (global (mut i32) (i32.const {ROUNDS}))
                (func (type 1) loop {round} br 0 end call 2))"#
        );
        assert_eq!(with_points(&read(&before), true), Ok(read(&after)));
        let without = format!("(module {types} {IMPORT} {body} (export \"_start\" (func 1)))");
        assert_eq!(with_points(&read(&without), false), Ok(read(&without)));
        let made = with_points(&read(&without), true).unwrap();
        assert!(Validator::new().validate_all(&made).is_ok(), "a section of globals is added");
    }

    #[test]
    fn what_cannot_move_is_refused() {
        let types = "(type (func (result i32))) (type (func))";
        let refused = |rest: &str, why: &str| {
            let module = read(&format!("(module {types} {IMPORT} {rest})"));
            let found = with_points(&module, false).unwrap_err();
            assert!(found.contains(why), "{rest}: {found}");
        };
        refused("(func (type 1)) (start 1)", "before `_start`");
        let table = "(table 1 funcref) (func (type 1) i32.const 0 ref.null func table.set 0)";
        refused(table, "changes a table");
        refused("(memory 1) (data \"a\") (func (type 1) data.drop 0)", "drops segments");
        refused("(func (type 1)) (export \"asyncify_start_unwind\" (func 1))", "uses Asyncify");
        refused("(func (type 1) i32.const 0 i32x4.splat drop)", "SIMD");
        refused("(func (export \"f@simd128\"))", "no function \"f\"");
        refused("(func (type 1)) (global (mut funcref) (ref.null func))", "not a number");
        let shared = read("(module (import \"env\" \"memory\" (memory 1 2 shared)))");
        assert!(with_points(&shared, true).unwrap_err().contains("threads"));
        assert!(with_points(b"\0asm\x01", true).is_err());
    }

    #[test]
    fn plain_functions_move_instead_of_their_versions() {
        let module = |body: &str| {
            read(&format!(
                "(module (type (func (result i32))) (type (func)) {IMPORT} (func $f (type 1)) \
                 (func $f@simd128 (type 1) {body}) (func (export \"_start\") (type 1) call $f))"
            ))
        };
        let made = with_points(&module("i32.const 0 i32x4.splat drop"), false).unwrap();
        assert!(versions::selected(&made, true).unwrap().is_none(), "none is left to select");
        // What a version alone does is no obstacle.
        assert!(with_points(&module("data.drop 0"), false).is_ok());
    }

    #[test]
    fn globals_that_change_are_exported() {
        let globals = "(global i32 (i32.const 0)) (global (mut i64) (i64.const 0)) \
                       (global (mut i32) (i32.const 9))";
        let before = format!("(module {globals} (export \"a\" (global 0)))");
        let after = format!(
            "(module {globals} (export \"a\" (global 0)) (export \"penumbra.global.0\" (global 1)) \
             (export \"penumbra.global.1\" (global 2)))"
        );
        assert_eq!(exposed(&read(&before)), Ok(read(&after)));
    }
}
