//! Why a board file was rejected, always with file, line and reason.

use thiserror::Error;

/// An error in a board file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {reason}")]
pub struct BoardError {
    /// Name of the file, as passed to [`crate::read`].
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The error.
    pub reason: Reason,
}

/// A kind of error.
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
        /// Name of the value.
        what: &'static str,
        /// Its value.
        value: String,
        /// The allowed range.
        range: String,
    },
    /// A name that is empty, too long, or contains invalid characters.
    #[error("name \"{0}\": use 1 to 15 of a-z, 0-9 and '-', beginning with a letter")]
    Name(String),
    /// A name used twice.
    #[error("there is already a {what} named \"{name}\"")]
    Duplicate {
        /// The kind of object.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A reference to a domain that does not exist.
    #[error("there is no domain named \"{name}\" on this board; domains: {domains}")]
    NoDomain {
        /// The name.
        name: String,
        /// The existing domains.
        domains: String,
    },
    /// An address or size that is not a multiple of what it must be.
    #[error("{what} {value:#x} is not a multiple of {multiple:#x}")]
    Misaligned {
        /// Name of the value.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The required alignment.
        multiple: u64,
    },
    /// Two overlapping ranges.
    #[error("{a} overlaps {b}")]
    Overlap {
        /// The later one.
        a: String,
        /// The earlier one.
        b: String,
    },
    /// A domain needs memory outside its window.
    #[error("domain \"{domain}\" does not reach {what}: its window is {base:#x}..{end:#x}")]
    Unreachable {
        /// The domain.
        domain: String,
        /// The memory that it needs.
        what: String,
        /// First address of its window.
        base: u64,
        /// End of its window.
        end: u64,
    },
    /// Two users of one doorbell vector.
    #[error("vector {vector} is already taken by {by}; free: {free}")]
    VectorClash {
        /// The vector.
        vector: u32,
        /// Its other user.
        by: String,
        /// The free vectors.
        free: String,
    },
    /// A service in a mode that it does not support.
    #[error("{service} cannot be {mode}: {why}; it can be {allowed}")]
    Mode {
        /// The service.
        service: &'static str,
        /// The mode.
        mode: &'static str,
        /// The reason.
        why: &'static str,
        /// The modes that it supports.
        allowed: String,
    },
    /// A required part of the board is missing.
    #[error("{0}")]
    Missing(String),
    /// An invalid combination.
    #[error("{0}")]
    Conflict(String),
    /// A feature of the format that is not implemented yet.
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

/// A result whose error carries a byte offset in the file.
pub(crate) type Place<T> = Result<T, (usize, Reason)>;
