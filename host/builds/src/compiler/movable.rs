//! Makes modules that can move to another kernel while they run, with Binaryen's Asyncify. The
//! result is cached in `target/programs/`, as compiled code is.

use super::PASSES;
use crate::apps::sums;
use crate::building;
use anyhow::{Context, anyhow, bail};
use program::Movable;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tree::place::Place;
use tree::progress::Step;

const TOOL: &str = "wasm-opt";
/// What compilers of C and Rust use, and all engines have.
const FEATURES: [&str; 7] = [
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-bulk-memory",
    "--enable-simd",
    "--enable-reference-types",
    "--enable-multivalue",
];
/// Asyncify needs the optimiser: without, each function keeps dozens of variables.
const PASS: [&str; 3] = ["--asyncify", "-O2", "-g"];

/// Returns the module `wasm`, which was read from `file`, made so that it can move where `wanted`.
pub fn movable(
    place: &Place,
    file: &Path,
    wasm: &[u8],
    wanted: Movable,
) -> anyhow::Result<Vec<u8>> {
    let what = || format!("{} cannot move (`movable = true` in its manifest)", file.display());
    let tool = version()?;
    let maker = format!(
        "{tool} {FEATURES:?} {PASS:?} {wanted:?} {}",
        sums(place, std::iter::once(PASSES.into()))?
    );
    let name = program::cache_name(wasm, "movable", &maker);
    let kept = place.target.join("programs").join(format!("{name}.movable"));
    if let Ok(made) = std::fs::read(&kept) {
        return Ok(made);
    }
    let _alone = building::alone();
    let points = passes::with_points(wasm, wanted == Movable::Anywhere)
        .map_err(|why| anyhow!(why))
        .with_context(what)?;
    let step = Step::begin(&format!("making {} movable", file.display()));
    let made = asyncify(&kept, &points).with_context(what)?;
    let made = passes::exposed(&made).map_err(|why| anyhow!(why)).with_context(what)?;
    let part = kept.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, &made).with_context(|| part.display().to_string())?;
    std::fs::rename(&part, &kept).with_context(|| kept.display().to_string())?;
    step.done();
    Ok(made)
}

/// Returns what the tool says of itself.
fn version() -> anyhow::Result<String> {
    let output = Command::new(TOOL).arg("--version").stdin(Stdio::null()).output();
    match output {
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
        Err(_) => bail!(
            "a program that moves while it runs (`movable = true` in its manifest) is made with \
             {TOOL}, which is not there; as root: apt-get install binaryen"
        ),
    }
}

fn asyncify(kept: &Path, wasm: &[u8]) -> anyhow::Result<Vec<u8>> {
    let folder = kept.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let beside = |end: &str| -> PathBuf {
        kept.with_extension(format!("{}.{end}.wasm", std::process::id()))
    };
    let (input, output) = (beside("in"), beside("out"));
    std::fs::write(&input, wasm).with_context(|| input.display().to_string())?;
    let mut tool = Command::new(TOOL);
    tool.arg(&input).arg("-o").arg(&output).args(FEATURES).args(PASS);
    let done = tool.stdin(Stdio::null()).output().context(TOOL);
    let made = std::fs::read(&output);
    [&input, &output].into_iter().for_each(|file| drop(std::fs::remove_file(file)));
    let done = done?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("{TOOL}: {}", said.lines().next().unwrap_or("it failed and says nothing"));
    }
    made.with_context(|| output.display().to_string())
}
