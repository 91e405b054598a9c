//! `pen exec` without a running board: it starts one for the program (with the system for a name,
//! with an empty disk for a file) and takes it down again.

use super::programs::wrong;
use super::{Failure, PATIENCE, Rig};
use builds::apps;
use builds::kernels::Profile;
use deploy::system;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tree::place::Place;
use workbench::instance::BORROWED;
use workbench::prepare;

/// A board that has no run folder.
const BOARD: &str = "alone";
/// More than the file system in memory can hold.
const LARGE: usize = 9 << 20;

/// An unknown name, an applet of the system, and a file that writes more than fits into memory.
pub fn started(rig: &mut Rig) -> Result<(), Failure> {
    rig.instance.stop()?;
    let file = rig.instance.path(&format!("{BOARD}.toml"));
    let text = std::fs::read_to_string(rig.instance.path("board.toml"))?;
    std::fs::write(&file, text.replacen("name = \"duo\"", &format!("name = \"{BOARD}\""), 1))?;
    let place = Place::find()?;
    built(&place, rig, &file).map_err(|why| Failure::Wrong(format!("{why:#}")))?;
    let unknown = pen(&file, &["no-such-program"], b"")?;
    if unknown.status.code() != Some(125) || !says(&unknown.stderr, "no program no-such-program") {
        return Err(wrong("an unknown name", unknown));
    }
    let listed = pen(&file, &["--on", "shadow", "ls", "/home", "/no-such-folder"], b"")?;
    let is_told = says(&listed.stdout, "readme") && says(&listed.stderr, "no-such-folder");
    if listed.status.code() != Some(2) || !is_told {
        return Err(wrong("an applet of the system", listed));
    }
    let tool = place.root.join("tests/programs/tool.wat");
    let large = vec![b'x'; LARGE];
    let kept = pen(&file, &[&tool.display().to_string(), "put", "large"], &large)?;
    if kept.status.success() { Ok(()) } else { Err(wrong("a file larger than memory", kept)) }
}

/// Builds what takes minutes the first time.
fn built(place: &Place, rig: &Rig, board: &Path) -> anyhow::Result<()> {
    let board = prepare::board_and_kernels(place, &board.display().to_string(), Profile::Kernel)?.0;
    let programs = apps::build(place, &[])?;
    system::prepare(place, &rig.instance, &board, &programs, &rig.instance.program_key()?)
}

fn says(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

/// Runs `pen exec --board FILE ARGUMENTS`, with little output.
fn pen(board: &Path, arguments: &[&str], input: &[u8]) -> Result<Output, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["exec", "--board"]).arg(board).args(arguments);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, start) = (piped.spawn()?, Instant::now());
    if let Some(mut to) = child.stdin.take() {
        let input = input.to_vec();
        // A program that does not read its input has printed the reason.
        std::thread::spawn(move || to.write_all(&input));
    }
    while child.try_wait()?.is_none() {
        if start.elapsed() > PATIENCE {
            child.kill()?;
            return Err(wrong("pen exec does not end", arguments));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let lent = Place::find()?.run(&format!("{BORROWED}{}", child.id()));
    match lent.exists() {
        true => Err(wrong("a folder stays", lent)),
        false => Ok(child.wait_with_output()?),
    }
}
