//! Rights and limits of a program: those of its manifest and those of its parent.

use super::crowd::processes;
use super::machine::demand;
use super::programs::{Running, awaited, install_as, install_granting, ready, run, wrong};
use super::{Failure, PATIENCE, Rig};
use deploy::exec::{Captured, Line};
use deploy::install::Grants;

/// WASI's error numbers, as the tool prints them.
const BADF: &str = "tool: error 8\n";
const MFILE: &str = "tool: error 33\n";
const PERM: &str = "tool: error 63\n";
const NOTCAPABLE: &str = "tool: error 76\n";
/// Exit code for a trap.
const TRAPPED: u8 = 134;
/// Exit code for SIGTERM.
const TERMINATED: u8 = 143;

/// Runs the tool, installed with this manifest, on this kernel.
fn with(rig: &Rig, manifest: &str, kernel: &str, arguments: &[&str]) -> Result<Captured, Failure> {
    let file = rig.instance.path("allowed.toml");
    std::fs::write(&file, manifest)?;
    install_as(rig, Some(&file), "allowed")?;
    Running::of(&rig.instance, Line::on(kernel, "allowed", arguments), b"").end()
}

fn refused(what: &str, found: Captured, wanted: &str) -> Result<(), Failure> {
    if found.err == wanted.as_bytes() { Ok(()) } else { Err(wrong(what, found)) }
}

fn says(what: &str, found: Captured, wanted: &str) -> Result<(), Failure> {
    let good = found.code == 0 && found.out == wanted.as_bytes();
    if good { Ok(()) } else { Err(wrong(what, found)) }
}

