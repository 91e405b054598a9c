//! Tests that end prematurely leave no process, however they end; until the processes are gone,
//! `pen ps` and `pen doctor` find their boards.

use super::programs::wrong;
use super::{Failure, PATIENCE, Rig};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tree::place::Place;
use workbench::instance::Instance;
use workbench::processes;

/// The test that is interrupted: its board has two domains.
const VICTIM: &str = "boot.duo-1x1";
/// Folder of its boards, in `target/tests`: sockets need short paths.
const FOLDER: &str = "v";
/// Longer than a soc waits before it forces its board to end.
const SOON: Duration = Duration::from_secs(30);

/// Interrupts by each signal, and by a panic.
pub fn nothing(rig: &mut Rig) -> Result<(), Failure> {
    rig.instance.stop()?;
    for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
        ended_by(signal)?;
    }
    let parts = rig.parts().clone();
    let outcome = catch_unwind(AssertUnwindSafe(|| match Rig::start(&parts) {
        // Like a panic, but without its message.
        Ok(_board) => resume_unwind(Box::new("meant")),
        Err(why) => why,
    }));
    if let Ok(why) = outcome {
        return Err(why);
    }
    is_empty(&rig.instance, "a panic")
}

fn ended_by(signal: Signal) -> Result<(), Failure> {
    let place = Place::find()?;
    let folder = place.target.join("tests").join(FOLDER);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["test", VICTIM, "--folder"]).arg(&folder).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut pen = command.spawn()?;
    let board = Instance::at(folder.join(VICTIM));
    let begun = until_up(&board, &mut pen);
    let found = processes::strays(&place);
    let number = Pid::from_child(&pen);
    // It may have finished before.
    let _ = kill_process(number, signal);
    pen.wait()?;
    begun?;
    is_empty(&board, &format!("{signal:?}"))?;
    let is_it = |it: &processes::Stray| it.folder.ends_with(VICTIM) && it.keeper == Some(number);
    match found.iter().any(|it| is_it(it) && it.emulators == 2) {
        true => Ok(std::fs::remove_dir_all(&folder)?),
        false => Err(wrong("not found", found.iter().map(|it| it.text()).collect::<Vec<_>>())),
    }
}

/// Waits until both emulators run.
fn until_up(board: &Instance, pen: &mut Child) -> Result<(), Failure> {
    let start = Instant::now();
    while board.machines().len() < 2 {
        if pen.try_wait()?.is_some() || start.elapsed() > PATIENCE {
            return Err(wrong("no board comes up in", board.folder.clone()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Waits until no process works in its folder.
fn is_empty(board: &Instance, what: &str) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let left = processes::within(&board.folder);
        if left.is_empty() {
            return Ok(());
        }
        if start.elapsed() > SOON {
            board.stop()?;
            return Err(wrong("left after", (what, left)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
