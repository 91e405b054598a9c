//! Boards whose strong kernel dies and starts again, as the weak one does.

use super::disk::{
    IMAGE, begin as with_disk, begin_as_root as with_root, clean, content, done, mounted,
    off_and_clean, poweroff, same,
};
use super::machine::{demand, until};
use super::peers::wait_for_domain;
use super::programs::{LOST, Running, install, says, wrong};
use super::services::{OPERATIONS, exercised, logged};
use super::{Failure, PATIENCE, Rig, system};
use abi::soc::state;
use builds::apps;
use deploy::install as deployed;
use std::path::Path;
use std::time::Duration;
use tree::place::Place;

const MAIN: usize = 0;
const PROMPT: &str = "main> ";
/// The test program (`tests/programs/lives`).
const PROGRAM: &str = "lives";
/// How to run a command on each kernel.
const BOTH: [&str; 2] = ["", "on shadow "];

/// Kills the strong kernel.
fn kill(rig: &mut Rig) -> Result<(), Failure> {
    let before = runs(rig)?;
    rig.kill("main")?;
    back(rig, before)
}

/// Waits until the strong kernel runs. Returns its epoch.
pub fn runs(rig: &Rig) -> Result<u64, Failure> {
    wait_for_domain(rig, MAIN, "ran", |_, now| now == state::RUNNING)
}

/// Waits until the strong kernel, which was in epoch `before`, has come back with its prompt.
pub fn back(rig: &mut Rig, before: u64) -> Result<(), Failure> {
    let is_next = |epoch, now| epoch == before + 1 && now == state::RUNNING;
    wait_for_domain(rig, MAIN, "came back", is_next)?;
    rig.expect("Penumbra on ", PATIENCE)?;
    rig.expect(PROMPT, PATIENCE)?;
    Ok(())
}

/// Everything that both kernels share works from both.
pub fn works(rig: &mut Rig, seed: u64) -> Result<(), Failure> {
    demand(rig, "peers", "running   ")?;
    demand(rig, "rpc 50 1", " 0 lost with their peer, 0 refused, 0 wrong")?;
    demand(rig, "on shadow rpc 50 2", " 0 lost with their peer, 0 refused, 0 wrong")?;
    for on in BOTH {
        demand(rig, &format!("{on}fs write note-{seed} by {on}"), "")?;
        exercised(rig, on, seed)?;
        demand(rig, &format!("{on}pipe 50000"), "50000 of 50000 bytes came as they were sent")?;
        demand(rig, &format!("{on}net check 4"), "all as sent")?;
        demand(rig, &format!("{on}dma 4096"), " 0 errors, 0 wrong, ")?;
    }
    whole(rig)
}

/// No kernel maps a page against the protocol.
fn whole(rig: &mut Rig) -> Result<(), Failure> {
    BOTH.iter()
        .try_for_each(|on| demand(rig, &format!("{on}audit"), "the invariant holds").map(|_| ()))
}

/// An idle strong kernel is killed: it comes back under a new epoch, with its prompt, and
/// everything works again on both kernels.
pub fn idle(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(PROMPT, PATIENCE)?;
    for life in 2..=4 {
        kill(rig)?;
        logged(rig, "main", &format!("kernel of domain 0, epoch {life}"), 1)?;
        until(rig, "fs ls dev", "null")?;
        until(rig, "on shadow fs cat proc/main/version", "aarch64")?;
        works(rig, life)?;
        install(rig)?;
        for kernel in ["main", "shadow"] {
            says(rig, kernel, &["args", "back"], b"", b"back\n")?;
        }
    }
    balloons(rig)?;
    let log = rig.early_log("main");
    match log.contains("not marked coherent") {
        true => Err(Failure::Wrong(log)),
        false => Ok(()),
    }
}

/// Blocks of the dead kernel return to the pool, and both kernels take and release blocks.
fn balloons(rig: &mut Rig) -> Result<(), Failure> {
    for on in BOTH {
        demand(rig, &format!("{on}balloon deflate"), "")?;
    }
    kill(rig)?;
    for on in BOTH {
        demand(rig, &format!("{on}balloon fill 5000"), "")?;
        demand(rig, &format!("{on}balloon check"), "")?;
        demand(rig, &format!("{on}balloon drop 5000"), "")?;
    }
    whole(rig)
}

