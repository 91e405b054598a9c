//! Pipes between kernels: delegated ones, and those that leave for the file service.

use super::machine::{demand, until};
use super::programs::{LOST, Running, back, wrong};
use super::system::{ask, begin, says};
use super::threads::{put, succeeds};
use super::{Failure, PATIENCE, Rig};
use deploy::exec::Line;

/// A program of apps/corpus.toml.
const PROGRAM: &str = "pipes";

/// Fails unless a line of script prints this and leaves no pipe open.
fn leaves_none(rig: &mut Rig, line: &str, wanted: &str) -> Result<(), Failure> {
    says(rig, line, wanted)?;
    let pipes = ask(rig, "cat /proc/main/services /proc/shadow/services | grep pipes:")?;
    // The pipe of this line itself is private.
    let all_closed = pipes.lines().filter(|line| line.ends_with("; 0 ends elsewhere")).count();
    let delegated = pipes.matches(" 0 of them delegated").count();
    if (all_closed, delegated) == (2, 2) { Ok(()) } else { Err(Failure::Wrong(pipes)) }
}

/// A pipe whose ends are on two kernels stays with its home while it carries little.
pub fn delegated(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig)?;
    let seen = "{ echo one; sleep 4; echo two; } | KERNEL=1 cat & sleep 2; \
                cat /proc/main/services | grep -c ' 1 of them delegated'; wait";
    // The first program of a kernel takes its time.
    leaves_none(rig, "echo here | KERNEL=1 cat", "here\n[0]")?;
    let said = ask(rig, seen)?;
    if !said.ends_with("one\n1\ntwo\n[0]") {
        return Err(Failure::Wrong(said));
    }
    leaves_none(rig, "echo here | KERNEL=1 cat | KERNEL=0 cat | KERNEL=1 cat", "here\n[0]")?;
    leaves_none(rig, "{ sleep 1; echo late; } | KERNEL=1 grep -c late", "1\n[0]")?;
    leaves_none(rig, "KERNEL=1 sh -c 'sleep 1; echo late' | grep -c late", "1\n[0]")?;
    // Ends of files, and readers that are gone.
    leaves_none(rig, "true | KERNEL=1 wc -c; KERNEL=1 true | wc -c", "0\n0\n[0]")?;
    leaves_none(rig, "seq 5 | KERNEL=1 head -n 1; KERNEL=1 seq 5 | head -n 1", "1\n1\n[0]")?;
    // More than fits, written in lines and in pieces; and both programs on the other kernel.
    leaves_none(
        rig,
        "seq 3000 | KERNEL=1 tail -n 1; KERNEL=1 seq 3000 | tail -n 1",
        "3000\n3000\n[0]",
    )?;
    leaves_none(rig, "KERNEL=1 seq 7 | KERNEL=1 tail -n 1", "7\n[0]")
}

/// Two programs talk with pauses in which both kernels rest.
pub fn rests(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    for (kernel, other) in [("main", "1"), ("shadow", "0")] {
        succeeds(rig, kernel, PROGRAM, &["talks", other], b"talked\n")?;
    }
    demand(rig, "services", "private pipes: 0, 0 of them delegated; 0 have left").map(|_| ())
}

/// A kernel dies that has an end of a pipe, or the pipe itself. The program on the other kernel
/// finds the end of the data, that there is no reader, or an error, and no end is left.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for (home, guest) in [("main", "1"), ("shadow", "0")] {
        for mode in ["reads", "writes"] {
            put(rig, PROGRAM)?;
            let running = Running::of(&rig.instance, Line::on(home, PROGRAM, &[mode, guest]), b"");
            until(rig, "fs ls", "pipes.held")?;
            let on = if home == "main" { "" } else { "on shadow " };
            demand(rig, &format!("{on}services"), " 1 of them delegated")?;
            rig.kill("shadow")?;
            let found = running.end()?;
            // The death may take the process table, too: then its exit code is not known.
            if ![0, LOST].contains(&found.code) {
                return Err(wrong("a program whose pipe was lost", found));
            }
            back(rig)?;
            until(rig, "services", " 0 of them delegated")?;
            until(rig, "services", "; 0 ends elsewhere")?;
            rig.ask("main", "fs rm pipes.held", PATIENCE)?;
        }
    }
    Ok(())
}
