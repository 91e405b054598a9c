//! Why a board file was refused: always with file, line and reason.

use thiserror::Error;

/// A refused board file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {reason}")]
pub struct BoardError {
    /// File as it was named to [`crate::read`].
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: Reason,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// The file cannot be read.
    #[error("cannot read the board file: {0}")]
    Unreadable(String),
    /// Not TOML, an unknown or missing key, or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// A number outside its range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Which value.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        range: String,
    },
    /// A name that is empty, too long, or has odd characters.
    #[error("name \"{0}\": use 1 to 15 of a-z, 0-9 and '-', beginning with a letter")]
    Name(String),
    /// A name used twice.
    #[error("there is already a {what} named \"{name}\"")]
    Duplicate {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A reference to a domain that does not exist.
    #[error("there is no domain named \"{name}\" on this board; domains: {domains}")]
    NoDomain {
        /// The name.
        name: String,
        /// Those that exist.
        domains: String,
    },
    /// An address or size that is not a multiple of what it must be.
    #[error("{what} {value:#x} is not a multiple of {multiple:#x}")]
    Misaligned {
        /// Which value.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Of what it must be a multiple.
        multiple: u64,
    },
    /// Two things in one place.
    #[error("{a} overlaps {b}")]
    Overlap {
        /// The later one.
        a: String,
        /// The earlier one.
        b: String,
    },
    /// A domain would need memory that its window does not reach.
    #[error("domain \"{domain}\" does not reach {what}: its window is {base:#x}..{end:#x}")]
    Unreachable {
        /// Which domain.
        domain: String,
        /// What it needs.
        what: String,
        /// First byte of its window.
        base: u64,
        /// First byte behind its window.
        end: u64,
    },
    /// Two users of one doorbell vector.
    #[error("vector {vector} is already taken by {by}; free: {free}")]
    VectorClash {
        /// The vector.
        vector: u32,
        /// Its user.
        by: String,
        /// Those that are free.
        free: String,
    },
    /// A service in a mode that it cannot have.
    #[error("{service} cannot be {mode}: {why}; it can be {allowed}")]
    Mode {
        /// The service.
        service: &'static str,
        /// The mode.
        mode: &'static str,
        /// The reason.
        why: &'static str,
        /// Its modes.
        allowed: String,
    },
    /// A board without something that it needs.
    #[error("{0}")]
    Missing(String),
    /// A combination that makes no sense.
    #[error("{0}")]
    Conflict(String),
    /// Room in the format that no code fills yet.
    #[error("not supported yet: {0}")]
    NotYet(&'static str),
}

impl BoardError {
    pub(crate) fn unreadable(file: &str, why: String) -> Self {
        Self { file: file.to_string(), line: 1, reason: Reason::Unreadable(why) }
    }

    pub(crate) fn at(file: &str, text: &str, at: usize, reason: Reason) -> Self {
        let line = text.bytes().take(at).filter(|&b| b == b'\n').count() + 1;
        Self { file: file.to_string(), line, reason }
    }
}

/// A reason and the byte of the file where it was found.
pub(crate) type Place<T> = Result<T, (usize, Reason)>;
