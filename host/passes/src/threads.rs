//! Modules with threads, for an engine without shared memories.
//!
//! A module with threads (wasi-threads) imports its memory, which is shared. This pass turns it
//! into an unshared memory of the module's own; the kernel gives all instances of a process one
//! memory. Atomic instructions are valid on an unshared memory and stay. Instructions that concern
//! all instances become calls of the kernel's functions ([`THREADS`]): `memory.grow`,
//! `memory.atomic.wait32`, `memory.atomic.wait64` and `memory.atomic.notify`. These functions are
//! imported after the module's own imports, so the indices of the functions that it defines change.
//! `grow` is always imported: a kernel recognises a module with threads by that.
//!
//! In a module whose memory is not shared, waiting is a trap, and no thread waits:
//!
//! | instruction | becomes |
//! | --- | --- |
//! | `memory.atomic.wait32`, `wait64` | `unreachable` |
//! | `memory.atomic.notify` | an atomic load, which traps at the same addresses, and the result 0 |
//!
//! So no module keeps an instruction for which the compiler would call the engine's own functions
//! for waiting. A module with neither a shared memory nor such an instruction stays as it is.

use crate::{added, names};
use abi::program::THREADS;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    CodeSection, EntityType, Function, ImportSection, Instruction, MemorySection, MemoryType,
    Module, NameSection, SectionId, TypeSection, ValType,
};
use wasmparser::{
    BinaryReaderError, FunctionBody, ImportSectionReader, MemArg, NameSectionReader, Operator,
    Parser, Payload, TypeRef, TypeSectionReader, Validator, WasmFeatures,
};

/// A function of [`THREADS`]; each returns an `i32`.
struct Import {
    name: &'static str,
    parameters: &'static [ValType],
}

/// An instruction that such a function replaces, in the order of their imports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replaced {
    Grow,
    Wait32,
    Wait64,
    Notify,
}

const ALL: [Replaced; 4] = [Replaced::Grow, Replaced::Wait32, Replaced::Wait64, Replaced::Notify];

impl Replaced {
    fn of(operator: &Operator<'_>) -> Option<Replaced> {
        match operator {
            Operator::MemoryGrow { .. } => Some(Replaced::Grow),
            Operator::MemoryAtomicWait32 { .. } => Some(Replaced::Wait32),
            Operator::MemoryAtomicWait64 { .. } => Some(Replaced::Wait64),
            Operator::MemoryAtomicNotify { .. } => Some(Replaced::Notify),
            _ => None,
        }
    }

    fn import(self) -> Import {
        use ValType::{I32, I64};
        let (name, parameters): (_, &[_]) = match self {
            Replaced::Grow => ("grow", &[I32]),
            Replaced::Wait32 => ("wait32", &[I32, I32, I64, I32]),
            Replaced::Wait64 => ("wait64", &[I32, I64, I64, I32]),
            Replaced::Notify => ("notify", &[I32, I32, I32]),
        };
        Import { name, parameters }
    }
}

/// What a module has before the pass.
#[derive(Default)]
struct Found {
    /// Number of imported functions.
    imported: u32,
    /// The module imports a shared memory.
    is_shared: bool,
    /// It has types, and so may have functions.
    has_types: bool,
    /// By [`Replaced`]: the instruction occurs.
    occurs: [bool; ALL.len()],
}

impl Found {
    fn in_module(wasm: &[u8]) -> Result<Found, BinaryReaderError> {
        let mut found = Found::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(_) => found.has_types = true,
                Payload::ImportSection(imports) => found.imports(imports)?,
                Payload::CodeSectionEntry(body) => found.instructions(&body)?,
                _ => {}
            }
        }
        Ok(found)
    }

    fn imports(&mut self, imports: ImportSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for import in imports.into_imports() {
            match import?.ty {
                TypeRef::Func(_) | TypeRef::FuncExact(_) => self.imported += 1,
                TypeRef::Memory(memory) => self.is_shared |= memory.shared,
                TypeRef::Table(_) | TypeRef::Global(_) | TypeRef::Tag(_) => {}
            }
        }
        Ok(())
    }

    fn instructions(&mut self, body: &FunctionBody<'_>) -> Result<(), BinaryReaderError> {
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            if let Some(what) = Replaced::of(&reader.read()?) {
                self.occurs[what as usize] = true;
            }
        }
        Ok(())
    }

    /// Returns whether the pass changes the module.
    fn is_affected(&self) -> bool {
        let [_grow, waits @ ..] = self.occurs;
        self.is_shared || waits.contains(&true)
    }

    /// Returns the instructions that become calls, in the order of their imports.
    fn called(&self) -> impl Iterator<Item = Replaced> {
        let is_called =
            |what| what == Replaced::Grow && self.has_types || self.occurs[what as usize];
        ALL.into_iter().filter(move |what| self.is_shared && is_called(*what))
    }

    /// Returns the index of the function that replaces an instruction.
    fn index(&self, what: Replaced) -> u32 {
        self.imported + self.called().take_while(|other| *other != what).count() as u32
    }
}

