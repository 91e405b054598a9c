//! Paths: the tree, the build output, and the toolchain that `./pen` selected.
//!
//! All of it comes from environment variables set by the script; with the defaults the binary works
//! when started by hand in the root of the tree.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The paths of the tree and its tools.
#[derive(Clone, Debug)]
pub struct Place {
    /// Root of the tree.
    pub root: PathBuf,
    /// Build output (`target/`, or CARGO_TARGET_DIR).
    pub target: PathBuf,
    /// cargo.
    pub cargo: PathBuf,
    /// rustc, if it is not cargo's default.
    pub rustc: Option<PathBuf>,
    /// Build core and alloc from source: this toolchain has no bare-metal targets.
    pub build_std: bool,
    /// Linker for the kernels, if it is not the toolchain's own.
    pub linker: Option<PathBuf>,
}

fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

impl Place {
    /// Reads the environment.
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

    /// Returns the same paths with a different folder for build output.
    pub fn within(&self, folder: &str) -> Place {
        Place { target: self.target.join(folder), ..self.clone() }
    }

    /// Returns a cargo command in the root, with the selected compiler.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        if let Some(rustc) = &self.rustc {
            command.env("RUSTC", rustc).env("RUSTDOC", rustc.with_file_name("rustdoc"));
        }
        command
    }

    /// Returns the run folder of a board.
    pub fn run(&self, instance: &str) -> PathBuf {
        self.root.join("run").join(instance)
    }

    /// Returns the names of the boards in the tree.
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

    /// Returns the path of `name`'s board file, as shown in errors; a path is returned unchanged.
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
