//! Board files: a chip as data.
//!
//! [`read`] parses and checks `boards/NAME.toml`. A [`Board`] has all properties that the soc, the
//! kernels and `pen` rely on; a file without them is rejected with its name, the line and the
//! reason. `docs/reference/boards.md` is the manual of the format.
//!
//! This crate has no side effects; it only computes.

mod blob;
mod block;
mod check;
mod device;
mod error;
mod file;
mod memory;
mod net;
mod power;
mod ram_disk;
mod service;
mod types;
mod units;
mod value;
mod window;

pub use block::Block;
pub use error::{BoardError, Reason};
pub use ram_disk::ram_disk;
pub use types::{
    Board, Cost, Costs, Device, DeviceKind, Dma, Domain, Fabric, Figure, Isa, Kind, Mode, Net,
    Network, Point, Power, Region, Restart, Role, Service, Start,
};
pub use window::Layout;

/// Reads and checks the board file at `path`.
pub fn read(path: &std::path::Path) -> Result<Board, BoardError> {
    let shown = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|e| BoardError::unreadable(&shown, e.to_string()))?;
    parse(&shown, &text)
}

/// Checks the text of a board file; `file` is the name used in errors.
pub fn parse(file: &str, text: &str) -> Result<Board, BoardError> {
    let raw: file::File = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        BoardError::at(file, text, at, Reason::Syntax(e.message().trim().to_string()))
    })?;
    check::board(raw).map_err(|(at, reason)| BoardError::at(file, text, at, reason))
}
