//! Why a manifest was rejected, always with file, line, field, and the allowed values.

use thiserror::Error;

/// An error in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {reason}")]
pub struct ManifestError {
    /// Name of the file, as given.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The error.
    pub reason: Reason,
}

/// A kind of error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// The file cannot be read.
    #[error("cannot read the manifest: {0}")]
    Unreadable(String),
    /// It is not TOML.
    #[error("{0}")]
    Syntax(String),
    /// An unknown field.
    #[error("there is no field \"{field}\"; there are: {known}")]
    Unknown {
        /// The field.
        field: String,
        /// The known fields.
        known: String,
    },
    /// A required field is missing.
    #[error("field \"{field}\" is missing: it must be {allowed}")]
    Missing {
        /// The field.
        field: String,
        /// Its allowed values.
        allowed: &'static str,
    },
    /// A value that is not allowed.
    #[error("field \"{field}\" is {found}; it must be {allowed}")]
    Value {
        /// The field.
        field: String,
        /// The value.
        found: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A duplicate.
    #[error("field \"{field}\" has {found} twice")]
    Twice {
        /// The field.
        field: String,
        /// The value that occurs twice.
        found: String,
    },
    /// The manifest is too large.
    #[error("args, env and preopens are {bytes} bytes together; at most {most} are allowed")]
    Large {
        /// Its size in an image.
        bytes: usize,
        /// The maximum size.
        most: usize,
    },
}

/// A result whose error carries a byte offset in the file.
pub(crate) type Place<T> = Result<T, (usize, Reason)>;

impl ManifestError {
    pub(crate) fn at(file: &str, text: &str, (at, reason): (usize, Reason)) -> Self {
        let line = text.bytes().take(at).filter(|&b| b == b'\n').count() + 1;
        Self { file: file.to_string(), line, reason }
    }
}
