//! What is wrong with a text.

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Where.
    pub line: u32,
    /// What is wrong.
    pub what: String,
    /// More text could make it right.
    pub incomplete: bool,
}
