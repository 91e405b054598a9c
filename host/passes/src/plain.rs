//! Transforms modules for ISAs without SIMD.
//!
//! - A function that uses SIMD traps when it is called. Crates contain such functions next to
//!   scalar ones and choose at run time, so the program must still run. The caller reports their
//!   number.
//! - A vector becomes a 64-bit integer in the types of functions, globals and blocks: what is left
//!   can only pass it on.
//! - Cranelift 0.136 expands a `memory.copy` or `memory.init` whose length it knows to be 16 to 128
//!   bytes into vector loads and stores, and fails an assertion on a target without them (RV64
//!   without V). It knows the value of a constant, also through blocks and locals. So each length
//!   becomes a sum with zero, unless it is a smaller constant: Cranelift does not know the sum
//!   there, and folds it in the generated code. The instruction stays, so this is right in modules
//!   with threads, too, whose memory is filled by `memory.init`.
//!
//! Indices of the module do not change; see `names` for names.

use crate::{names, stop};
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, Instruction, Module, NameSection};
use wasmparser::{FunctionBody, NameSectionReader, Operator, Parser, ValType};

/// The shortest length that is expanded into vector operations.
const SHORTEST: i32 = 16;

/// The prefix of all SIMD operators.
const PREFIX: u8 = 0xfd;

struct Plain<'a> {
    wasm: &'a [u8],
    /// Number of functions that trap.
    traps: usize,
}

impl Plain<'_> {
    fn uses_simd(&self, body: &FunctionBody<'_>) -> Result<bool, Error<Infallible>> {
        for local in body.get_locals_reader()? {
            if local?.1 == ValType::V128 {
                return Ok(true);
            }
        }
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let (_, at) = reader.read_with_offset()?;
            if usize::try_from(at).is_ok_and(|at| self.wasm.get(at) == Some(&PREFIX)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Reencode for Plain<'_> {
    type Error = Infallible;

    fn val_type(&mut self, kind: ValType) -> Result<wasm_encoder::ValType, Error<Infallible>> {
        utils::val_type(self, if kind == ValType::V128 { ValType::I64 } else { kind })
    }

    /// The only operator with vectors that is left is the constant of a global.
    fn instruction<'a>(
        &mut self,
        operator: Operator<'a>,
    ) -> Result<Instruction<'a>, Error<Infallible>> {
        match operator {
            Operator::V128Const { .. } => Ok(Instruction::I64Const(0)),
            other => utils::instruction(self, other),
        }
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Infallible>> {
        if self.uses_simd(&body)? {
            self.traps += 1;
            code.function(&stop::trap());
            return Ok(());
        }
        let mut function = self.new_function_with_parsed_locals(&body)?;
        let mut reader = body.get_operators_reader()?;
        let mut constant = None;
        while !reader.eof() {
            let operator = reader.read()?;
            if matches!(operator, Operator::MemoryCopy { .. } | Operator::MemoryInit { .. })
                && !constant.is_some_and(|length| (0..SHORTEST).contains(&length))
            {
                function.instruction(&Instruction::I32Const(0));
                function.instruction(&Instruction::I32Add);
            }
            constant = match operator {
                Operator::I32Const { value } => Some(value),
                _ => None,
            };
            function.instruction(&self.instruction(operator)?);
        }
        code.function(&function);
        Ok(())
    }

    fn custom_name_section(
        &mut self,
        section: NameSectionReader<'_>,
    ) -> Result<NameSection, Error<Infallible>> {
        names::kept(section)
    }
}

/// Returns the module for an ISA without SIMD, and how many of its functions trap there. An invalid
/// module is left to the compiler.
pub fn without_simd(wasm: &[u8]) -> (Vec<u8>, usize) {
    let (mut module, mut plain) = (Module::new(), Plain { wasm, traps: 0 });
    match plain.parse_core_module(&mut module, Parser::new(0), wasm) {
        Ok(()) => (module.finish(), plain.traps),
        Err(_) => (wasm.to_vec(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn copies(length: &str) -> String {
        format!(
            "(module (memory 1) (func (export \"_start\") \
             (memory.copy (i32.const 64) (i32.const 0) {length})))"
        )
    }

    fn inits(length: &str) -> String {
        format!(
            "(module (memory 1) (data \"0123456789abcdef0123456789abcdef\") \
             (func (export \"_start\") \
             (memory.init 0 (i32.const 64) (i32.const 0) {length})))"
        )
    }

    #[test]
    fn lengths_that_may_be_expanded_become_sums() {
        let same = |text: &str| {
            let wasm = read(text);
            without_simd(&wasm) == (wasm, 0)
        };
        assert!(same(&copies("(i32.const 8)")) && same(&inits("(i32.const 8)")));
        for of_length in [copies, inits] {
            assert!(same(&of_length("(i32.const 15)")));
            for length in ["(i32.const 16)", "(i32.const -1)", "(block (result i32) i32.const 32)"]
            {
                let sum = format!("(i32.add {length} (i32.const 0))");
                let (plain, _) = without_simd(&read(&of_length(length)));
                assert_eq!(plain, read(&of_length(&sum)), "{length}");
            }
        }
        assert_eq!(without_simd(b"no module"), (b"no module".to_vec(), 0));
    }

    #[test]
    fn functions_with_simd_trap_and_others_do_not() {
        let text = "(module (func (export \"_start\")) (func (param i32) (result i32) \
                    (i8x16.extract_lane_s 0 (i8x16.splat (local.get 0)))) (func (local v128)))";
        let wasm = read(text);
        let (plain, traps) = without_simd(&wasm);
        assert_eq!(traps, 2);
        assert!(plain.len() < wasm.len());
    }

    #[test]
    fn vectors_in_types_and_globals_are_no_obstacle() {
        let text = "(module (global (mut v128) (v128.const i64x2 1 2)) \
                    (func $f (param v128) (result v128) (block (result v128) (local.get 0))) \
                    (func (export \"_start\") (global.set 0 (call $f (global.get 0)))))";
        let (plain, traps) = without_simd(&read(text));
        assert_eq!(traps, 0);
        let features = wasmparser::WasmFeatures::default() - wasmparser::WasmFeatures::SIMD;
        let features = features - wasmparser::WasmFeatures::RELAXED_SIMD;
        let valid = wasmparser::Validator::new_with_features(features).validate_all(&plain);
        assert!(valid.is_ok(), "{:?}", valid.err());
    }
}
