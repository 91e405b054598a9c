//! Names of files in a board's run folder that several modules use.

/// Socket of the console, in the run folder.
pub const CONSOLE: &str = "console.sock";
/// Socket of the streams.
pub const VSOCK: &str = "vsock.sock";
/// Socket of the network: frames.
pub const LINK: &str = "net.sock";
/// Socket of the network's gateway: requests.
pub const GATEWAY: &str = "gateway.sock";
/// File of the key, in the run folder.
pub const KEY_FILE: &str = "program.key";
