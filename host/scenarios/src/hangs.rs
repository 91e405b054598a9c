//! Kernels that hang while others wait for them: their steps are abandoned, or they are reset.

use super::machine::demand;
use super::peers::wait_for;
use super::services::logged;
use super::{Failure, PATIENCE, Rig, lives};
use abi::soc::state;

const MAIN: &str = "main> ";

/// Ways to hang that end with the step, and those that end with the kernel: with what the other
/// kernel then waits for, and which of the two has written a page before.
const MILD: [&str; 2] = ["step", "wait"];
const HARD: [Way; 4] = [
    Way { name: "masked", waits: "twins clear", dirties: None },
    Way { name: "request", waits: "twins clear", dirties: None },
    Way { name: "fault", waits: "twins clear", dirties: Some(Dirties::Other) },
    Way { name: "driver", waits: "dirty", dirties: Some(Dirties::Victim) },
];

struct Way {
    name: &'static str,
    /// A command of the kernel that waits.
    waits: &'static str,
    dirties: Option<Dirties>,
}

impl Way {
    /// Returns what that kernel does first, for `aside`.
    fn first(&self, kernel: Dirties) -> &'static str {
        if self.dirties == Some(kernel) { "dirty then dirty then " } else { "" }
    }
}

/// A kernel that writes all of a page before the hang.
#[derive(Clone, Copy, PartialEq)]
enum Dirties {
    Victim,
    Other,
}

/// Returns how often the weak kernel has begun to hang in a way.
fn hangs(rig: &Rig, way: &str) -> usize {
    rig.early_log("shadow").matches(&format!("hangs: {way}")).count()
}

/// Waits until it has done so this many times.
fn until_hangs(rig: &Rig, way: &str, times: usize) -> Result<(), Failure> {
    logged(rig, "shadow", &format!("hangs: {way}"), times)
}

/// Makes the weak kernel hang. Returns once it does.
fn hang(rig: &mut Rig, way: &str) -> Result<(), Failure> {
    let before = hangs(rig, way);
    demand(rig, &format!("on shadow aside hang {way}"), "begun")?;
    until_hangs(rig, way, before + 1)
}

/// The weak kernel hangs in a step that can be interrupted: the step is abandoned, and the kernel
/// lives.
fn abandoned(rig: &mut Rig, steps: &mut u32) -> Result<(), Failure> {
    for way in MILD {
        hang(rig, way)?;
        *steps += 1;
        // Ends only if the other kernel releases the service's lock.
        demand(rig, "twins clear", "")?;
        demand(rig, "on shadow hang", &format!("{steps} steps were abandoned"))?;
    }
    Ok(())
}

/// The weak kernel hangs with interrupts masked: in a step, in a request to the soc, in a fault and
/// in the driver of the shared pages. It is reset, and the strong one continues.
fn reset(rig: &mut Rig) -> Result<(), Failure> {
    for Way { name, waits, dirties } in &HARD {
        let before = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
        let on = if *dirties == Some(Dirties::Other) { "" } else { "on shadow " };
        // The first time, the page may still be lost with the kernel that was reset before.
        rig.ask("main", &format!("{on}dirty"), PATIENCE)?;
        rig.ask("main", &format!("{on}dirty"), PATIENCE)?;
        hang(rig, name)?;
        rig.ask("main", waits, PATIENCE)?;
        is_reset(rig, before)?;
        rig.ask("main", waits, PATIENCE)?;
        demand(rig, "ping shadow 2", "answer from 1")?;
    }
    Ok(())
}

/// Waits until the weak kernel, which was in epoch `before`, runs again.
fn is_reset(rig: &mut Rig, before: u64) -> Result<(), Failure> {
    wait_for(rig, "was reset", |epoch, now| epoch == before + 1 && now == state::RUNNING).map(drop)
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
        rig.counted.add((MILD.len() + HARD.len()) as u64, "hangs");
    }
    Ok(())
}

