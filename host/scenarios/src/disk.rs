//! An ext2 on the board's disk: created and checked by e2fsprogs, used by all kernels.

use super::host::{pattern, pull, push};
use super::machine::{demand, until};
use super::peers::wait_for;
use super::services::line_of;
use super::{Failure, PATIENCE, Rig, homes};
use abi::soc::state;
use deploy::ext2;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use tree::place::Place;
use workbench::given::EXACT;
use workbench::instance::Instance;

/// The disk's image, in the run folder.
pub(super) const IMAGE: &str = "disk.disk";
/// A file that the host creates, and its text.
const FROM_HOST: (&str, &str) = ("from-host", "made by the host\n");
/// Time without requests after which the disk is idle.
const IDLE: Duration = Duration::from_secs(4);

/// Runs a tool of e2fsprogs on the image. Returns its output if its exit code is at most `worst`.
pub(super) fn tool(
    name: &str,
    arguments: &[&str],
    image: &Path,
    worst: i32,
) -> Result<Vec<u8>, Failure> {
    ext2::tool(name, arguments, image, worst).map_err(wrong)
}

/// Creates a file system with a file from the host: as large as the disk, or with this many bytes.
fn make(board: &Instance, block: u64, bytes: Option<u64>) -> Result<(), Failure> {
    let (image, source) = (board.path(IMAGE), board.path("source"));
    std::fs::create_dir_all(&source)?;
    std::fs::write(source.join(FROM_HOST.0), FROM_HOST.1)?;
    ext2::make(&image, block, &source, bytes).map_err(wrong)
}

fn wrong(why: anyhow::Error) -> Failure {
    Failure::Wrong(format!("{why:#}"))
}

/// Returns the contents of a file, as debugfs sees it.
pub(super) fn content(board: &Instance, path: &str) -> Result<Vec<u8>, Failure> {
    ext2::content(&board.path(IMAGE), path).map_err(wrong)
}

/// Checks that e2fsck finds no error, and that the file system is marked clean: its journal is
/// empty.
pub(super) fn clean(board: &Instance) -> Result<(), Failure> {
    let image = board.path(IMAGE);
    tool("e2fsck", &["-fn"], &image, 0)?;
    let said = tool("dumpe2fs", &["-h"], &image, 0)?;
    let said = String::from_utf8_lossy(&said);
    let line = |name| said.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    let (state, features) = (line("Filesystem state:"), line("Filesystem features:"));
    let clean = state.ends_with(" clean") && !state.contains("not clean");
    if clean && features.contains("has_journal") && !features.contains("needs_recovery") {
        return Ok(());
    }
    Err(Failure::Wrong(format!("the file system is not clean: {state:?}, {features:?}")))
}

pub(super) fn same(what: &str, found: &[u8], wanted: &[u8]) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    let (found, wanted) = (String::from_utf8_lossy(found), String::from_utf8_lossy(wanted));
    Err(Failure::Wrong(format!("{what} holds {found:?} instead of {wanted:?}")))
}

/// Checks that a file's modification time was taken from a real clock: it is not before the fixed
/// date of exact runs.
fn recent(board: &Instance, path: &str) -> Result<(), Failure> {
    let said = tool("debugfs", &["-R", &format!("stat {path}")], &board.path(IMAGE), 0)?;
    let said = String::from_utf8_lossy(&said);
    let time = said.split_once("mtime: 0x").and_then(|(_, time)| time.split([':', ' ']).next());
    match time.and_then(|time| u64::from_str_radix(time, 16).ok()) {
        Some(time) if time >= EXACT.begun / 1_000_000_000 => Ok(()),
        _ => Err(Failure::Wrong(format!("{path} has too old a modification time: {said}"))),
    }
}

/// Waits until the disk is mounted.
pub(super) fn mounted(rig: &mut Rig, how: &str) -> Result<(), Failure> {
    mounted_at(rig, "/disk ", how)
}

