//! `pen-compile`: the code of a module for some ISAs, into a file each.
//!
//! ```text
//! pen-compile --isa aarch64 --isa riscv64 hello.wasm out    writes out.aarch64, out.riscv64
//! ```
//! What it does is said on standard error. A file is there whole or not at all.

use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(name = "pen-compile", about = "Programs ahead of time to the code of each ISA")]
struct Line {
    /// For which ISA; may come several times.
    #[arg(long, value_enum, required = true)]
    isa: Vec<Isa>,
    /// The module.
    wasm: PathBuf,
    /// What the files are called, up to the name of their ISA.
    prefix: PathBuf,
}

/// An ISA, as on the command line and in the names of files.
#[derive(Clone, Copy, ValueEnum)]
enum Isa {
    /// AArch64.
    Aarch64,
    /// RV64GC.
    Riscv64,
}

impl Isa {
    const fn name(self) -> &'static str {
        match self {
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv64",
        }
    }

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
            eprintln!("pen-compile: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(line: &Line) -> Result<(), String> {
    let wasm = std::fs::read(&line.wasm).map_err(|e| format!("{}: {e}", line.wasm.display()))?;
    for &isa in &line.isa {
        let (name, start) = (isa.name(), Instant::now());
        eprintln!("pen-compile: {} for {name} ...", line.wasm.display());
        let (code, traps) = compile::compile_and_count(&wasm, isa.number())
            .map_err(|why| format!("{} for {name}: {why}", line.wasm.display()))?;
        write(&line.prefix, name, &code)?;
        if traps > 0 {
            eprintln!(
                "pen-compile: {traps} functions use SIMD, which {name} has not: they trap there"
            );
        }
        let (from, to, took) = (wasm.len() >> 10, code.len() >> 10, start.elapsed());
        let seconds = took.as_secs_f64();
        eprintln!("pen-compile: {from} KiB became {to} KiB for {name}, {seconds:.1} s");
    }
    Ok(())
}

/// Under another name first.
fn write(prefix: &Path, isa: &str, code: &[u8]) -> Result<(), String> {
    let file = |end: &str| {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!(".{isa}{end}"));
        PathBuf::from(name)
    };
    let (part, whole) = (file("~part"), file(""));
    let done = std::fs::write(&part, code).and_then(|()| std::fs::rename(&part, &whole));
    done.map_err(|e| format!("{}: {e}", whole.display()))
}
