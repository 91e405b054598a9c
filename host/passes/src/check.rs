//! Detects features that a module uses and no kernel supports. They are reported when the program
//! is installed, where the user can react, and not when it is started.
//!
//! [`unsupported`] checks declarations only: types, imports, memories, tables, tags. The compiler
//! rejects features that only instructions use (atomics, exceptions without a tag); [`used`] then
//! returns the proposal.

use abi::program::{MAX_TABLE_ENTRIES, MAX_TABLES};
use kernel_process::functions::{FUNCTIONS, Function, Type};
use thiserror::Error;
use wasmparser::{
    CompositeInnerType, Error as Unreadable, FuncType, Import, MemoryType, Parser, Payload,
    SubType, TableType, TypeRef, TypeSectionReader, ValType, Validator, WasmFeatures,
};

/// An unsupported feature, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    #[error(
        "the module has {0} memories; a program has one: link it without `--multi-memory`, or \
         merge them (`wasm-opt --multi-memory-lowering`)"
    )]
    Memories(usize),
    #[error(
        "the module's memory has 64-bit addresses (memory64); programs have 32-bit ones: build \
         for wasm32-wasip1"
    )]
    Memory64,
    #[error(
        "the module has {0} tables; a program has {MAX_TABLES} at most: link it as one module, \
         without tables of its own"
    )]
    Tables(usize),
    #[error(
        "the module's tables have {0} entries; those of a program have {MAX_TABLE_ENTRIES} at \
         most, all together: it has more indirect functions than a kernel supports"
    )]
    TableEntries(u64),
    #[error("the module's table has 64-bit indices (memory64): build for wasm32-wasip1")]
    Table64,
    #[error(
        "the module uses threads (a shared memory, atomics); a program has one thread: build for \
         wasm32-wasip1 and not wasm32-wasip1-threads, without `-pthread`"
    )]
    Threads,
    #[error(
        "the module's memory has pages of another size than 64 KiB: build it without the \
         custom-page-sizes feature"
    )]
    PageSize,
    #[error(
        "the module uses garbage collection (structs, arrays, typed references): build it for \
         linear memory"
    )]
    Gc,
    #[error(
        "the module uses exceptions: build it with `-fno-exceptions`, or with panics that abort"
    )]
    Exceptions,
    #[error("the module uses stack switching: build it without that feature")]
    StackSwitching,
    #[error(
        "the module imports {kind} \"{module}.{name}\"; a program imports functions only, and \
         has a memory of its own: link it without `--import-memory` and `--import-table`"
    )]
    ImportKind { kind: &'static str, module: String, name: String },
    #[error(
        "the module imports \"{module}.{name}\", and there is no module \"{module}\": programs \
         import from wasi_snapshot_preview1 and penumbra only; build for wasm32-wasip1"
    )]
    ImportModule { module: String, name: String },
    #[error(
        "the module imports \"{module}.{name}\", which {module} does not have \
         (docs/design/programs.md lists what programs may call)"
    )]
    ImportName { module: String, name: String },
    #[error(
        "the module imports \"{module}.{name}\" with other parameters or results than it has: \
         build it with a current SDK"
    )]
    ImportType { module: String, name: String },
}

/// Proposals that only instructions use, and the error for each.
const PROPOSALS: &[(WasmFeatures, Unsupported)] = &[
    (WasmFeatures::THREADS, Unsupported::Threads),
    (WasmFeatures::MEMORY64, Unsupported::Memory64),
    (WasmFeatures::EXCEPTIONS.union(WasmFeatures::LEGACY_EXCEPTIONS), Unsupported::Exceptions),
    (WasmFeatures::GC.union(WasmFeatures::FUNCTION_REFERENCES), Unsupported::Gc),
    (WasmFeatures::STACK_SWITCHING, Unsupported::StackSwitching),
    (WasmFeatures::CUSTOM_PAGE_SIZES, Unsupported::PageSize),
];

/// Returns the first unsupported feature that `wasm` (binary) declares. For a module that cannot be
/// parsed it returns `None`: the compiler reports the error.
pub fn unsupported(wasm: &[u8]) -> Option<Unsupported> {
    let mut declared = Declared::default();
    for payload in Parser::new(0).parse_all(wasm) {
        let found = match payload {
            Ok(Payload::TypeSection(types)) => declared.types(types),
            Ok(Payload::ImportSection(imports)) => {
                first(imports.into_imports(), |import| declared.import(import))
            }
            Ok(Payload::MemorySection(memories)) => first(memories, |it| declared.memory(it)),
            Ok(Payload::TableSection(tables)) => first(tables, |it| declared.table(it.ty)),
            Ok(Payload::TagSection(_)) => Some(Unsupported::Exceptions),
            Ok(Payload::CodeSectionStart { .. }) | Err(_) => break,
            Ok(_) => None,
        };
        if found.is_some() {
            return found;
        }
    }
    match declared {
        Declared { memories: 2.., .. } => Some(Unsupported::Memories(declared.memories)),
        Declared { tables, .. } if tables > MAX_TABLES as usize => {
            Some(Unsupported::Tables(tables))
        }
        Declared { entries, .. } if entries > MAX_TABLE_ENTRIES => {
            Some(Unsupported::TableEntries(entries))
        }
        _ => None,
    }
}

