//! Compiles what runs in the guest: process 1, the benchmark, the program that it starts, and the
//! driver of the DMA engine, against Debian's headers.

use super::packages::Kernel;
use super::toolbox::{self, CROSS, ToolError};
use super::{Folders, layout};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the benchmark is made of.
const BENCH: [&str; 9] =
    ["bench", "call", "process", "futex", "thread", "udp", "ext2", "dma", "modules"];
/// A compiler's arguments for all programs.
const FLAGS: [&str; 4] = ["-O2", "-static", "-Wall", "-Wextra"];
/// The module's name, without its ending.
pub const DRIVER: &str = "penumbra_dma";

/// Programs of the guest, by name.
pub fn programs(folders: &Folders) -> Result<(), ToolError> {
    let one = |name: &str, sources: &[&str], more: &[&str]| {
        let mut gcc = Command::new(format!("{CROSS}gcc"));
        gcc.args(FLAGS).args(more).arg("-o").arg(folders.built().join(name));
        gcc.args(sources.iter().map(|s| folders.sources.join(format!("{s}.c"))));
        toolbox::step(folders, &format!("compiling {name}"), &mut gcc)
    };
    one("init", &["init"], &[])?;
    one("bench", &BENCH, &["-pthread"])?;
    one("tiny", &["tiny"], &["-nostdlib"])
}

/// The driver; answers its file.
pub fn driver(folders: &Folders, kernel: &Kernel) -> Result<PathBuf, ToolError> {
    let folder = folders.built().join("dma");
    prepare(&folders.sources.join("dma"), &folder)
        .map_err(|e| ToolError::Log(folder.clone(), e))?;
    let mut make = Command::new("make");
    make.arg("-C").arg(kernel.headers());
    make.arg(format!("M={}", folder.display()));
    make.arg(format!("CC={CROSS}gcc"));
    // Debian's kernel was made by a newer compiler: an option that ours may not know, and type
    // information that would need one more tool. Neither changes what the module is.
    make.args(["CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=", "CONFIG_DEBUG_INFO_BTF_MODULES="]);
    make.arg("modules");
    toolbox::step(folders, "compiling the driver of the DMA engine", &mut make)?;
    Ok(folder.join(format!("{DRIVER}.ko")))
}

/// A copy of the sources, since the build writes beside them, with the generated header.
fn prepare(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for name in ["Kbuild".to_string(), format!("{DRIVER}.c")] {
        std::fs::copy(from.join(&name), to.join(&name))?;
    }
    std::fs::write(to.join("layout.h"), layout::header())
}
