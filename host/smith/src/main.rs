//! `pen-smith`: generates valid random modules that can be installed as programs.
//!
//! ```text
//! pen-smith nonsense SEED COUNT FOLDER IMPORTS   FOLDER/smith-0.wasm ... smith-(COUNT - 1).wasm
//! pen-smith compute SEED COUNT FOLDER            FOLDER/compute-0.wasm ..., and mistakes
//! ```
//! The same seed gives the same modules. [`nonsense`] may call the imports of the module in the
//! file IMPORTS. [`compute`] calculates and prints; `mistake-N.wasm` is the same as
//! `compute-N.wasm` with one instruction taken for another everywhere. `plain-N.wasm`, of a module
//! that uses SIMD, is what an ISA without SIMD executes.

mod compute;
mod nonsense;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod threads;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod versions;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["nonsense", seed, count, folder, imports] => {
            nonsensical((seed, count), Path::new(folder), imports)
        }
        ["compute", seed, count, folder] => computing((seed, count), Path::new(folder)),
        _ => Err("usage: pen-smith nonsense SEED COUNT FOLDER IMPORTS, or \
                  pen-smith compute SEED COUNT FOLDER"
            .to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pen-smith: {why}");
            ExitCode::FAILURE
        }
    }
}

fn numbers((seed, count): (&str, &str)) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
    Ok((number(seed)?, number(count)?))
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

fn nonsensical(which: (&str, &str), folder: &Path, imports: &str) -> Result<(), String> {
    let (seed, count) = numbers(which)?;
    let imports = std::fs::read_to_string(imports).map_err(|e| format!("{imports}: {e}"))?;
    (0..count).try_for_each(|index| {
        let bytes = nonsense::numbered(seed, index, &imports)?;
        write(folder, &format!("smith-{index}.wasm"), &bytes)
    })
}

fn computing(which: (&str, &str), folder: &Path) -> Result<(), String> {
    let (seed, count) = numbers(which)?;
    (0..count).try_for_each(|index| {
        let seed = seed.wrapping_mul(1 << 20).wrapping_add(index);
        let made = compute::module(seed)?;
        write(folder, &format!("compute-{index}.wasm"), &made.right)?;
        if compute::has_simd(seed) {
            let (plain, _) = passes::without_simd(&made.right);
            write(folder, &format!("plain-{index}.wasm"), &plain)?;
        }
        write(folder, &format!("mistake-{index}.wasm"), &made.wrong)
    })
}
