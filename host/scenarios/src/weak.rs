//! The weak kernel dies while its programs write to the disk, and works while the strong one is
//! off.

use super::disk::{begin, clean, content, poweroff, same};
use super::host::{pattern, pull};
use super::lives::install_lives;
use super::machine::demand;
use super::peers::wait_for;
use super::programs::{LOST, Running, back, install, main_knows, pid_of, pid_on, says, wrong};
use super::services::{came_back, logged};
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use std::time::{Duration, Instant};

/// How long the strong kernel is off if nothing wakes it.
const NAP: Duration = Duration::from_secs(10);

/// Programs on the weak kernel write and sync files; the kernel is killed. They are reported lost,
/// one on the strong kernel continues, synced files are there, and the weak kernel runs programs
/// that write again, without a restart of the board.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig, 1024)?;
    install(rig)?;
    let mut epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    let mut kept = Vec::new();
    for round in 0..3u64 {
        for file in 0..3 {
            let (name, bytes) = (format!("kept-{round}-{file}"), pattern(round * 3 + file, 20_000));
            says(rig, "shadow", &["keep", &format!("disk/{name}")], &bytes, b"")?;
            kept.push((name, bytes));
        }
        let here = Running::begin(&rig.instance, "main", &["zzz"], b"");
        let alive = pid_on(rig, "main")?;
        let writes = Running::begin(&rig.instance, "shadow", &["log", "disk/log"], b"");
        let dead = pid_on(rig, "shadow")?;
        main_knows(rig)?;
        std::thread::sleep(Duration::from_millis(200 + round * 97));
        rig.kill("shadow")?;
        let found = writes.end()?;
        if found.code != LOST {
            return Err(wrong("a program of a kernel that died", found));
        }
        epoch = wait_for(rig, "came back", |now, state| now > epoch && state == state::RUNNING)?;
        back(rig)?;
        check(rig, &alive, &dead)?;
        for (name, bytes) in &kept {
            let found = pull(&rig.instance, &format!("disk/{name}")).map_err(Failure::Wrong)?;
            same(name, &found, bytes)?;
        }
        rig.ask("main", &format!("kill {alive}"), PATIENCE)?;
        let found = here.end()?;
        if found.code != 128 + 15 {
            return Err(wrong("a program of the kernel that lives", found));
        }
        // The death may have emptied the file system in memory, and removed the program.
        install(rig)?;
        says(rig, "shadow", &["args", "back"], b"", b"back\n")?;
        // In that case the disk's journal was replayed, and it can be written.
        let (name, bytes) = (format!("more-{round}"), pattern(90 + round, 5000));
        says(rig, "shadow", &["keep", &format!("disk/{name}")], &bytes, b"")?;
        kept.push((name, bytes));
    }
    poweroff(rig)?;
    clean(&rig.instance)?;
    kept.iter().try_for_each(|(name, bytes)| same(name, &content(&rig.instance, name)?, bytes))
}

/// The process table is up to date and the disk is mounted; both may take a moment after a restart.
fn check(rig: &mut Rig, alive: &str, dead: &str) -> Result<(), Failure> {
    let has = |said: &str, first: &str| {
        said.lines().any(|line| line.split_whitespace().next() == Some(first))
    };
    for (line, is, is_not) in
        [("ps", alive, dead), ("on shadow ps", alive, dead), ("fs df", "/disk", "/none")]
    {
        let start = Instant::now();
        loop {
            let said = rig.ask("main", line, PATIENCE)?;
            if has(&said, is) && !has(&said, is_not) {
                break;
            }
            if start.elapsed() > PATIENCE {
                return Err(wrong(line, said));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// The strong kernel is off. The weak one drives the disk, syncs a file and does not wake it.
pub fn alone(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig, 1024)?;
    wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    for round in 1..=3 {
        let sync = format!("fs write disk/note-{round} here then fs sync disk/note-{round}");
        rig.ask("main", &format!("on shadow aside nap 3000 then {sync}"), PATIENCE)?;
        let nap = NAP.as_millis();
        // Its answer may come after the nap.
        rig.send(&format!("on shadow aside domain off main {nap}"))?;
        let start = Instant::now();
        logged(rig, "shadow", &format!("fs sync disk/note-{round}:"), 1)?;
        let board = rig.instance.board()?;
        if rig.instance.states(&board)[0].1 != state::OFF {
            return Err(wrong("the sync woke the strong kernel", start.elapsed()));
        }
        came_back(rig, round)?;
        rig.expect("main> ", PATIENCE)?;
    }
    poweroff(rig)?;
    clean(&rig.instance)?;
    (1..=3).try_for_each(|round| {
        let name = format!("note-{round}");
        same(&name, &content(&rig.instance, &name)?, b"here\n")
    })
}

/// As [`NAP`], where the weak kernel is to wake the strong one.
const LONG_NAP: Duration = Duration::from_secs(40);

/// The strong kernel is off, and its program waits for a child on the weak one. When the child
/// ends, the weak kernel wakes the strong one; nothing else would, for a long time.
pub fn wakes(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    install_lives(rig)?;
    for round in 1..=3 {
        demand(rig, "aside program lives waits 1", "begun")?;
        let child = pid_of(rig, "shadow", "lives")?;
        demand(rig, &format!("on shadow aside nap 3000 then kill {child}"), "begun")?;
        let begun = Instant::now();
        rig.send(&format!("on shadow aside domain off main {}", LONG_NAP.as_millis()))?;
        came_back(rig, round)?;
        if begun.elapsed() > LONG_NAP / 2 {
            return Err(wrong("the end of the child did not wake its parent", begun.elapsed()));
        }
        rig.expect("main> ", PATIENCE)?;
        // It was killed, so its end is not that of a kernel that died.
        let said = rig.said_aside("main", "program lives waits 1", "\n", round)?;
        if said.trim() != "exited with code 5" {
            return Err(wrong("the end of the parent", said));
        }
    }
    Ok(())
}
