//! Process trees that take all they can get, and programs beside them.

use super::super::programs::{Running, wrong};
use super::super::{Failure, PATIENCE, Rig};
use super::{KERNELS, KILLED, begin, numbers, processes};
use std::time::{Duration, Instant};

/// One tree takes processes, files and pipes until it gets no more, and then a second one: what the
/// system starts still opens files, makes pipes and starts programs.
pub fn beside_hogs(rig: &mut Rig) -> Result<(), Failure> {
    let mut hogs = vec![];
    for number in 0..2 {
        hogs.push(start_hog(rig, number)?);
        for (at, kernel) in KERNELS.iter().enumerate() {
            for target in [at, 1 - at] {
                let bystander = begin(rig, kernel, &["stand", &target.to_string()]);
                let errors = numbers(bystander.end()?)?;
                if errors != [0, 0, 0] {
                    let beside =
                        format!("errors of files, pipe, program beside {} trees", number + 1);
                    return Err(wrong(&beside, (kernel, target, errors)));
                }
            }
        }
    }
    for (number, (group, hog)) in hogs.into_iter().enumerate() {
        end(rig, group)?;
        let code = hog.end()?.code;
        if code != KILLED {
            return Err(wrong("a hog's end", code));
        }
        rig.ask("main", &format!("fs rmdir full{number}"), PATIENCE)?;
    }
    Ok(())
}

/// Starts a hog and waits until its tree gets nothing more. Returns its group.
fn start_hog(rig: &mut Rig, number: usize) -> Result<(u32, Running), Failure> {
    let before: Vec<u32> = processes(rig)?.iter().map(|process| process.group).collect();
    let hog = begin(rig, KERNELS[number], &["hog", &number.to_string()]);
    let (start, full) = (Instant::now(), format!("full{number}"));
    while !rig.ask("main", "fs ls", PATIENCE)?.contains(&full) {
        if start.elapsed() > PATIENCE {
            return Err(wrong("a hog", rig.ask("main", "ps", PATIENCE)?));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let found = processes(rig)?;
    let group = found.iter().map(|process| process.group).find(|group| !before.contains(group));
    let group = group.ok_or_else(|| wrong("a hog's group", ()))?;
    Ok((group, hog))
}

/// Kills a group until no process is left in it.
fn end(rig: &mut Rig, group: u32) -> Result<(), Failure> {
    let start = Instant::now();
    while processes(rig)?.iter().any(|process| process.group == group) {
        rig.ask("main", &format!("kill -{group} KILL"), PATIENCE)?;
        if start.elapsed() > PATIENCE {
            return Err(wrong("they do not end", rig.ask("main", "ps", PATIENCE)?));
        }
    }
    Ok(())
}
