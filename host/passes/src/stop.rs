//! The way out of a loop: adds a function to each module, whose only instruction traps.
//!
//! To stop a program while it computes, the kernel makes it continue in that function, as if it had
//! called it, and the trap ends it (`kernel/engine`). So loops need not check whether to stop. The
//! function comes last, so no index of the module changes, and nothing in the module refers to it.
//! A module without functions has no loops and is not changed.

use crate::names;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    CodeSection, Function, FunctionSection, Instruction, Module, NameSection, TypeSection,
};
use wasmparser::{
    CodeSectionReader, FunctionSectionReader, NameSectionReader, Parser, TypeSectionReader,
};

/// With the index of that function's type, once the types have been read.
struct Stoppable {
    kind: u32,
}

impl Reencode for Stoppable {
    type Error = Infallible;

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_type_section(self, types, section)?;
        self.kind = types.len();
        types.ty().function([], []);
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_function_section(self, functions, section)?;
        functions.function(self.kind);
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_code_section(self, code, section)?;
        code.function(&trap());
        Ok(())
    }

    fn custom_name_section(
        &mut self,
        section: NameSectionReader<'_>,
    ) -> Result<NameSection, Error<Infallible>> {
        names::kept(section)
    }
}

/// Returns a function that traps at once.
pub fn trap() -> Function {
    let mut function = Function::new([]);
    function.instruction(&Instruction::Unreachable).instruction(&Instruction::End);
    function
}

/// Adds that function to `wasm`. Fails if the module is invalid: without the function, the kernel
/// could not stop the program.
pub fn with_way_out(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let (mut module, mut stoppable) = (Module::new(), Stoppable { kind: 0 });
    match stoppable.parse_core_module(&mut module, Parser::new(0), wasm) {
        Ok(()) => Ok(module.finish()),
        Err(why) => Err(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(text: &str, expected: &str) {
        assert_eq!(with_way_out(&crate::read(text)), Ok(crate::read(expected)));
    }

    #[test]
    fn it_comes_last() {
        let one = "(type (func (param i32))) (func (type 0) local.get 0 drop)";
        let last = "(type (func (param i32))) (type (func)) (func (type 0) local.get 0 drop) \
                    (func (type 1) unreachable)";
        same(&format!("(module {one})"), &format!("(module {last})"));
    }

    #[test]
    fn what_has_no_functions_stays() {
        let memory = "(module (memory 1))";
        same(memory, memory);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(with_way_out(b"\0asm\x01").is_err());
        let whole = crate::read("(module (func) (func))");
        for end in 0..whole.len() {
            let cut = with_way_out(&whole[..end]);
            // Cut between two sections, it may be a module, but then it has no code to stop.
            assert!(cut.is_err() || end < whole.len() - 1, "{end}");
        }
    }
}
