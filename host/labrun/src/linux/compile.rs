//! Compiles the guest's software: process 1, the benchmark, the program that it starts, the one
//! that replays journals, and the driver of the DMA engine, against Debian's headers.

use super::packages::Kernel;
use super::toolbox::{self, CROSS, ToolError};
use super::{Folders, layout};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of the benchmark.
const BENCH: [&str; 15] = [
    "bench",
    "call",
    "process",
    "futex",
    "thread",
    "udp",
    "tcp",
    "http",
    "ext2",
    "dma",
    "modules",
    "../../apps/light/eight",
    "../../apps/light/datagrams",
    "../../apps/light/web",
    "../../apps/bench/streams",
];
/// Compiler options for all programs.
const FLAGS: [&str; 4] = ["-O2", "-static", "-Wall", "-Wextra"];
/// The module's name, without its suffix.
pub const DRIVER: &str = "penumbra_dma";

/// Compiles the guest's programs, named by their output.
pub fn programs(folders: &Folders) -> Result<(), ToolError> {
    let one = |name: &str, sources: &[&str], more: &[&str]| {
        let mut gcc = Command::new(format!("{CROSS}gcc"));
        gcc.args(FLAGS).args(more).arg("-o").arg(folders.built().join(name));
        gcc.args(sources.iter().map(|s| folders.sources.join(format!("{s}.c"))));
        toolbox::step(folders, &format!("compiling {name}"), &mut gcc)
    };
    one("init", &["init"], &[])?;
    one("bench", &BENCH, &["-pthread"])?;
    one("replay", &["replay", "modules"], &[])?;
    one("tiny", &["tiny"], &["-nostdlib"])
}

/// Compiles the driver. Returns its file.
pub fn driver(folders: &Folders, kernel: &Kernel) -> Result<PathBuf, ToolError> {
    let folder = folders.built().join("dma");
    prepare(&folders.sources.join("dma"), &folder)
        .map_err(|e| ToolError::Log(folder.clone(), e))?;
    let mut make = Command::new("make");
    make.arg("-C").arg(kernel.headers());
    make.arg(format!("M={}", folder.display()));
    make.arg(format!("CC={CROSS}gcc"));
    // Debian's kernel was compiled by a newer compiler: these options disable a flag that ours may
    // not know, and type information that needs another tool. Neither changes the module's code.
    make.args(["CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=", "CONFIG_DEBUG_INFO_BTF_MODULES="]);
    make.arg("modules");
    toolbox::step(folders, "compiling the driver of the DMA engine", &mut make)?;
    Ok(folder.join(format!("{DRIVER}.ko")))
}

/// Copies the sources, because the build writes next to them, and adds the generated header.
fn prepare(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for name in ["Kbuild".to_string(), format!("{DRIVER}.c")] {
        std::fs::copy(from.join(&name), to.join(&name))?;
    }
    std::fs::write(to.join("layout.h"), layout::header())
}
