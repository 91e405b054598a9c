//! Values of 32 bits as RV64 wants them: sign-extended in 64.
//!
//! RV64 compares and branches on whole registers. Of a 32-bit value Cranelift keeps only the lower
//! half, unless the instruction that made it extends by itself; so it extends each operand of each
//! comparison anew, one instruction in ten of what a program executes. Here the module says in
//! types of WebAssembly what LLVM knows of RV64: what is compared, and the locals that it comes
//! from, become `i64`, loaded with an extension, which costs nothing, and cut where 32 bits are
//! wanted, which costs nothing either.
//!
//! `flow` finds where values come from, `plan` decides for each whether it is wide, and `write`
//! says the function again, without what is never executed. Functions whose operators give several
//! values stay as they are (clang and rustc make none), so do those that are larger than any that a
//! compiler makes, and what is no module: who compiles it says why. A module traps where it did,
//! and its numbers are its own.

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

/// Most bytes of a function, as engines have agreed.
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
        Ok(names::kept(section))
    }
}

/// `wasm` with its values so.
pub fn widened(wasm: &[u8]) -> Vec<u8> {
    let Ok(functions) = functions(wasm) else { return wasm.to_vec() };
    let (mut module, mut wide) = (Module::new(), Wide { functions: functions.into_iter() });
    match wide.parse_core_module(&mut module, Parser::new(0), wasm) {
        Ok(()) => module.finish(),
        Err(_) => wasm.to_vec(),
    }
}

/// Those of a module, in order, with what their operators are checked against.
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
