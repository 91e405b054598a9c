//! Keeps 32-bit values sign-extended in 64 bits, as RV64 prefers them.
//!
//! RV64 compares and branches on whole registers. Cranelift keeps only the lower half of a 32-bit
//! value, unless the instruction that produced it also extends it; so it extends each operand of
//! each comparison again, which is one in ten of a program's executed instructions. This pass
//! expresses in types of WebAssembly what LLVM knows about RV64: compared values, and the locals
//! that they come from, become `i64`, loaded with an extension, which is free, and wrapped where 32
//! bits are needed, which is free too.
//!
//! `flow` finds the sources of values, `plan` decides which values are wide, and `write` generates
//! the new function, without unreachable code. These stay unchanged: functions whose operators
//! produce several values (clang and rustc generate none), functions larger than any that a
//! compiler generates, and invalid modules, whose errors the compiler reports. A module traps where
//! it did before, and its indices do not change.

mod flow;
mod plan;
mod write;

use crate::names;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, Module, NameSection};
use wasmparser::{
    BinaryReaderError, FuncToValidate, FunctionBody, NameSectionReader, Parser, ValidPayload,
    Validator, ValidatorResources, WasmFeatures,
};

/// Maximum size of a function in bytes, as agreed among engines.
const FUNCTION: usize = 7_654_321;

/// With the functions whose bodies come next.
struct Wide {
    functions: std::vec::IntoIter<FuncToValidate<ValidatorResources>>,
}

impl Reencode for Wide {
    type Error = Infallible;

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Infallible>> {
        let function = self.functions.next();
        if let Some(flow) =
            function.map(|function| flow::of(function, &body)).transpose()?.flatten()
        {
            let written = write::function(self, &flow, &plan::of(&flow))?;
            if written.byte_len() <= FUNCTION {
                code.function(&written);
                return Ok(());
            }
        }
        utils::parse_function_body(self, code, body)
    }

    fn custom_name_section(
        &mut self,
        section: NameSectionReader<'_>,
    ) -> Result<NameSection, Error<Infallible>> {
        names::kept(section)
    }
}

/// Returns `wasm` with its values widened.
pub fn widened(wasm: &[u8]) -> Vec<u8> {
    let Ok(functions) = functions(wasm) else { return wasm.to_vec() };
    let (mut module, mut wide) = (Module::new(), Wide { functions: functions.into_iter() });
    match wide.parse_core_module(&mut module, Parser::new(0), wasm) {
        Ok(()) => module.finish(),
        Err(_) => wasm.to_vec(),
    }
}

/// Returns the functions of a module, in order, with their validators' resources.
fn functions(wasm: &[u8]) -> Result<Vec<FuncToValidate<ValidatorResources>>, BinaryReaderError> {
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        if let ValidPayload::Func(function, _) = validator.payload(&payload?)? {
            found.push(function);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
