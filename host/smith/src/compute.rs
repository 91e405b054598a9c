//! Modules that calculate and print what they got, to compare one machine's code with another's.
//!
//! ```text
//!   wasm-smith: functions, a memory, tables, globals   --+
//!                                                        |--> _start: for each function, twice:
//!   seed: arguments                                    --+      call it, fold its results and
//!                                                               the memory into a sum, print that
//! ```
//! The result of each instruction that makes an integer is added to the sum, too.
//!
//! Contract: output and trap depend on the module alone. Nothing is imported but WASI's `fd_write`,
//! NaNs are canonical, and each call ends: functions and loops use up fuel. Two of three modules do
//! not trap, so all of their functions are called. One of four uses SIMD; `_start` calls functions
//! without it first, because the others trap on an ISA without vectors.

mod numbers;

use crate::nonsense::supported;
use base::prng::Prng;
use numbers::{argument, integer, mistaken, zero};
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, Function,
    FunctionSection, GlobalSection, GlobalType, ImportSection, Instruction, InstructionSink,
    MemArg, Module, SectionId, TypeSection, ValType,
};
use wasm_smith::Config;
use wasmparser::{
    CodeSectionReader, ExportSectionReader, FunctionBody, FunctionSectionReader,
    GlobalSectionReader, ImportSectionReader, Operator, Parser, Payload, TypeSectionReader,
};

/// A memory that can always grow as far as it may.
const EXPORTS: &str = "(module (memory (export \"memory\") 1 4))";
/// Number of random bytes for a module.
const BYTES: usize = 6000;
/// Fuel of a call: how many calls and rounds of loops follow from it. Deep recursion uses it up
/// before the stack ends.
const FUEL: i32 = 200;
/// How often each function is called.
const ROUNDS: usize = 2;
/// Bytes at the start of memory that are summed after each call.
const SUMMED: i32 = 4096;
const PRIME: i64 = 0x0100_0000_01b3;

/// A module, and the same with one instruction taken for another.
pub struct Made {
    pub right: Vec<u8>,
    pub wrong: Vec<u8>,
}

/// Number of our functions that are in each module: fold, page, print, start.
const OWN: u32 = 4;
/// The prefix of all SIMD operators.
const SIMD: u8 = 0xfd;

/// Returns whether the module of a seed may use SIMD.
pub fn has_simd(seed: u64) -> bool {
    seed % 4 == 1
}

/// Returns the module of a seed.
pub fn module(seed: u64) -> Result<Made, String> {
    let mut prng = Prng::new(seed);
    let (bytes, fuel) = functions(seed, &mut prng)?;
    let state = prng.state();
    let made = |mistake: Option<u64>| {
        let mut writer = Writer::new(fuel, mistake, !seed.is_multiple_of(6), Prng::new(state));
        let mut module = Module::new();
        let parsed = writer.parse_core_module(&mut module, Parser::new(0), &bytes);
        parsed.map(|()| module.finish()).map_err(|e| e.to_string())
    };
    Ok(Made { right: made(None)?, wrong: made(Some(seed))? })
}

/// Returns random functions with their memory, and the number of the global that is their fuel.
fn functions(seed: u64, prng: &mut Prng) -> Result<(Vec<u8>, u32), String> {
    let exports = wat::parse_str(EXPORTS).map_err(|e| e.to_string())?;
    let config = Config {
        max_imports: 0,
        max_funcs: 10,
        max_instructions: 300,
        allow_start_export: false,
        disallow_traps: !seed.is_multiple_of(3),
        simd_enabled: has_simd(seed),
        ..supported(exports)
    };
    loop {
        let bytes: Vec<u8> = (0..BYTES).map(|_| prng.next() as u8).collect();
        let mut source = arbitrary::Unstructured::new(&bytes);
        let Ok(mut module) = wasm_smith::Module::new(config.clone(), &mut source) else { continue };
        let Ok(fuel) = module.ensure_termination(FUEL as u32) else { continue };
        let bytes = module.to_bytes();
        if defines_functions(&bytes) {
            return Ok((bytes, fuel));
        }
    }
}

