//! `pen-compile`: what `wasmtime compile` does, where that cannot be had.
//!
//! ```text
//! pen-compile --isa riscv64 prepared.wasm hello.riscv64
//! ```
//! The module has been through `passes`. The output is complete or does not exist.

use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "pen-compile", about = "Compile a prepared module to the code of one ISA")]
struct Line {
    /// The ISA to compile for.
    #[arg(long, value_enum)]
    isa: Isa,
    /// The module.
    wasm: PathBuf,
    /// Where the code goes.
    output: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Isa {
    Aarch64,
    Riscv64,
}

impl Isa {
    const fn number(self) -> u32 {
        match self {
            Isa::Aarch64 => abi::boot::isa::AARCH64,
            Isa::Riscv64 => abi::boot::isa::RISCV64,
        }
    }
}

fn main() -> ExitCode {
    match run(&Line::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("Error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(line: &Line) -> Result<(), String> {
    let shown = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let wasm = std::fs::read(&line.wasm).map_err(|e| shown(&line.wasm, e))?;
    let code = compile::compile(&wasm, line.isa.number()).map_err(|why| why.to_string())?;
    let mut part = line.output.clone().into_os_string();
    part.push("~part");
    let part = PathBuf::from(part);
    let written = std::fs::write(&part, code).and_then(|()| std::fs::rename(&part, &line.output));
    written.map_err(|e| shown(&line.output, e))
}
