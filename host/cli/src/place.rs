//! Where things are: the tree, the build output, the toolchain that `./pen` chose.
//!
//! Everything comes from the environment that the script set; defaults make the binary usable by
//! hand from the root of the tree.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The tree and its tools.
#[derive(Clone, Debug)]
pub struct Place {
    /// Root of the tree.
    pub root: PathBuf,
    /// Build output (`target/`, or CARGO_TARGET_DIR).
    pub target: PathBuf,
    /// cargo.
    pub cargo: PathBuf,
    /// rustc, where it is not cargo's own choice.
    pub rustc: Option<PathBuf>,
    /// Build core and alloc from source: this toolchain has no bare-metal targets.
    pub build_std: bool,
    /// Linker for the kernels; without one the toolchain's own.
    pub linker: Option<PathBuf>,
}

fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

impl Place {
    /// From the environment.
    pub fn find() -> std::io::Result<Self> {
        let root = path("PEN_ROOT").map_or_else(std::env::current_dir, Ok)?.canonicalize()?;
        let target = path("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target"));
        Ok(Self {
            target,
            cargo: path("PEN_CARGO").unwrap_or_else(|| PathBuf::from("cargo")),
            rustc: path("PEN_RUSTC"),
            build_std: path("PEN_BUILD_STD").is_some(),
            linker: path("PEN_LINKER"),
            root,
        })
    }

    /// The same place with another folder for what is built.
    pub fn within(&self, folder: &str) -> Place {
        Place { target: self.target.join(folder), ..self.clone() }
    }

    /// cargo in the root, with the chosen compiler.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        if let Some(rustc) = &self.rustc {
            command.env("RUSTC", rustc).env("RUSTDOC", rustc.with_file_name("rustdoc"));
        }
        command
    }

    /// Folder of one running (or stopped) board.
    pub fn run(&self, instance: &str) -> PathBuf {
        self.root.join("run").join(instance)
    }

    /// Names of the boards in the tree.
    pub fn boards(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.root.join("boards"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".toml")?.to_string()))
            .collect();
        names.sort();
        names
    }

    /// Path of `name`'s board file as errors show it; a path is taken as it is.
    pub fn board_file(&self, name: &str) -> PathBuf {
        if name.ends_with(".toml") {
            return PathBuf::from(name);
        }
        let inside = Path::new("boards").join(format!("{name}.toml"));
        match std::env::current_dir() {
            Ok(here) if here == self.root => inside,
            _ => self.root.join(inside),
        }
    }
}