fn defines_functions(module: &[u8]) -> bool {
    let mut payloads = Parser::new(0).parse_all(module);
    payloads.any(|it| matches!(it, Ok(Payload::FunctionSection(all)) if all.count() > 0))
}

/// Parameters and results of a type; `None` if it is none of a function of numbers.
type Signature = Option<(Vec<ValType>, Vec<ValType>)>;

/// Writes a module again, with an import, four functions and a global of ours. The import is
/// function 0, so the others move by one; ours come last.
struct Writer {
    fuel: u32,
    mistake: Option<u64>,
    returns: bool,
    prng: Prng,
    signatures: Vec<Signature>,
    /// Types of the module's functions, by number.
    functions: Vec<u32>,
    /// Whether each of them uses SIMD.
    vectors: Vec<bool>,
    /// Those that take or return vectors.
    shims: Vec<usize>,
    /// Numbers of our first type, function and global.
    types: u32,
    own: u32,
    sum: u32,
}

impl Writer {
    fn new(fuel: u32, mistake: Option<u64>, returns: bool, prng: Prng) -> Writer {
        let (signatures, functions, vectors) = (vec![], vec![], vec![]);
        let (shims, types, own, sum) = (vec![], 0, 0, 0);
        Writer {
            fuel,
            mistake,
            returns,
            prng,
            signatures,
            functions,
            vectors,
            shims,
            types,
            own,
            sum,
        }
    }

    /// `fold(number)`: adds a number to the sum.
    fn fold(&self) -> Function {
        let mut function = Function::new([]);
        let mut code = function.instructions();
        code.global_get(self.sum).local_get(0).i64_xor().i64_const(PRIME).i64_mul();
        code.global_get(self.sum).i64_const(29).i64_shr_u().i64_xor().global_set(self.sum).end();
        function
    }

    /// `page()`: adds the start of memory to the sum.
    fn page(&self) -> Function {
        let mut function = Function::new([(1, ValType::I32)]);
        let mut code = function.instructions();
        code.loop_(BlockType::Empty);
        code.local_get(0).i64_load(at(0)).call(self.own);
        code.local_get(0).i32_const(8).i32_add().local_tee(0);
        code.i32_const(SUMMED).i32_lt_u().br_if(0).end().end();
        function
    }

    /// `print()`: prints the sum, 8 bytes, and leaves memory as it was.
    fn print(&self) -> Function {
        let mut function = Function::new([(3, ValType::I64)]);
        let mut code = function.instructions();
        for place in 0..3 {
            code.i32_const(0).i64_load(at(8 * place)).local_set(place as u32);
        }
        // The list of one buffer is at 0, the count of bytes written at 8, the buffer at 16.
        code.i32_const(0).i64_const(16 | 8 << 32).i64_store(at(0));
        code.i32_const(0).global_get(self.sum).i64_store(at(16));
        code.i32_const(1).i32_const(0).i32_const(1).i32_const(8).call(0).drop();
        for place in 0..3 {
            code.i32_const(0).local_get(place as u32).i64_store(at(8 * place));
        }
        code.end();
        function
    }

    /// `_start()`: calls each function, and prints the sum after each call.
    fn start(&mut self) -> Function {
        let mut function = Function::new([]);
        let mut all: Vec<usize> = (0..self.functions.len()).collect();
        all.sort_by_key(|place| self.vectors.get(*place).copied());
        for place in all {
            for _ in 0..ROUNDS {
                let mut code = function.instructions();
                code.i32_const(FUEL).global_set(self.fuel);
                match self.shims.iter().position(|shim| *shim == place) {
                    Some(shim) => drop(code.call(self.own + OWN + shim as u32)),
                    None => self.call(&mut code, place),
                }
                code.call(self.own + 1).call(self.own + 2);
            }
        }
        function.instructions().end();
        function
    }

