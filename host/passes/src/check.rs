//! Detects features that a module uses and no kernel supports. They are reported when the program
//! is installed, where the user can react, and not when it is started.
//!
//! [`unsupported`] checks declarations only: types, imports, memories, tables, tags, and the
//! function in which threads begin. The compiler rejects features that only instructions use
//! (exceptions without a tag); [`used`] then returns the proposal.

use abi::program::{LIGHT_SPAWN, MAX_TABLE_ENTRIES, MAX_TABLES, MODULE};
use kernel_process::functions::{FUNCTIONS, Function, Type};
use thiserror::Error;
use wasmparser::{
    CompositeInnerType, Error as Unreadable, Export, ExternalKind, FuncType, Import, MemoryType,
    Parser, Payload, SubType, TableType, TypeRef, TypeSectionReader, ValType, Validator,
    WasmFeatures,
};

/// Module and name of the function that starts a thread (wasi-threads).
const THREAD_SPAWN: (&str, &str) = ("wasi", "thread-spawn");
/// Name of the exported function in which a thread begins.
const THREAD_START: &str = "wasi_thread_start";

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
        "the module defines its shared memory itself, and the threads of a program import theirs: \
         link it with `--import-memory --export-memory`, as the target wasm32-wasip1-threads does"
    )]
    SharedMemory,
    #[error(
        "the module starts threads (\"wasi.thread-spawn\") and has no shared memory: build all of \
         it for wasm32-wasip1-threads, or without threads for wasm32-wasip1"
    )]
    NoSharedMemory,
    #[error(
        "the module does not export its memory as \"memory\": link it with `--import-memory \
         --export-memory`, as the target wasm32-wasip1-threads does"
    )]
    MemoryNotExported,
    #[error(
        "the module starts threads (\"wasi.thread-spawn\") and does not export the function \
         \"wasi_thread_start\" with two i32 parameters and no result, in which they begin: link \
         it with the libc of wasm32-wasip1-threads"
    )]
    NoThreadStart,
    #[error(
        "the module uses shared types (shared-everything-threads): build it for \
         wasm32-wasip1-threads without that feature"
    )]
    SharedTypes,
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
    (WasmFeatures::SHARED_EVERYTHING_THREADS, Unsupported::SharedTypes),
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
            Ok(Payload::MemorySection(memories)) => first(memories, |it| declared.own_memory(it)),
            Ok(Payload::TableSection(tables)) => first(tables, |it| declared.table(it.ty)),
            Ok(Payload::FunctionSection(kinds)) => {
                declared.functions.extend(kinds.into_iter().map_while(Result::ok));
                None
            }
            Ok(Payload::ExportSection(exports)) => {
                exports.into_iter().map_while(Result::ok).for_each(|it| declared.export(it));
                None
            }
            Ok(Payload::TagSection(_)) => Some(Unsupported::Exceptions),
            Ok(Payload::CodeSectionStart { .. }) => break,
            Ok(_) => None,
            Err(_) => return declared.excess(),
        };
        if found.is_some() {
            return found;
        }
    }
    declared.excess().or_else(|| declared.missing())
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
    types: Vec<Option<FuncType>>,
    /// The types of the functions, imported ones first.
    functions: Vec<u32>,
    memories: usize,
    /// The memory is shared.
    is_shared: bool,
    /// The module imports the function that starts a thread.
    spawns: bool,
    /// It exports its memory as `memory`.
    exports_memory: bool,
    /// It exports the one in which a thread begins.
    has_thread_start: bool,
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
            self.types.push(match kind.composite_type.inner {
                CompositeInnerType::Func(function) => Some(function),
                _ => None,
            });
        }
        None
    }

    /// Returns what the module has too many of.
    fn excess(&self) -> Option<Unsupported> {
        match *self {
            Declared { memories: 2.., .. } => Some(Unsupported::Memories(self.memories)),
            Declared { tables, .. } if tables > MAX_TABLES as usize => {
                Some(Unsupported::Tables(tables))
            }
            Declared { entries, .. } if entries > MAX_TABLE_ENTRIES => {
                Some(Unsupported::TableEntries(entries))
            }
            _ => None,
        }
    }

    /// Returns what a complete module that starts threads lacks.
    fn missing(&self) -> Option<Unsupported> {
        match *self {
            Declared { spawns: true, is_shared: false, .. } => Some(Unsupported::NoSharedMemory),
            Declared { spawns: true, exports_memory: false, .. } => {
                Some(Unsupported::MemoryNotExported)
            }
            Declared { spawns: true, has_thread_start: false, .. } => {
                Some(Unsupported::NoThreadStart)
            }
            _ => None,
        }
    }

    /// Checks a memory that the module defines.
    fn own_memory(&mut self, memory: MemoryType) -> Option<Unsupported> {
        self.memory(memory).or(memory.shared.then_some(Unsupported::SharedMemory))
    }

    fn memory(&mut self, memory: MemoryType) -> Option<Unsupported> {
        self.memories += 1;
        self.is_shared |= memory.shared;
        match memory {
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
                None if memory.shared => return None,
                None => "the memory",
                found => return found,
            },
            TypeRef::Tag(_) => return Some(Unsupported::Exceptions),
            TypeRef::Table(_) => "the table",
            TypeRef::Global(_) => "the global",
        };
        Some(Unsupported::ImportKind { kind, module, name })
    }

    fn function(&mut self, module: String, name: String, kind: u32) -> Option<Unsupported> {
        self.functions.push(kind);
        if [THREAD_SPAWN, (MODULE, LIGHT_SPAWN)].contains(&(module.as_str(), name.as_str())) {
            self.spawns = true;
            let kind = self.function_type(kind)?;
            let is_known = kind.params() == [ValType::I32] && kind.results() == [ValType::I32];
            return (!is_known).then_some(Unsupported::ImportType { module, name });
        }
        let mut of_module = FUNCTIONS.iter().filter(|known| known.module == module).peekable();
        if of_module.peek().is_none() {
            return Some(Unsupported::ImportModule { module, name });
        }
        let Some(known) = of_module.find(|known| known.name == name) else {
            return Some(Unsupported::ImportName { module, name });
        };
        let kind = self.function_type(kind)?;
        (!is_of(known, kind)).then_some(Unsupported::ImportType { module, name })
    }

    fn function_type(&self, kind: u32) -> Option<&FuncType> {
        self.types.get(kind as usize)?.as_ref()
    }

    fn export(&mut self, export: Export<'_>) {
        self.exports_memory |= export.kind == ExternalKind::Memory && export.name == "memory";
        let is_function = matches!(export.kind, ExternalKind::Func | ExternalKind::FuncExact);
        let kind = self.functions.get(export.index as usize);
        let kind = kind.and_then(|kind| self.function_type(*kind));
        let fits =
            |kind: &FuncType| kind.params() == [ValType::I32; 2] && kind.results().is_empty();
        self.has_thread_start |=
            is_function && export.name == THREAD_START && kind.is_some_and(fits);
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
        CompositeInnerType::Func(_) if kind.composite_type.shared => Some(Unsupported::SharedTypes),
        CompositeInnerType::Func(_) => None,
        CompositeInnerType::Array(_) | CompositeInnerType::Struct(_) => Some(Unsupported::Gc),
        CompositeInnerType::Cont(_) => Some(Unsupported::StackSwitching),
    }
}

#[cfg(test)]
mod tests;
