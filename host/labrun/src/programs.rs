//! A board in the lab that runs programs: with an empty ext2 on its disk, which has no latency.

use super::disk::{self, ROOT};
use super::kit::Kit;
use anyhow::bail;
use builds::apps;
use deploy::exec::{Captured, Line, captured};
use deploy::install;
use lab::model::Mode;
use workbench::instance::Instance;
use workbench::machine::Options;
use workbench::model::Choice;
use workbench::prepare;
use workbench::rig::{PATIENCE, Parts, Rig};

/// The program that `records` starts.
pub const TINY: (&str, &str) = ("tiny", "apps/bench/tiny.wat");
/// A folder on it: it is the root.
pub const FOLDER: &str = "/.";

/// Starts `board` with `arguments` on the kernels' command line. Installs a program on its disk.
pub fn start(
    kit: &Kit<'_>,
    (board, mode): (&str, Mode),
    arguments: &str,
    program: &str,
) -> anyhow::Result<Rig> {
    let built = apps::build_for_test(kit.place, program)?;
    disk::make(&kit.folder)?;
    let options = Options {
        lab: Some((Choice { mode, ..Choice::default() }, prepare::plugin()?)),
        arguments: Some(format!("{ROOT}{arguments}")),
        ..Options::default()
    };
    let mut rig = Rig::start(&Parts {
        folder: kit.folder.clone(),
        soc: prepare::soc_binary()?,
        board_file: kit.place.board_file(board),
        kernels: kit.kernels.to_vec(),
        options,
    })?;
    rig.expect("main> ", PATIENCE)?;
    install::put(kit.place, &rig.instance, &built.wasm, None, program)?;
    Ok(rig)
}

/// Runs the program on a kernel, and returns its output.
pub fn run(
    instance: &Instance,
    kernel: &str,
    program: &str,
    words: &[&str],
) -> anyhow::Result<String> {
    let Captured { code, out, err } = captured(instance, &Line::on(kernel, program, words), None)?;
    if code != 0 {
        bail!("{program} {}: {code}: {}", words.join(" "), String::from_utf8_lossy(&err));
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}