    /// Calls a function that takes or returns vectors, which `_start` cannot do: it would be a
    /// function that uses SIMD.
    fn shim(&mut self, place: usize) -> Function {
        let mut function = Function::new([(1, ValType::V128)]);
        self.call(&mut function.instructions(), place);
        function.instructions().end();
        function
    }

    /// Calls a function, and adds its results to the sum.
    fn call(&mut self, code: &mut InstructionSink<'_>, place: usize) {
        let Some((parameters, results)) = self.signature_of(place) else { return };
        parameters.iter().for_each(|kind| argument(code, *kind, &mut self.prng));
        code.call(place as u32 + 1);
        results.iter().rev().for_each(|kind| self.result(code, *kind));
    }

    fn signature_of(&self, place: usize) -> Signature {
        let kind = self.functions.get(place).copied()?;
        self.signatures.get(kind as usize).cloned().flatten()
    }

    /// Adds the value on the stack to the sum. A vector passes through local 0.
    fn result(&self, code: &mut InstructionSink<'_>, kind: ValType) {
        match kind {
            ValType::V128 => {
                code.local_tee(0).i64x2_extract_lane(0).call(self.own);
                code.local_get(0).i64x2_extract_lane(1)
            }
            ValType::I32 => code.i64_extend_i32_u(),
            ValType::F32 => code.i32_reinterpret_f32().i64_extend_i32_u(),
            ValType::F64 => code.i64_reinterpret_f64(),
            _ => code,
        };
        code.call(self.own);
    }
}

fn at(offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: 0 }
}

impl Reencode for Writer {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Infallible>> {
        Ok(function + 1)
    }

    fn instruction<'a>(
        &mut self,
        operator: Operator<'a>,
    ) -> Result<Instruction<'a>, Error<Infallible>> {
        match self.mistake.and_then(|seed| mistaken(seed, &operator)) {
            Some(other) => Ok(other),
            None => utils::instruction(self, operator),
        }
    }

    /// Inserts the section of imports where the module has none, not even an empty one.
    fn intersperse_section_hook(
        &mut self,
        module: &mut Module,
        after: Option<SectionId>,
        before: Option<SectionId>,
    ) -> Result<(), Error<Infallible>> {
        if after == Some(SectionId::Type) && before != Some(SectionId::Import) {
            let mut imports = ImportSection::new();
            self.import(&mut imports);
            module.section(&imports);
        }
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        _section: ImportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        self.import(imports);
        Ok(())
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        for group in section.clone() {
            for kind in group?.into_types() {
                let signature = self.signature(&kind);
                self.signatures.push(signature);
            }
        }
        utils::parse_type_section(self, types, section)?;
        self.types = types.len();
        types.ty().function([ValType::I32; 4], [ValType::I32]);
        types.ty().function([ValType::I64], []);
        types.ty().function([], []);
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        for kind in section.clone() {
            self.functions.push(kind?);
        }
        utils::parse_function_section(self, functions, section)?;
        self.own = functions.len() + 1;
        let has_vectors = |place: &usize| {
            let signature = self.signature_of(*place);
            let (parameters, results) = signature.unwrap_or_default();
            parameters.iter().chain(&results).any(|kind| *kind == ValType::V128)
        };
        self.shims = (0..self.functions.len()).filter(has_vectors).collect();
        let own = [1, 2, 2, 2].into_iter().chain(self.shims.iter().map(|_| 2));
        for kind in own {
            functions.function(self.types + kind);
        }
        Ok(())
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_global_section(self, globals, section)?;
        self.sum = globals.len();
        let kind = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
        globals.global(kind, &ConstExpr::i64_const(PRIME));
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        _section: ExportSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        exports.export("memory", ExportKind::Memory, 0);
        exports.export("_start", ExportKind::Func, self.own + 3);
        Ok(())
    }

    /// Writes a function so that it shows what it calculates: the result of each instruction that
    /// makes an integer is added to the sum. A function that runs out of fuel, or finds something
    /// unreachable, returns zeros: a trap would end the module. One seed in six keeps the trap.
    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Infallible>> {
        let kind = self.functions.get(code.len() as usize).copied().unwrap_or(u32::MAX);
        let signature = self.signatures.get(kind as usize).cloned().flatten();
        let (mut locals, mut count) =
            (vec![], signature.as_ref().map_or(0, |it| it.0.len() as u32));
        for local in body.get_locals_reader()? {
            let (number, kind) = local?;
            count += number;
            locals.push((number, self.val_type(kind)?));
        }
        locals.extend([(1, ValType::I32), (1, ValType::I64)]);
        let mut function = Function::new(locals);
        let mut reader = body.get_operators_reader()?;
        let (bytes, start) = (body.as_bytes(), body.range().start);
        let mut has_vectors = body
            .get_locals_reader()?
            .into_iter()
            .any(|local| local.is_ok_and(|(_, kind)| kind == wasmparser::ValType::V128));
        while !reader.eof() {
            let (operator, at) = reader.read_with_offset()?;
            has_vectors |= bytes.get((at - start) as usize) == Some(&SIMD);
            let made = integer(&operator).filter(|_| signature.is_some());
            match (&operator, &signature) {
                (Operator::Unreachable, Some((_, results))) if self.returns => {
                    results.iter().for_each(|kind| zero(&mut function.instructions(), *kind));
                    function.instruction(&Instruction::Return);
                }
                _ => drop(function.instruction(&self.instruction(operator)?)),
            }
            let mut code = function.instructions();
            match made {
                Some(ValType::I32) => {
                    code.local_tee(count).local_get(count).i64_extend_i32_u().call(self.own);
                }
                Some(_) => drop(code.local_tee(count + 1).local_get(count + 1).call(self.own)),
                None => {}
            }
        }
        code.function(&function);
        self.vectors.push(has_vectors);
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_code_section(self, code, section)?;
        code.function(&self.fold()).function(&self.page()).function(&self.print());
        let start = self.start();
        code.function(&start);
        for place in self.shims.clone() {
            code.function(&self.shim(place));
        }
        Ok(())
    }
}

