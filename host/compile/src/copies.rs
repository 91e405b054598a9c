//! Copies of a known length, for ISAs without SIMD.
//!
//! Cranelift 0.135 expands a `memory.copy` of 16 to 128 bytes, when the length is a constant, into
//! vector loads and stores, and ends with an assertion on an ISA that has none (RV64 without V).
//! So the length of each such copy becomes a sum with zero: no constant where Cranelift looks, and
//! one again in the code that it makes. Names, numbers and types of the module stay as they are.

use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, Instruction, Module};
use wasmparser::{FunctionBody, Operator, Parser};

/// The shortest copy that becomes a vector's.
const SHORTEST: i32 = 16;

struct Lengths;

impl Reencode for Lengths {
    type Error = Infallible;

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Infallible>> {
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
}

/// The same module without such copies; what is no module is left to who compiles it.
pub fn lengthened(wasm: &[u8]) -> Vec<u8> {
    let mut module = Module::new();
    match Lengths.parse_core_module(&mut module, Parser::new(0), wasm) {
        Ok(()) => module.finish(),
        Err(_) => wasm.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compile, read};
    use abi::boot::isa;

    fn copies(length: &str) -> String {
        format!(
            "(module (memory 1) (func (export \"_start\") \
             (memory.copy (i32.const 64) (i32.const 0) {length})))"
        )
    }

    #[test]
    fn copies_of_any_length_compile_for_each_isa() {
        for length in [0, 1, 15, 16, 17, 48, 64, 127, 128, 129, 4096] {
            let text = copies(&format!("(i32.const {length})"));
            for isa in [isa::AARCH64, isa::RISCV64] {
                assert!(compile(text.as_bytes(), isa).is_ok(), "{length}");
            }
        }
    }

    #[test]
    fn only_such_copies_change() {
        let same = |text: &str| {
            let wasm = read(text.as_bytes()).unwrap();
            lengthened(&wasm) == wasm
        };
        assert!(same(&copies("(i32.const 8)")));
        assert!(same(&copies("(memory.size)")));
        assert!(!same(&copies("(i32.const 32)")));
        assert_eq!(lengthened(b"no module"), b"no module");
    }
}