/// Returns the unsupported proposal that makes the compiler reject `wasm`, if there is one. Parses
/// the whole module.
pub fn used(wasm: &[u8]) -> Option<&'static Unsupported> {
    let is_valid = |features| Validator::new_with_features(features).validate_all(wasm).is_ok();
    let all = PROPOSALS.iter().fold(WasmFeatures::default(), |all, (it, _)| all | *it);
    if !is_valid(all) {
        return None;
    }
    PROPOSALS.iter().find(|(feature, _)| !is_valid(all - *feature)).map(|(_, what)| what)
}

/// Returns the first unsupported entry of a list, up to the first entry that cannot be parsed.
fn first<T>(
    list: impl IntoIterator<Item = Result<T, Unreadable>>,
    find: impl FnMut(T) -> Option<Unsupported>,
) -> Option<Unsupported> {
    list.into_iter().map_while(Result::ok).find_map(find)
}

/// The declarations so far.
#[derive(Default)]
struct Declared {
    /// By index; `None` is not a function type.
    functions: Vec<Option<FuncType>>,
    memories: usize,
    tables: usize,
    /// Of all tables, when the program starts.
    entries: u64,
}

impl Declared {
    fn types(&mut self, types: TypeSectionReader<'_>) -> Option<Unsupported> {
        let groups = types.into_iter().map_while(Result::ok);
        for kind in groups.flat_map(|group| group.into_types()) {
            match unsupported_type(&kind) {
                None => {}
                found => return found,
            }
            self.functions.push(match kind.composite_type.inner {
                CompositeInnerType::Func(function) => Some(function),
                _ => None,
            });
        }
        None
    }

    fn memory(&mut self, memory: MemoryType) -> Option<Unsupported> {
        self.memories += 1;
        match memory {
            MemoryType { shared: true, .. } => Some(Unsupported::Threads),
            MemoryType { memory64: true, .. } => Some(Unsupported::Memory64),
            MemoryType { page_size_log2: Some(_), .. } => Some(Unsupported::PageSize),
            _ => None,
        }
    }

    fn table(&mut self, table: TableType) -> Option<Unsupported> {
        self.tables += 1;
        self.entries = self.entries.saturating_add(table.initial);
        table.table64.then_some(Unsupported::Table64)
    }

    fn import(&mut self, import: Import<'_>) -> Option<Unsupported> {
        let (module, name) = (import.module.to_string(), import.name.to_string());
        let kind = match import.ty {
            TypeRef::Func(kind) | TypeRef::FuncExact(kind) => {
                return self.function(module, name, kind);
            }
            TypeRef::Memory(memory) => match self.memory(memory) {
                None => "the memory",
                found => return found,
            },
            TypeRef::Tag(_) => return Some(Unsupported::Exceptions),
            TypeRef::Table(_) => "the table",
            TypeRef::Global(_) => "the global",
        };
        Some(Unsupported::ImportKind { kind, module, name })
    }

    fn function(&self, module: String, name: String, kind: u32) -> Option<Unsupported> {
        let mut of_module = FUNCTIONS.iter().filter(|known| known.module == module).peekable();
        if of_module.peek().is_none() {
            return Some(Unsupported::ImportModule { module, name });
        }
        let Some(known) = of_module.find(|known| known.name == name) else {
            return Some(Unsupported::ImportName { module, name });
        };
        let kind = self.functions.get(kind as usize).and_then(Option::as_ref)?;
        (!is_of(known, kind)).then_some(Unsupported::ImportType { module, name })
    }
}

fn is_of(known: &Function, kind: &FuncType) -> bool {
    let parameters = known.parameters.iter().map(|size| match size {
        Type::I32 => ValType::I32,
        Type::I64 => ValType::I64,
    });
    let results: &[ValType] = if known.result { &[ValType::I32] } else { &[] };
    parameters.eq(kind.params().iter().copied()) && kind.results() == results
}

fn unsupported_type(kind: &SubType) -> Option<Unsupported> {
    match &kind.composite_type.inner {
        CompositeInnerType::Func(_) if kind.composite_type.shared => Some(Unsupported::Threads),
        CompositeInnerType::Func(_) => None,
        CompositeInnerType::Array(_) | CompositeInnerType::Struct(_) => Some(Unsupported::Gc),
        CompositeInnerType::Cont(_) => Some(Unsupported::StackSwitching),
    }
}

#[cfg(test)]
mod tests {
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
            (
                "(module (table 131072 funcref) (table 1 funcref))",
                Unsupported::TableEntries(131073),
            ),
            ("(module (memory 1 1 shared))", Unsupported::Threads),
            (r#"(module (import "env" "memory" (memory 1 1 shared)))"#, Unsupported::Threads),
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

    #[test]
    fn what_only_instructions_use_is_found_when_the_compiler_refuses() {
        let atomics = "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))";
        assert_eq!(refusal(atomics), None);
        assert_eq!(used(&crate::read(atomics)), Some(&Unsupported::Threads));
        let throws = "(module (func (try_table)))";
        assert_eq!(used(&crate::read(throws)), Some(&Unsupported::Exceptions));
        assert_eq!(used(&crate::read("(module (memory 1) (func))")), None);
        assert_eq!(used(b"no module"), None);
    }
}