/// The weak kernel hangs in each way while both work, `rounds` times. Nothing that was answered is
/// wrong, and both work afterwards.
pub fn loaded(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect(MAIN, PATIENCE)?;
    // `survive` makes files named after its seed and the next one.
    let mut seeds = (0..).step_by(2);
    let mut survive = |rig: &mut Rig| {
        demand(rig, &format!("survive {} {LOAD}", seeds.next().unwrap_or(0)), "survived").map(drop)
    };
    for round in 0..rounds {
        let mut steps = 0;
        let ms = 40 + round * 97 % 300;
        for way in MILD {
            let hung = hangs(rig, way);
            demand(rig, &format!("on shadow aside nap {ms} then hang {way}"), "begun")?;
            demand(rig, &waiting(ms, "", "twins clear"), "begun")?;
            survive(rig)?;
            // The hang may come after the work, or after what should wait for it.
            until_hangs(rig, way, hung + 1)?;
            demand(rig, "twins clear", "")?;
            steps += 1;
            demand(rig, "on shadow hang", &format!("{steps} steps were abandoned"))?;
        }
        for way in &HARD {
            let before = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
            let hung = hangs(rig, way.name);
            let (theirs, ours) = (way.first(Dirties::Victim), way.first(Dirties::Other));
            let victim = format!("on shadow aside nap {ms} then {theirs}hang {}", way.name);
            demand(rig, &victim, "begun")?;
            demand(rig, &waiting(ms, ours, way.waits), "begun")?;
            survive(rig)?;
            until_hangs(rig, way.name, hung + 1)?;
            rig.ask("main", way.waits, PATIENCE)?;
            is_reset(rig, before)?;
        }
        demand(rig, "audit", "")?;
        rig.counted.add((MILD.len() + HARD.len()) as u64, "hangs");
    }
    Ok(())
}

/// Returns a command that runs `first`, and waits for a kernel that hangs in about `ms`: then, or
/// later, as that kernel may be slow.
fn waiting(ms: u64, first: &str, waits: &str) -> String {
    format!("aside {first}nap {ms} then {waits} then nap 1000 then {waits}")
}

/// Rounds of `survive`, so that it takes longer than until most hangs.
const LOAD: u64 = 60;

/// The strong kernel hangs in each way while both work. It is reset, or its step is abandoned; the
/// weak one continues.
pub fn main_loaded(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect(MAIN, PATIENCE)?;
    let mut steps = 0;
    for round in 0..rounds {
        for way in MILD {
            load(rig, round, "twins clear")?;
            rig.send(&format!("hang {way}"))?;
            rig.expect("the step was abandoned", PATIENCE)?;
            rig.expect(MAIN, PATIENCE)?;
            steps += 1;
            demand(rig, "hang", &format!("{steps} steps were abandoned"))?;
        }
        for way in &HARD {
            let before = lives::runs(rig)?;
            load(rig, round, way.waits)?;
            if let Some(kernel) = way.dirties {
                let on = if kernel == Dirties::Other { "on shadow " } else { "" };
                for _ in 0..2 {
                    rig.ask("main", &format!("{on}dirty"), PATIENCE)?;
                }
            }
            rig.send(&format!("hang {}", way.name))?;
            rig.expect("main hangs: others wait for", PATIENCE)?;
            lives::back(rig, before)?;
            steps = 0;
            demand(rig, "ping shadow 2", "answer from 1")?;
        }
        lives::works(rig, round)?;
        rig.counted.add((MILD.len() + HARD.len()) as u64, "hangs");
    }
    Ok(())
}

/// Both kernels work, and the weak one will soon wait for the strong one.
fn load(rig: &mut Rig, round: u64, waits: &str) -> Result<(), Failure> {
    for (on, seed) in [("", 100), ("on shadow ", 200)] {
        demand(rig, &format!("{on}aside exercise {} 1500", seed + round), "begun")?;
    }
    demand(rig, &format!("on shadow {}", waiting(700, "", waits)), "begun").map(drop)
}

/// A step hangs, and only its own kernel waits: for its core, or for its turn. It is abandoned.
pub fn own(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(MAIN, PATIENCE)?;
    for (kernel, on) in [("main", ""), ("shadow", "on shadow ")] {
        demand(rig, &format!("{on}aside nap 300 then twins clear"), "begun")?;
        demand(rig, &format!("{on}aside hang step"), "begun")?;
        logged(rig, kernel, "a step never ended; its service starts again", 1)?;
        demand(rig, &format!("{on}hang"), "1 steps were abandoned")?;
        demand(rig, &format!("{on}twins clear"), "")?;
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

/// A kernel that its host does not run executes nothing and is not judged, however long others
/// wait.
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
