//! The lab's commands and what they hand to soc and plugin.

pub mod model;

use std::path::PathBuf;

/// Name of the plugin's file, beside this program.
const PLUGIN: &str = "libpenumbra_lab.so";

/// The plugin that QEMU loads.
pub fn plugin() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(PLUGIN);
    if !path.exists() {
        anyhow::bail!(
            "{} is missing: `cargo build -p plugin` makes it, ./pen does so itself",
            path.display()
        );
    }
    Ok(path)
}
