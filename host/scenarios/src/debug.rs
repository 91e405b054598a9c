//! `pen debug` as users call it: on running kernels, also if others wait for them, and on one that
//! panicked.

use super::machine;
use super::programs::wrong;
use super::{Failure, PATIENCE, Rig};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MAIN: &str = "main> ";

/// Each running kernel is shown with its functions and continues afterwards. For a kernel that
/// panicked, memory and stack are shown; without its memory, the files and lines of its frames.
pub fn seen(rig: &mut Rig) -> Result<(), Failure> {
    left_out_without_gdb()?;
    rig.expect(MAIN, PATIENCE)?;
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

/// While a debugger holds a kernel, another one waits for it, longer than any bound of a hang. The
/// kernel is not judged, and continues.
pub fn held(rig: &mut Rig) -> Result<(), Failure> {
    left_out_without_gdb()?;
    rig.expect(MAIN, PATIENCE)?;
    machine::demand(rig, "on shadow dirty", "")?;
    let [held, free] = ["shadow-held", "shadow-free"].map(|name| rig.instance.path(name));
    let marks = [&held, &free].map(|path| format!("shell touch {}", path.display()));
    let debugger = debugger(rig, "shadow", &[&marks[0], "shell sleep 3", &marks[1]])?.spawn()?;
    let start = Instant::now();
    while !held.exists() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    rig.send("dirty")?;
    let waited = rig.expect(MAIN, Duration::from_secs(2)).is_err() && !free.exists();
    let output = debugger.wait_with_output()?;
    if !waited || !output.status.success() {
        return Err(wrong("main did not wait while shadow was held", output));
    }
    rig.expect(MAIN, PATIENCE)?;
    machine::demand(rig, "peers", "running   1      0").map(drop)
}

/// Returns the output of `pen debug DOMAIN` with these commands.
fn gdb(rig: &Rig, domain: &str, commands: &[&str]) -> Result<String, Failure> {
    let output = debugger(rig, domain, commands)?.output()?;
    let both = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&both).into_owned();
    if output.status.success() { Ok(said) } else { Err(wrong("pen debug", said)) }
}

/// Returns `pen debug DOMAIN` with these commands.
fn debugger(rig: &Rig, domain: &str, commands: &[&str]) -> Result<Command, Failure> {
    let mut pen = Command::new(std::env::current_exe()?);
    pen.args(["debug", domain, "--board"]).arg(&rig.instance.folder);
    for command in commands {
        pen.args(["--batch", command]);
    }
    pen.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(pen)
}

fn left_out_without_gdb() -> Result<(), Failure> {
    match Command::new("gdb-multiarch").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::LeftOut("gdb-multiarch is not installed")),
    }
}

fn demand(said: &str, texts: &[&str]) -> Result<(), Failure> {
    match texts.iter().find(|text| !said.contains(**text)) {
        Some(text) => Err(wrong("pen debug does not say", (text, said))),
        None => Ok(()),
    }
}
