//! Syntax errors.

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line number.
    pub line: u32,
    /// Description.
    pub what: String,
    /// Whether more text could complete it.
    pub incomplete: bool,
}
