//! Kernels that hang while others wait for them: their steps are abandoned, or they are reset.

use super::machine::demand;
use super::peers::wait_for;
use super::services::logged;
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;

const MAIN: &str = "main> ";

/// Makes the weak kernel hang. Returns once it does.
fn hang(rig: &mut Rig, way: &str) -> Result<(), Failure> {
    let text = format!("hangs: {way}");
    let before = rig.early_log("shadow").matches(&text).count();
    demand(rig, &format!("on shadow aside hang {way}"), "begun")?;
    logged(rig, "shadow", &text, before + 1)
}

/// The weak kernel hangs in a step that can be interrupted: the step is abandoned, and the kernel
/// lives.
fn abandoned(rig: &mut Rig, steps: &mut u32) -> Result<(), Failure> {
    for way in ["step", "wait"] {
        hang(rig, way)?;
        *steps += 1;
        // Ends only if the other kernel releases the service's lock.
        demand(rig, "twins clear", "")?;
        demand(rig, "on shadow hang", &format!("{steps} steps were abandoned"))?;
    }
    Ok(())
}

/// The weak kernel hangs with interrupts masked, in a step and in the driver of the shared pages.
/// It is reset, and the strong one continues.
fn reset(rig: &mut Rig) -> Result<(), Failure> {
    for (way, waits) in [("masked", "twins clear"), ("driver", "dirty")] {
        let before = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
        // The first time, the page may still be lost with the kernel that was reset before.
        rig.ask("main", "on shadow dirty", PATIENCE)?;
        rig.ask("main", "on shadow dirty", PATIENCE)?;
        hang(rig, way)?;
        rig.ask("main", waits, PATIENCE)?;
        let restarted = |epoch, now| epoch == before + 1 && now == state::RUNNING;
        wait_for(rig, "was reset", restarted)?;
        rig.ask("main", waits, PATIENCE)?;
        demand(rig, "ping shadow 2", "answer from 1")?;
    }
    Ok(())
}

/// The weak kernel hangs in each way, `rounds` times.
pub fn weak(rig: &mut Rig, rounds: u32) -> Result<(), Failure> {
    rig.expect(MAIN, PATIENCE)?;
    for _ in 0..rounds {
        let mut steps = 0;
        abandoned(rig, &mut steps)?;
        reset(rig)?;
        demand(rig, "exercise 3 300", "digest")?;
        demand(rig, "audit", "")?;
    }
    Ok(())
}

/// The strong kernel hangs. This board cannot continue without it, so it starts again.
pub fn strong(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(MAIN, PATIENCE)?;
    demand(rig, "on shadow aside nap 1000 then twins clear", "begun")?;
    rig.send("hang masked")?;
    rig.expect("main hangs: others wait for", PATIENCE)?;
    rig.rejoin()?;
    rig.expect(MAIN, PATIENCE)?;
    demand(rig, "peers", "running   1      0")?;
    demand(rig, "exercise 3 300", "digest").map(|_| ())
}

/// A kernel that its host does not run, or that a debugger holds, executes nothing and is not
/// judged, however long others wait.
pub fn held(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(MAIN, PATIENCE)?;
    demand(rig, "on shadow dirty", "")?;
    rig.hang("shadow", true)?;
    rig.send("dirty")?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    rig.hang("shadow", false)?;
    rig.expect(MAIN, PATIENCE)?;
    demand(rig, "peers", "running   1      0").map(|_| ())
}
