//! What a start needs: the board, its kernels, and the programs that are built beside this one.

use crate::instance::Instance;
use anyhow::bail;
use board::Board;
use builds::kernels::{self, Built, Profile};
use std::path::PathBuf;
use tree::place::Place;

/// File name of the lab's plugin, which is next to this program.
const PLUGIN: &str = "libpenumbra_lab.so";
/// File name of the plugin of boards that run freely, which is next to the soc.
pub const SPIN: &str = "libpenumbra_spin.so";

/// Reads the board and builds its kernels.
pub fn board_and_kernels(
    place: &Place,
    name: &str,
    profile: Profile,
) -> anyhow::Result<(Board, Vec<Built>)> {
    let file = find(place, name)?;
    let board = board::read(&file)?;
    let kernels = kernels::build(place, &kernels::isas(&board), profile)?;
    Ok((board, kernels))
}

/// The board file called `name`.
pub fn find(place: &Place, name: &str) -> anyhow::Result<PathBuf> {
    let file = place.board_file(name);
    if !file.exists() {
        bail!("there is no board \"{name}\"; boards: {}", place.boards().join(", "));
    }
    Ok(file)
}

/// The instance that `up` makes of the board `name` by default.
pub fn own(place: &Place, name: &str) -> anyhow::Result<Instance> {
    let board = board::read(&find(place, name)?)?;
    Ok(Instance::named(place, &board.name)?)
}

/// Returns the path of the soc.
pub fn soc_binary() -> anyhow::Result<PathBuf> {
    beside("soc", "soc")
}

/// Returns the path of the lab's plugin.
pub fn plugin() -> anyhow::Result<PathBuf> {
    beside(PLUGIN, "plugin")
}

/// Returns the path of a file that `package` makes, which is next to this program.
fn beside(file: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(file);
    if !path.exists() {
        let path = path.display();
        bail!("{path} is missing: `cargo build -p {package}` makes it, ./pen does so itself");
    }
    Ok(path)
}