struct Unshared {
    found: Found,
    /// Number of the module's own types, once they have been read.
    types: u32,
    /// The memory, from its import until it is defined.
    memory: Option<MemoryType>,
}

impl Unshared {
    /// Writes `operator`, or what replaces it.
    fn write<'a>(
        &mut self,
        function: &mut Function,
        operator: Operator<'a>,
    ) -> Result<(), Error<Infallible>> {
        match (Replaced::of(&operator), operator) {
            (Some(what), Operator::MemoryGrow { .. }) if self.found.is_shared => {
                function.instruction(&Instruction::Call(self.found.index(what)));
            }
            (
                Some(what),
                Operator::MemoryAtomicWait32 { memarg }
                | Operator::MemoryAtomicWait64 { memarg }
                | Operator::MemoryAtomicNotify { memarg },
            ) => match self.found.is_shared {
                true => self.call(function, what, memarg.offset),
                false => self.alone(function, what, memarg)?,
            },
            (_, operator) => {
                function.instruction(&self.instruction(operator)?);
            }
        }
        Ok(())
    }

    /// Writes the call that replaces an instruction with a constant offset.
    fn call(&self, function: &mut Function, what: Replaced, offset: u64) {
        match u32::try_from(offset) {
            Ok(offset) => function
                .instruction(&Instruction::I32Const(offset.cast_signed()))
                .instruction(&Instruction::Call(self.found.index(what))),
            // Invalid on a memory with 32-bit addresses.
            Err(_) => function.instruction(&Instruction::Unreachable),
        };
    }

    /// Writes what replaces an instruction on a memory that is not shared.
    fn alone(
        &mut self,
        function: &mut Function,
        what: Replaced,
        memarg: MemArg,
    ) -> Result<(), Error<Infallible>> {
        if what == Replaced::Notify {
            function
                .instruction(&Instruction::Drop)
                .instruction(&Instruction::I32AtomicLoad(self.mem_arg(memarg)?))
                .instruction(&Instruction::Drop)
                .instruction(&Instruction::I32Const(0));
        } else {
            function.instruction(&Instruction::Unreachable);
        }
        Ok(())
    }
}

impl Reencode for Unshared {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Infallible>> {
        let added = self.found.called().count() as u32;
        Ok(added::function_index(function, self.found.imported, added))
    }

    fn memory_type(
        &mut self,
        memory: wasmparser::MemoryType,
    ) -> Result<MemoryType, Error<Infallible>> {
        Ok(MemoryType { shared: false, ..utils::memory_type(self, memory) })
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        self.types = added::types(&section)?;
        utils::parse_type_section(self, types, section)?;
        for what in self.found.called() {
            types.ty().function(what.import().parameters.iter().copied(), [ValType::I32]);
        }
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        for import in section.into_imports() {
            let import = import?;
            match import.ty {
                TypeRef::Memory(memory) if memory.shared => {
                    self.memory = Some(self.memory_type(memory)?);
                }
                _ => self.parse_import(imports, import)?,
            }
        }
        for (kind, what) in (self.types..).zip(self.found.called()) {
            imports.import(THREADS, what.import().name, EntityType::Function(kind));
        }
        Ok(())
    }

    /// Defines the memory where the section of memories belongs, which the module does not have.
    fn intersperse_section_hook(
        &mut self,
        module: &mut Module,
        _after: Option<SectionId>,
        before: Option<SectionId>,
    ) -> Result<(), Error<Infallible>> {
        let is_early = matches!(before, Some(SectionId::Function | SectionId::Table));
        if let Some(memory) = self.memory.take_if(|_| !is_early) {
            let mut memories = MemorySection::new();
            memories.memory(memory);
            module.section(&memories);
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
            self.write(&mut function, reader.read()?)?;
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

/// Returns the module for an engine without shared memories; `None` if it needs no change. Fails
/// if a module that needs one is invalid: what would be wrong in a replaced instruction could not
/// be seen afterwards.
pub fn unshared(wasm: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let found = Found::in_module(wasm).map_err(|why| why.to_string())?;
    if !found.is_affected() {
        return Ok(None);
    }
    // The compiler knows which of these features it has.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    validator.validate_all(wasm).map_err(|why| why.to_string())?;
    let (mut module, mut unshared) = (Module::new(), Unshared { found, types: 0, memory: None });
    match unshared.parse_core_module(&mut module, Parser::new(0), wasm) {
        Ok(()) => Ok(Some(module.finish())),
        Err(why) => Err(why.to_string()),
    }
}

#[cfg(test)]
mod tests;