impl Writer {
    fn import(&self, imports: &mut ImportSection) {
        imports.import("wasi_snapshot_preview1", "fd_write", EntityType::Function(self.types));
    }

    fn signature(&mut self, kind: &wasmparser::SubType) -> Signature {
        let wasmparser::CompositeInnerType::Func(kind) = &kind.composite_type.inner else {
            return None;
        };
        let mut numbers = |all: &[wasmparser::ValType]| {
            let all = all.iter().map(|it| self.val_type(*it).ok().filter(|it| is_number(*it)));
            all.collect::<Option<Vec<_>>>()
        };
        Some((numbers(kind.params())?, numbers(kind.results())?))
    }
}

fn is_number(kind: ValType) -> bool {
    use ValType::{F32, F64, I32, I64, V128};
    matches!(kind, I32 | I64 | F32 | F64 | V128)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn each_module_can_be_installed_and_some_mistakes_show() {
        let (mut mistakes, mut vectors) = (0, 0);
        for seed in 0..100 {
            let (one, other) = (module(seed).unwrap(), module(seed).unwrap());
            assert_eq!((&one.right, &one.wrong), (&other.right, &other.wrong));
            assert_eq!(passes::unsupported(&one.right), None, "{seed}");
            let valid = wasmparser::Validator::new().validate_all(&one.right);
            assert!(valid.is_ok(), "{seed}: {:?}", valid.err());
            mistakes += u32::from(one.right != one.wrong);
            let (plain, traps) = passes::without_simd(&one.right);
            let valid = wasmparser::Validator::new().validate_all(&plain);
            assert!(valid.is_ok(), "{seed}: {:?}", valid.err());
            assert!(traps == 0 || has_simd(seed), "{seed}: {traps} functions use SIMD");
            vectors += u32::from(traps > 0);
        }
        assert!(vectors > 15, "{vectors} of 25");
        assert!(mistakes > 20, "{mistakes} of 100");
    }
}