/// Both kernels are killed at once.
pub fn all(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(PROMPT, PATIENCE)?;
    for round in 0..3 {
        let before = runs(rig)?;
        let weak = wait_for_domain(rig, 1, "ran", |_, now| now == state::RUNNING)?;
        rig.kill("main")?;
        rig.kill("shadow")?;
        back(rig, before)?;
        wait_for_domain(rig, 1, "came back", |epoch, now| {
            epoch == weak + 1 && now == state::RUNNING
        })?;
        works(rig, round)?;
    }
    Ok(())
}

/// Installs the test program.
pub(super) fn install_lives(rig: &Rig) -> Result<(), Failure> {
    install_with(rig, None)
}

fn install_with(rig: &Rig, manifest: Option<&Path>) -> Result<(), Failure> {
    let place = Place::find()?;
    let put = apps::build_for_test(&place, PROGRAM)
        .and_then(|built| deployed::put(&place, &rig.instance, &built.wasm, manifest, PROGRAM));
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

/// Begins the test program on the weak kernel, which reports its end in its log.
pub(super) fn begin(rig: &mut Rig, arguments: &str) -> Result<(), Failure> {
    demand(rig, &format!("on shadow aside program {PROGRAM} {arguments}"), "begun").map(|_| ())
}

/// Waits until the program that was begun so for the `count`th time has ended well.
pub(super) fn ended_well(rig: &Rig, arguments: &str, count: usize) -> Result<(), Failure> {
    let said = rig.said_aside("shadow", &format!("program {PROGRAM} {arguments}"), "\n", count)?;
    match said.trim() {
        "exited with code 0" => Ok(()),
        said => Err(wrong(&format!("`{PROGRAM} {arguments}`, time {count}"), said)),
    }
}

/// Programs on the weak kernel continue while the strong one dies: one computes and uses files, and
/// one waits for a child on the strong kernel, whose end is reported as lost.
pub fn programs(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(PROMPT, PATIENCE)?;
    let (works, waits) = ("works 600", "waits 0");
    for round in 1..=3 {
        install_lives(rig)?;
        // From the round before.
        rig.ask("main", "fs rm works", PATIENCE)?;
        begin(rig, waits)?;
        until(rig, "ps", "main     running")?;
        begin(rig, works)?;
        until(rig, "on shadow fs cat works", "round ")?;
        let ended = rig.early_log("shadow").matches(&format!("{works}: exited")).count();
        if ended != round - 1 {
            return Err(wrong("a program ended before the kill", ended));
        }
        kill(rig)?;
        ended_well(rig, works, round)?;
        ended_well(rig, waits, round)?;
        until(rig, "ps", "name")?;
        let left = rig.ask("main", "ps", PATIENCE)?;
        if left.contains(PROGRAM) {
            return Err(wrong("a process is left in the table", left));
        }
    }
    works_again(rig)
}

/// The same with files on a disk that is the root, below `/` and below a directory of the program's
/// manifest: they are there, and the program uses them.
pub fn programs_with_disk(rig: &mut Rig) -> Result<(), Failure> {
    with_root(rig, 1024, None)?;
    done(rig, "fs mkdir kept")?;
    let manifest = rig.instance.path("lives.toml");
    std::fs::write(&manifest, "preopens = [\"/kept:rw\"]\n")?;
    for (manifest, file) in [(None, "lasts"), (Some(&*manifest), "kept/lasts")] {
        install_with(rig, manifest)?;
        done(rig, "fs sync")?;
        let command = format!("lasts 150 /{file}");
        begin(rig, &command)?;
        until(rig, &format!("on shadow fs cat {file}.1"), "round ")?;
        kill(rig)?;
        ended_well(rig, &command, 1)?;
        demand(rig, &format!("on shadow fs cat {file}.1"), "round 149: ")?;
    }
    off_and_clean(rig)
}

fn works_again(rig: &mut Rig) -> Result<(), Failure> {
    install(rig)?;
    says(rig, "main", &["args", "one"], b"", b"one\n")?;
    says(rig, "shadow", &["args", "two"], b"", b"two\n")?;
    works(rig, 9)
}

/// Under load from both kernels the strong one is killed at any moment, `times` times.
pub fn loaded(rig: &mut Rig, times: u64) -> Result<(), Failure> {
    rig.expect(PROMPT, PATIENCE)?;
    (0..times).try_for_each(|round| load(rig, round))
}

/// Kills per nightly run.
const OFTEN: u64 = 200;

/// The same, up to the next multiple of [`OFTEN`]. The number of kills so far is in a file, so that
/// an interrupted run continues, and the next one makes others; a kill that fails is repeated.
pub fn loaded_often(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(PROMPT, PATIENCE)?;
    let file = Place::find()?.target.join("lives");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let before = known.trim().parse::<u64>().unwrap_or(0);
    let goal = (before / OFTEN + 1) * OFTEN;
    for number in before..goal {
        load(rig, number)?;
        std::fs::write(&file, format!("{}\n", number + 1))?;
    }
    println!("{goal} kills in all, {} in this run", goal - before);
    Ok(())
}

/// One round: load, a kill, and the right results afterwards.
fn load(rig: &mut Rig, round: u64) -> Result<(), Failure> {
    let failed = |why: Failure| Failure::Wrong(format!("round {round}: {why}"));
    demand(rig, &format!("on shadow aside exercise {} {OPERATIONS}", 2000 + round), "begun")?;
    demand(rig, &format!("aside exercise {} {OPERATIONS}", 1000 + round), "begun")?;
    if round % 2 == 1 {
        demand(rig, "on shadow aside net check 20", "begun")?;
    }
    std::thread::sleep(Duration::from_millis(5 + round * 37 % 250));
    kill(rig).map_err(failed)?;
    // It ends, perhaps because the service has restarted.
    let exercise = format!("exercise {} {OPERATIONS}", 2000 + round);
    rig.said_aside("shadow", &exercise, "\n", 1).map_err(failed)?;
    for on in BOTH {
        exercised(rig, on, round).map_err(failed)?;
    }
    demand(rig, "rpc 20", " 0 lost with their peer, 0 refused, 0 wrong").map_err(failed)?;
    whole(rig).map_err(failed)?;
    rig.counted.add(1, "kills");
    Ok(())
}

/// Three kernels under load; the strong one dies, alone, with one of the others, or with both.
pub fn three(rig: &mut Rig, rounds: usize) -> Result<(), Failure> {
    const KERNELS: [&str; 3] = ["main", "shadow", "umbra"];
    const ON: [&str; 3] = ["", "on shadow ", "on umbra "];
    rig.expect(PROMPT, PATIENCE)?;
    for round in 0..rounds {
        let runs = |domain| wait_for_domain(rig, domain, "ran", |_, now| now == state::RUNNING);
        let before = (0..3).map(runs).collect::<Result<Vec<_>, _>>()?;
        for (on, kernel) in ON.iter().zip(0..) {
            let seed = 3000 + 3 * round + kernel;
            demand(rig, &format!("{on}aside exercise {seed} {OPERATIONS}"), "begun")?;
        }
        std::thread::sleep(Duration::from_millis(10 + round as u64 * 37 % 200));
        let victims = [&[0][..], &[1, 0], &[0, 2], &[2, 0, 1]][round % 4];
        victims.iter().try_for_each(|&domain: &usize| rig.kill(KERNELS[domain]))?;
        back(rig, before[MAIN])?;
        for &domain in victims {
            let is_back = |epoch, now| epoch > before[domain] && now == state::RUNNING;
            wait_for_domain(rig, domain, "came back", is_back)?;
        }
        for on in ON {
            exercised(rig, on, round as u64)?;
            demand(rig, &format!("{on}audit"), "the invariant holds")?;
        }
        rig.counted.add(victims.len() as u64, "kills");
    }
    Ok(())
}

/// The strong kernel, which drives the disk, dies during writes of both: what was synced is there,
/// the file system is mounted again, and clean at the end.
pub fn disk(rig: &mut Rig) -> Result<(), Failure> {
    with_disk(rig, 1024)?;
    let kept = kept_by(rig, 6)?;
    poweroff(rig)?;
    clean(&rig.instance)?;
    kept.iter()
        .try_for_each(|(name, text)| same(name, &content(&rig.instance, name)?, text.as_bytes()))
}

/// The same with the disk in memory, whose image stays what it was.
pub fn disk_in_memory(rig: &mut Rig) -> Result<(), Failure> {
    rig.set_arguments("ram=disk");
    with_disk(rig, 4096)?;
    let image = rig.instance.path(IMAGE);
    let before = std::fs::read(&image)?;
    let kept = kept_by(rig, 3)?;
    poweroff(rig)?;
    if kept.is_empty() || std::fs::read(&image)? != before {
        return Err(wrong("the disk's image has changed", kept.len()));
    }
    rig.restart(|_| Ok(()))?;
    rig.expect(PROMPT, PATIENCE)?;
    mounted(rig, "free, ext2")?;
    demand(rig, "fs ls disk", "lost+found")?;
    match rig.ask("main", "fs ls disk", PATIENCE)? {
        said if said.contains(&kept[0].0) => Err(wrong("changes outlive the board", said)),
        _ => Ok(()),
    }
}

/// Kills the strong kernel `rounds` times during writes of both. What both synced before is there
/// for both afterwards; it is returned.
fn kept_by(rig: &mut Rig, rounds: u64) -> Result<Vec<(String, String)>, Failure> {
    let mut kept: Vec<(String, String)> = Vec::new();
    for round in 0..rounds {
        for on in BOTH {
            let (name, text) = (format!("kept-{}", kept.len()), format!("round {round} {on}"));
            demand(rig, &format!("{on}fs write disk/{name} {text}"), "")?;
            demand(rig, &format!("{on}fs sync disk/{name}"), "")?;
            kept.push((name, format!("{}\n", text.trim_end())));
        }
        demand(rig, &format!("on shadow aside exercise {round} 300 disk"), "begun")?;
        demand(rig, &format!("aside exercise {round} 300 disk"), "begun")?;
        std::thread::sleep(Duration::from_millis(10 + round * 97 % 400));
        kill(rig)?;
        mounted(rig, "free, ext2")?;
        for (name, text) in &kept {
            for on in BOTH {
                demand(rig, &format!("{on}fs cat disk/{name}"), text.trim_end())?;
            }
        }
    }
    // It may still write to the disk, and is not to do so after the disk has been settled.
    until(rig, "fs cat proc/shadow/kmsg", &format!("exercise {} 300 disk: ", rounds - 1))?;
    Ok(kept)
}

/// The strong kernel hangs while the weak one waits for it: it is reset, and the board continues.
pub fn hangs(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(PROMPT, PATIENCE)?;
    for round in 0..2 {
        let before = runs(rig)?;
        demand(rig, "on shadow aside nap 1000 then twins clear", "begun")?;
        rig.send("hang masked")?;
        rig.expect("main hangs: others wait for", PATIENCE)?;
        back(rig, before)?;
        demand(rig, "twins clear", "")?;
        works(rig, round)?;
    }
    Ok(())
}

/// The shell on the console comes back with the strong kernel, finds what was synced, and starts
/// programs on both kernels.
pub fn shell(rig: &mut Rig) -> Result<(), Failure> {
    system::begin(rig)?;
    for round in 1..=2 {
        let text = format!("round {round}");
        system::says(rig, &format!("cd /home; echo {text} > kept; KERNEL=1 sync"), "[0]")?;
        system::ask(rig, "KERNEL=1 sleep 1000 & sleep 1")?;
        let before = runs(rig)?;
        rig.kill("main")?;
        rig.expect("kernel main", PATIENCE)?;
        rig.expect("/ $ ", PATIENCE)?;
        if runs(rig)? != before + 1 {
            return Err(wrong("its epoch", runs(rig)?));
        }
        system::says(rig, "cd /home; KERNEL=1 cat kept | cat", &format!("{text}\n[0]"))?;
        system::says(rig, "seq 300 | KERNEL=1 wc -l", "300\n[0]")?;
    }
    rig.type_keys(system::AWAY)?;
    rig.expect(PROMPT, PATIENCE)?;
    off_and_clean(rig)
}

/// A program that the host runs ends with the kernel that serves the host, wherever it runs, and
/// the host gets a message; a new one runs after the restart.
pub fn exec(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(PROMPT, PATIENCE)?;
    for _ in 0..3 {
        install(rig)?;
        let running =
            ["main", "shadow"].map(|kernel| Running::begin(&rig.instance, kernel, &["zzz"], b""));
        until(rig, "ps", "main     running")?;
        until(rig, "ps", "shadow   running")?;
        kill(rig)?;
        for program in running {
            match program.end() {
                Err(Failure::Wrong(why)) if why.contains("died") => {}
                Ok(ended) if ended.code == LOST => {}
                other => return Err(wrong("a program of the host", other)),
            }
        }
        let start = std::time::Instant::now();
        while rig.ask("main", "ps", PATIENCE)?.contains("tool") {
            if start.elapsed() > PATIENCE {
                return Err(wrong("a program of the host has not ended", ()));
            }
        }
        works_again(rig)?;
    }
    Ok(())
}