fn mounted_at(rig: &mut Rig, place: &str, how: &str) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let said = rig.ask("main", "fs df", PATIENCE)?;
        let line = said.lines().find(|line| line.trim_start().starts_with(place));
        match line.map(str::trim_end) {
            Some(line) if line.ends_with(how) => return Ok(()),
            Some(line) if !line.ends_with("ramfs") => {
                return Err(Failure::Wrong(format!("mounted, but not as {how:?}: {line}")));
            }
            _ if start.elapsed() > PATIENCE => {
                return Err(Failure::Wrong(format!("the disk is not mounted: {said}")));
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Restarts the board with a new file system.
pub fn begin(rig: &mut Rig, block: u64) -> Result<(), Failure> {
    rig.restart(|board| make(board, block, None))?;
    rig.expect("main> ", PATIENCE)?;
    mounted(rig, "free, ext2")
}

/// Does the same with the file system as root.
pub fn begin_as_root(rig: &mut Rig, block: u64, bytes: Option<u64>) -> Result<(), Failure> {
    rig.set_arguments("root=disk");
    rig.restart(|board| make(board, block, bytes))?;
    rig.expect("main> ", PATIENCE)?;
    mounted_at(rig, "/ ", "free, ext2")
}

/// Runs a command that must succeed without output.
pub(super) fn done(rig: &mut Rig, line: &str) -> Result<(), Failure> {
    let said = rig.ask("main", line, PATIENCE)?;
    if said.lines().any(|it| it.starts_with("! ")) {
        return Err(Failure::Wrong(format!("`{line}`: {said}")));
    }
    Ok(())
}

/// Powers the board off from its monitor.
pub(super) fn poweroff(rig: &mut Rig) -> Result<(), Failure> {
    rig.send("poweroff")?;
    rig.expect("powering off", PATIENCE)?;
    goes_off(rig)
}

/// Does the same, and checks that the disk is clean.
pub(super) fn off_and_clean(rig: &mut Rig) -> Result<(), Failure> {
    poweroff(rig)?;
    clean(&rig.instance)
}

/// Waits until the board is off.
pub fn goes_off(rig: &Rig) -> Result<(), Failure> {
    let start = Instant::now();
    while rig.instance.soc().is_some() {
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong("the board does not power off".to_string()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns the digest of random operations on the disk.
fn exercised(rig: &mut Rig, on: &str, seed: u64) -> Result<String, Failure> {
    let said = demand(rig, &format!("{on}exercise {seed} 300 disk"), "digest ")?;
    let digest = said.split_once("digest ").and_then(|(_, rest)| rest.get(..16));
    digest.map(str::to_string).ok_or(Failure::Wrong(said))
}

/// Files written by the kernels exist after a power-off, for the kernels and for other tools; the
/// kernels see files of other tools.
pub fn kept(rig: &mut Rig, block: u64) -> Result<(), Failure> {
    started(rig, block)?;
    let bytes = written(rig)?;
    idle(rig)?;
    found(rig, &bytes)
}

/// The same while services move.
pub fn kept_while_moved(rig: &mut Rig) -> Result<(), Failure> {
    started(rig, 1024)?;
    let mut bytes = Vec::new();
    homes::while_moved(rig, |rig| {
        bytes = written(rig)?;
        Ok(())
    })?;
    found(rig, &bytes)
}

/// Starts the board, and starts it again with a file system on its disk.
fn started(rig: &mut Rig, block: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    // A disk without a file system.
    demand(rig, "disk", "wrote, flushed and read back")?;
    begin(rig, block)
}

/// Both kernels and the host write files. Returns the contents of the large one.
fn written(rig: &mut Rig) -> Result<Vec<u8>, Failure> {
    demand(rig, "disk", "a file system has the disk")?;
    for on in ["", "on shadow "] {
        demand(rig, &format!("{on}fs cat disk/{}", FROM_HOST.0), FROM_HOST.1.trim_end())?;
    }
    done(rig, "fs mkdir disk/d")?;
    done(rig, "fs write disk/d/main of the strong kernel")?;
    done(rig, "on shadow fs write disk/d/shadow of the weak kernel")?;
    demand(rig, "fs cat disk/d/shadow", "of the weak kernel")?;
    demand(rig, "on shadow fs cat disk/d/main", "of the strong kernel")?;
    let bytes = pattern(3, 300_000);
    push(&rig.instance, &bytes[..], "disk/d/large").map_err(Failure::Wrong)?;
    same("the large file", &pull(&rig.instance, "disk/d/large").map_err(Failure::Wrong)?, &bytes)?;
    demand(rig, "on shadow fs stat disk/d/large", "300000 bytes")?;
    together(rig)?;
    done(rig, "fs sync")?;
    Ok(bytes)
}

/// The files exist after a power-off.
fn found(rig: &mut Rig, bytes: &[u8]) -> Result<(), Failure> {
    done(rig, "on shadow fs append disk/d/main and more")?;
    poweroff(rig)?;
    let written = b"of the strong kernel\nand more\n";
    rig.restart(|board| {
        clean(board)?;
        recent(board, "d/main")?;
        same("main's file", &content(board, "d/main")?, written)?;
        same("shadow's file", &content(board, "d/shadow")?, b"of the weak kernel\n")?;
        same("the large file", &content(board, "d/large")?, bytes)
    })?;
    rig.expect("main> ", PATIENCE)?;
    mounted(rig, "free, ext2")?;
    demand(rig, "on shadow fs cat disk/d/main", "and more")?;
    demand(rig, "audit", "the invariant holds")?;
    demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
}

/// Random operations of both kernels, alternately and concurrently.
fn together(rig: &mut Rig) -> Result<(), Failure> {
    let digests = [exercised(rig, "", 5)?, exercised(rig, "on shadow ", 5)?];
    if digests[0] != digests[1] {
        return Err(Failure::Wrong(format!("the kernels get different answers: {digests:?}")));
    }
    demand(rig, "on shadow aside exercise 5 300 disk", "begun")?;
    exercised(rig, "", 6)?;
    rig.said_aside("shadow", "exercise 5 300 disk", &digests[0], 1).map(|_| ())
}

/// An unused disk makes no requests.
fn idle(rig: &mut Rig) -> Result<(), Failure> {
    let mut counts = || line_of(rig, "", "fs").map(|mut words| words.pop());
    let before = counts()?;
    std::thread::sleep(IDLE);
    let after = counts()?;
    if before == after {
        return Ok(());
    }
    Err(Failure::Wrong(format!("requests to an idle disk: {before:?}, then {after:?}")))
}

/// With one kernel, unsynced changes are written after a while, and the image is marked clean.
pub fn alone(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig, 1024)?;
    demand(rig, &format!("fs cat disk/{}", FROM_HOST.0), FROM_HOST.1.trim_end())?;
    done(rig, "fs write disk/note one line of text")?;
    exercised(rig, "", 7)?;
    // By then all changes are written, and the image is marked clean.
    demand(rig, "nap 12000", "slept")?;
    rig.restart(|board| {
        clean(board)?;
        same("the note", &content(board, "note")?, b"one line of text\n")
    })?;
    rig.expect("main> ", PATIENCE)?;
    mounted(rig, "free, ext2")?;
    demand(rig, "fs cat disk/note", "one line of text").map(|_| ())
}

/// The disk is the root of a board that says so.
pub fn root(rig: &mut Rig) -> Result<(), Failure> {
    begin_as_root(rig, 1024, None)?;
    for on in ["", "on shadow "] {
        demand(rig, &format!("{on}fs cat {}", FROM_HOST.0), FROM_HOST.1.trim_end())?;
    }
    done(rig, "on shadow fs write note one line of text")?;
    push(&rig.instance, &pattern(4, 100_000)[..], "large").map_err(Failure::Wrong)?;
    poweroff(rig)?;
    rig.restart(|board| {
        clean(board)?;
        same("the large file", &content(board, "large")?, &pattern(4, 100_000))
    })?;
    rig.expect("main> ", PATIENCE)?;
    mounted_at(rig, "/ ", "free, ext2")?;
    demand(rig, "fs cat note", "one line of text")?;
    // File systems shown in the root appear in this root too, without entries on the disk.
    for on in ["", "on shadow "] {
        until(rig, &format!("{on}fs ls dev"), "null")?;
        until(rig, &format!("{on}fs cat proc/shadow/version"), "riscv64")?;
    }
    Ok(())
}

/// Synced data survive power cuts that lose and tear writes: the next life of the board replays the
/// journal, or e2fsck does.
pub fn cuts(rig: &mut Rig) -> Result<(), Failure> {
    (1..13).try_for_each(|seed| cut(rig, seed))
}

/// Cuts per nightly run.
const OFTEN: u64 = 200;

/// The same, up to the next multiple of [`OFTEN`]. The number of cuts so far is in a file, so that
/// an interrupted run continues, and the next one makes others; a cut that fails is repeated.
pub fn cuts_often(rig: &mut Rig) -> Result<(), Failure> {
    let file = Place::find()?.target.join("disk-cuts");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let before = known.trim().parse::<u64>().unwrap_or(0);
    let goal = (before / OFTEN + 1) * OFTEN;
    for number in before..goal {
        cut(rig, 100 + number)?;
        std::fs::write(&file, format!("{}\n", number + 1))?;
    }
    println!("{goal} cuts in all, {} in this run", goal - before);
    Ok(())
}

fn cut(rig: &mut Rig, seed: u64) -> Result<(), Failure> {
    let wrong = |why: Failure| Failure::Wrong(format!("seed {seed}: {why}"));
    begin(rig, if seed.is_multiple_of(2) { 1024 } else { 4096 })?;
    let after = 20 + seed * 37 % 140;
    rig.control(&json!({ "op": "cut", "device": "disk", "after": after, "seed": seed }))?;
    let synced = until_cut(rig).map_err(wrong)?;
    if seed.is_multiple_of(3) {
        rig.instance.stop()?;
        tool("e2fsck", &["-p"], &rig.instance.path(IMAGE), 1)?;
    } else {
        rig.restart(|_| Ok(()))?;
        rig.expect("main> ", PATIENCE)?;
        mounted(rig, "free, ext2").map_err(wrong)?;
        done(rig, "on shadow fs write disk/after-the-cut and so on").map_err(wrong)?;
        poweroff(rig)?;
    }
    clean(&rig.instance).map_err(wrong)?;
    for (name, text) in synced {
        same(&name, &content(&rig.instance, &name)?, text.as_bytes()).map_err(wrong)?;
    }
    rig.counted.add(1, "cuts");
    Ok(())
}

/// Both kernels write and sync until they fail. Returns what they synced.
fn until_cut(rig: &mut Rig) -> Result<Vec<(String, String)>, Failure> {
    let mut synced = Vec::new();
    for number in 0..10_000 {
        let on = ["", "on shadow "][number % 2];
        let (mut name, text) = (format!("file-{number}"), format!("text {number}"));
        let mut lines = vec![format!("fs write disk/{name} {text}")];
        if number % 3 == 0 {
            lines.push(format!("fs mv disk/{name} disk/moved-{number}"));
            name = format!("moved-{number}");
        }
        lines.push(format!("fs sync disk/{name}"));
        for line in lines {
            if done(rig, &format!("{on}{line}")).is_err() {
                let enough = !synced.is_empty();
                let none = Failure::Wrong("nothing was synced".to_string());
                return if enough { Ok(synced) } else { Err(none) };
            }
        }
        synced.push((name, format!("{text}\n")));
    }
    Err(Failure::Wrong("the power was never cut".to_string()))
}

/// The service loses its state with a kernel that dies: the disk is mounted again, its journal is
/// replayed, and writing continues; synced data are there.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig, 1024)?;
    done(rig, "on shadow fs write disk/note still here")?;
    done(rig, "fs sync disk/note")?;
    let mut epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    let mut restarts = 0;
    for round in 0..20u64 {
        // In memory, so it is lost if the service restarts.
        done(rig, "fs write volatile in memory only")?;
        demand(rig, &format!("on shadow aside exercise {round} 300 disk"), "begun")?;
        std::thread::sleep(Duration::from_millis(10 + round * 37 % 200));
        rig.kill("shadow")?;
        let died = epoch;
        epoch = wait_for(rig, "came back", |now, state| now > died && state == state::RUNNING)?;
        // If the service has restarted, its disk is mounted a moment later.
        mounted(rig, "free, ext2")?;
        demand(rig, "fs cat disk/note", "still here")?;
        demand(rig, "on shadow fs cat disk/note", "still here")?;
        done(rig, &format!("on shadow fs write disk/round-{round} of the weak kernel"))?;
        done(rig, &format!("fs sync disk/round-{round}"))?;
        restarts += u64::from(rig.ask("main", "fs cat volatile", PATIENCE)?.contains("! "));
        if restarts == 3 {
            off_and_clean(rig)?;
            same("the note", &content(&rig.instance, "note")?, b"still here\n")?;
            let last = content(&rig.instance, &format!("round-{round}"))?;
            return same("the last file", &last, b"of the weak kernel\n");
        }
    }
    Err(Failure::Wrong(format!("the service restarted only {restarts} times")))
}
