//! Why a manifest was refused: always with file, line, field, and what is allowed.

use thiserror::Error;

/// A refused manifest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {reason}")]
pub struct ManifestError {
    /// The file as it was named.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: Reason,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// The file cannot be read.
    #[error("cannot read the manifest: {0}")]
    Unreadable(String),
    /// Not TOML.
    #[error("{0}")]
    Syntax(String),
    /// A field that nobody knows.
    #[error("there is no field \"{field}\"; there are: {known}")]
    Unknown {
        /// Which.
        field: String,
        /// The known ones.
        known: String,
    },
    /// A field without which a table is of no use.
    #[error("field \"{field}\" is missing: it must be {allowed}")]
    Missing {
        /// Which.
        field: String,
        /// What it must be.
        allowed: &'static str,
    },
    /// A value that is not allowed.
    #[error("field \"{field}\" is {found}; it must be {allowed}")]
    Value {
        /// Which field.
        field: String,
        /// What it holds.
        found: String,
        /// What it must hold.
        allowed: &'static str,
    },
    /// The same twice.
    #[error("field \"{field}\" has {found} twice")]
    Twice {
        /// Which field.
        field: String,
        /// What it has twice.
        found: String,
    },
    /// All of it together is too much.
    #[error("args, env and preopens are {bytes} bytes together; at most {most} are allowed")]
    Large {
        /// Bytes in an image.
        bytes: usize,
        /// Most.
        most: usize,
    },
}

/// A reason and the byte of the file where it was found.
pub(crate) type Place<T> = Result<T, (usize, Reason)>;

impl ManifestError {
    pub(crate) fn at(file: &str, text: &str, (at, reason): (usize, Reason)) -> Self {
        let line = text.bytes().take(at).filter(|&b| b == b'\n').count() + 1;
        Self { file: file.to_string(), line, reason }
    }
}
