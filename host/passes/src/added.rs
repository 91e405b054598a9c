//! Functions that a pass adds to a module, as imports after the module's own ones. So the functions
//! that the module defines get other numbers.

use wasmparser::{BinaryReaderError, TypeSectionReader};

/// Returns the number of a function once `added` imports follow the module's own `imported` ones.
pub fn function_index(function: u32, imported: u32, added: u32) -> u32 {
    if function < imported { function } else { function.saturating_add(added) }
}

/// Returns how many types a section has, which is the number of the first one after them.
pub fn types(section: &TypeSectionReader<'_>) -> Result<u32, BinaryReaderError> {
    section.clone().into_iter().map(|group| Ok(group?.types().len() as u32)).sum()
}
