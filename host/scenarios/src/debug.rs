//! `pen debug` as users call it: on running kernels, and on one that panicked.

use super::programs::wrong;
use super::{Failure, PATIENCE, Rig};
use std::process::Command;
use std::time::Instant;

/// Each running kernel is shown with its functions and continues afterwards. For a kernel that
/// panicked, memory and stack are shown; without its memory, the files and lines of its frames.
pub fn seen(rig: &mut Rig) -> Result<(), Failure> {
    if Command::new("gdb-multiarch").arg("--version").output().is_err() {
        return Err(Failure::LeftOut("gdb-multiarch is not installed"));
    }
    rig.expect("main> ", PATIENCE)?;
    for domain in ["main", "shadow"] {
        let said = gdb(rig, domain, &["info threads", "bt"])?;
        // Idle, most likely; the outermost frame of each core is in the same file.
        demand(&said, &["#0 ", "kernel/image/src/boot.rs"])?;
        rig.ask("main", &format!("on {domain} help"), PATIENCE)?;
    }
    rig.send("panic")?;
    let start = Instant::now();
    while rig.instance.machine("main").is_some() {
        if start.elapsed() > PATIENCE {
            return Err(wrong("main lives on after a panic", ()));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let said = gdb(rig, "main", &["bt", "x/1i $pc"])?;
    demand(&said, &["panic: kernel main", "#0 ", "#1 ", "monitor"])?;
    rig.instance.stop()?;
    let said = gdb(rig, "main", &[])?;
    demand(&said, &["its memory is gone", "panic: kernel main", "Line ", ".rs\""])
}

/// Returns the output of `pen debug DOMAIN` with these commands.
fn gdb(rig: &Rig, domain: &str, commands: &[&str]) -> Result<String, Failure> {
    let mut pen = Command::new(std::env::current_exe()?);
    pen.args(["debug", domain, "--board"]).arg(&rig.instance.folder);
    for command in commands {
        pen.args(["--batch", command]);
    }
    let output = pen.output()?;
    let both = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&both).into_owned();
    if output.status.success() { Ok(said) } else { Err(wrong("pen debug", said)) }
}

fn demand(said: &str, texts: &[&str]) -> Result<(), Failure> {
    match texts.iter().find(|text| !said.contains(**text)) {
        Some(text) => Err(wrong("pen debug does not say", (text, said))),
        None => Ok(()),
    }
}
