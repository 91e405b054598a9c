//! Modules for ISAs without SIMD.
//!
//! - A function that uses SIMD traps when it is called. Crates have such functions beside others
//!   that do the same, and choose: they are to run nevertheless. Who compiles says how many.
//! - Cranelift 0.135 expands a `memory.copy` of 16 to 128 bytes, when the length is constant, into
//!   vector loads and stores, and ends with an assertion where there are none (RV64 without V). So
//!   the length of each such copy becomes a sum with zero: no constant where Cranelift looks, and
//!   one again in the code that it makes.
//!
//! Numbers and types of the module stay as they are; names as `names` says.

use crate::{names, stop};
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, Instruction, Module, NameSection};
use wasmparser::{FunctionBody, NameSectionReader, Operator, Parser, ValType};

/// The shortest copy that becomes a vector's.
const SHORTEST: i32 = 16;

/// What all operators of SIMD begin with.
const PREFIX: u8 = 0xfd;

struct Plain<'a> {
    wasm: &'a [u8],
    /// Functions that trap.
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
            if matches!(operator, Operator::MemoryCopy { .. })
                && constant.is_some_and(|length| length >= SHORTEST)
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
        Ok(names::kept(section))
    }
}

/// The module for an ISA without SIMD, and how many of its functions trap there. What is no module
/// is left to who compiles it.
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

    #[test]
    fn only_such_copies_change() {
        let same = |text: &str| {
            let wasm = read(text);
            without_simd(&wasm) == (wasm, 0)
        };
        assert!(same(&copies("(i32.const 8)")));
        assert!(same(&copies("(memory.size)")));
        assert!(!same(&copies("(i32.const 32)")));
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
}
