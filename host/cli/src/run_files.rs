//! Names of files in a board's run folder that several modules use.

/// The socket of a board's console.
pub const CONSOLE: &str = "console.sock";
/// That of its streams.
pub const VSOCK: &str = "vsock.sock";
/// Bytes of the key that seals its programs.
pub const KEY_FILE: &str = "program.key";