/// Each field of a manifest takes effect, on each kernel.
pub fn manifests(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    run(rig, "main", &["put", "file"], b"of the root")?;
    for kernel in ["main", "shadow"] {
        files(rig, kernel)?;
        let all = "args = [\"two words\"]\nenv = { COLOUR = \"red\", SIZE = \"9\" }\n";
        says("args", with(rig, all, kernel, &["args", "one"])?, "one\ntwo words\n")?;
        let found = with(rig, all, kernel, &["env"])?;
        says("env, beneath ours", found, "COLOUR=blue\nSIZE=9\n")?;
        let memory = "memory = \"9 MiB\"\n";
        says("memory", with(rig, memory, kernel, &["grow"])?, "129\n")?;
        // Shadow has 48 MiB of its own: the rest comes from the pool.
        let more = "memory = \"128 MiB\"\n";
        says("memory of the pool", with(rig, more, kernel, &["grow"])?, "1985\n")?;
        // A child's limits never exceed those of its program's manifest.
        says("a child's memory", run(rig, kernel, &["within", "5120"], b"")?, "65\n")?;
        let few = "limits = { files = 4 }\n";
        refused("descriptors", with(rig, few, kernel, &["type", "file"])?, MFILE)?;
    }
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

/// A program whose manifest names directories has exactly those.
fn files(rig: &Rig, kernel: &str) -> Result<(), Failure> {
    let reads = "preopens = [\"/bin:r\"]\n";
    let image = if kernel == "main" { "tool.aarch64" } else { "tool.riscv64" };
    let found = with(rig, reads, kernel, &["type", image])?;
    if found.code != 0 || !found.out.starts_with(b"PENIMAGE") {
        return Err(wrong("what may be read", (found.code, found.out.len())));
    }
    refused("what may not be written", with(rig, reads, kernel, &["put", "new"])?, NOTCAPABLE)?;
    refused("the way out", with(rig, reads, kernel, &["type", "../file"])?, NOTCAPABLE)?;
    let writes = "preopens = [\"/bin=there:rw\"]\n";
    says("what may be written", with(rig, writes, kernel, &["put", "new"])?, "")?;
    let nothing = "preopens = []\n";
    refused("no directory at all", with(rig, nothing, kernel, &["type", "file"])?, BADF)?;
    match with(rig, "preopens = [\"/missing:r\"]\n", kernel, &["args"]) {
        Err(Failure::Wrong(why)) if why.contains("a directory of its manifest is not there") => {}
        other => return Err(wrong("a directory that is not there", other.is_ok())),
    }
    let root = with(rig, "", kernel, &["type", "file"])?;
    says("the root", root, "of the root")
}

/// A program that another one starts gets the directories of its manifest only if the other one may
/// use them so, or if they were granted when it was installed.
pub fn authority(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    let file = rig.instance.path("child.toml");
    let read = "preopens = [\"/:r\"]\n";
    for kernel in ["main", "shadow"] {
        for (manifest, fits) in [
            ("", true),
            ("preopens = [\"/bin:r\"]\n", true),
            ("preopens = [\"/bin:rw\"]\n", false),
            ("preopens = [\"/:rw\"]\n", false),
            ("grants = [\"/bin:rw\"]\n", true),
        ] {
            std::fs::write(&file, manifest)?;
            install_granting(rig, &file, "tool", Grants::Allowed)?;
            // What the system starts gets all of it.
            says(manifest, run(rig, kernel, &["args", "one"], b"")?, "one\n")?;
            let child = with(rig, read, kernel, &["within", "5120"])?;
            if fits {
                says(manifest, child, "65\n")?;
            } else {
                refused(manifest, child, NOTCAPABLE)?;
            }
        }
        // All that the parent has.
        std::fs::write(&file, "preopens = [\"/:r\"]\n")?;
        install_granting(rig, &file, "tool", Grants::Refused)?;
        says("all that the parent has", with(rig, read, kernel, &["within", "5120"])?, "65\n")?;
        std::fs::write(&file, "grants = [\"/bin:rw\"]\n")?;
        let why = format!("{:?}", install_granting(rig, &file, "tool", Grants::Refused));
        if !why.contains("pen install --allow-grants") {
            return Err(wrong("grants that are not allowed", why));
        }
    }
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

/// A program may signal its descendants and group; others only if its manifest says so.
pub fn signals(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for kernel in ["main", "shadow"] {
        let sleeper = Running::begin(&rig.instance, "shadow", &["zzz"], b"");
        let pid = number_of_one(rig)?;
        refused("a stranger's signal", with(rig, "", kernel, &["hit", &pid])?, PERM)?;
        let all = "signals = \"all\"\n";
        says("a signal for any process", with(rig, all, kernel, &["hit", &pid])?, "")?;
        let code = sleeper.end()?.code;
        if code != TERMINATED {
            return Err(wrong("the signalled process", code));
        }
    }
    Ok(())
}

/// If memory of a program is lost with its kernel's block, the program ends when it or its kernel
/// accesses that memory; the kernel and other programs continue.
pub fn short(rig: &mut Rig) -> Result<(), Failure> {
    const LEFT: &str = "1024";
    // Less than a block of the pool, so no balloon can move it to the kernel that is short of
    // memory.
    const OTHER_LEFT: &str = "8192";
    ready(rig)?;
    for (kernel, on, other) in [("main", "", "on shadow "), ("shadow", "on shadow ", "")] {
        rig.ask("main", &format!("{other}exhaust {OTHER_LEFT}"), PATIENCE)?;
        let witness = Running::begin(&rig.instance, kernel, &["zzz"], b"");
        let pid = number_of_one(rig)?;
        for by in ["0", "1", "2"] {
            let debtor = Running::begin(&rig.instance, kernel, &["owe", by], b"");
            until(rig, "the whole memory", |lines| lines.iter().any(|line| kib(line) > 4096))?;
            rig.ask("main", &format!("{on}exhaust {LEFT}"), PATIENCE)?;
            rig.ask("main", "fs write go now", PATIENCE)?;
            let found = debtor.end()?;
            let said = String::from_utf8_lossy(&found.err).into_owned();
            if found.code != TRAPPED || !said.contains("no memory for a page that it touched") {
                return Err(wrong(&format!("{kernel}, by {by}"), found));
            }
            demand(rig, &format!("{on}audit"), "the invariant holds")?;
            rig.ask("main", &format!("{on}exhaust"), PATIENCE)?;
            rig.ask("main", "fs rm go", PATIENCE)?;
        }
        rig.ask("main", &format!("kill {pid} TERM"), PATIENCE)?;
        let code = witness.end()?.code;
        if code != TERMINATED {
            return Err(wrong("the witness", code));
        }
        rig.ask("main", &format!("{other}exhaust"), PATIENCE)?;
    }
    Ok(())
}

/// Returns the KiB in a line of `ps`: pid parent group kernel state ms KiB messages name.
fn kib(line: &[String]) -> u64 {
    line.get(6).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Returns the lines of `ps` once they satisfy a condition.
fn until(
    rig: &mut Rig,
    what: &str,
    so: impl Fn(&[Vec<String>]) -> bool,
) -> Result<Vec<Vec<String>>, Failure> {
    awaited(
        PATIENCE,
        |lines| wrong(what, lines),
        || {
            let lines = processes(rig)?;
            let is_so = so(&lines);
            Ok((lines, is_so))
        },
    )
}

/// Returns the number of the only process.
fn number_of_one(rig: &mut Rig) -> Result<String, Failure> {
    let lines = until(rig, "one process", |lines| lines.len() == 1)?;
    Ok(lines.concat().swap_remove(0))
}
