//! Folders of the host for programs on both kernels: `pen exec --dir`.

use super::machine::demand;
use super::programs::{LOST, Running, back, wrong};
use super::{Failure, PATIENCE, Rig};
use builds::apps;
use deploy::exec::{Captured, Line, begun};
use deploy::install;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tree::place::Place;

/// A program; its arguments are described at its top.
const PROGRAM: &str = "folder";
/// Number of bytes that takes many jobs, and does not fit into a pipe.
const LARGE: usize = 100_000;
/// A folder that no user can write to.
const READ_ONLY: &str = "/sys/kernel";

/// The files on the host.
struct Host {
    outside: PathBuf,
    one: PathBuf,
    other: PathBuf,
}

/// A program reads and writes, cannot leave its folder, and gets an error when the folder
/// disappears. If either side dies, nothing remains.
pub fn served(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    installed(rig)?;
    for kernel in ["main", "shadow"] {
        let host = Host::new(rig, kernel)?;
        both_ways(rig, kernel, &host)?;
        rooted(rig, kernel, &host)?;
        refused(rig, kernel, &host)?;
        many(rig, kernel, &host)?;
        removed(rig, kernel, &host)?;
        abandoned(rig, kernel, &host)?;
    }
    killed(rig)?;
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

fn installed(rig: &Rig) -> Result<(), Failure> {
    let place = Place::find()?;
    let built = apps::build_for_test(&place, PROGRAM);
    let built = built.map_err(|why| wrong("build", format!("{why:#}")))?;
    let put = install::put(&place, &rig.instance, &built.wasm, None, PROGRAM);
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

impl Host {
    fn new(rig: &Rig, kernel: &str) -> Result<Host, Failure> {
        let outside = rig.instance.path(&format!("host-{kernel}"));
        let (one, other) = (outside.join("one"), outside.join("other"));
        // From an earlier run.
        let _ = fs::remove_dir_all(&outside);
        fs::create_dir_all(&one)?;
        fs::create_dir_all(&other)?;
        fs::write(outside.join("secret"), "secret")?;
        fs::write(one.join("in"), super::host::pattern(3, LARGE))?;
        symlink("../secret", one.join("out"))?;
        symlink(outside.join("secret"), one.join("absolute"))?;
        symlink("..", one.join("up"))?;
        symlink("in", one.join("within"))?;
        Ok(Host { outside, one, other })
    }

    fn folders(&self) -> [String; 2] {
        [format!("{}:/host", self.one.display()), format!("{}:/mnt/other", self.other.display())]
    }

    fn line(&self, kernel: &str, arguments: &[&str]) -> Line {
        Line::on(kernel, PROGRAM, arguments).with(&self.folders())
    }

    /// Waits until a program has written so many bytes to a file. Returns its size.
    fn grown(&self, name: &str, bytes: u64) -> Result<u64, Failure> {
        let start = Instant::now();
        loop {
            let length = fs::metadata(self.one.join(name)).map_or(0, |found| found.len());
            if length >= bytes {
                return Ok(length);
            }
            if start.elapsed() > PATIENCE {
                return Err(wrong("it writes nothing", length));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Checks a program's output.
fn says(rig: &Rig, line: Line, wanted: &[u8]) -> Result<(), Failure> {
    // Input that a program does not read does no harm.
    let found = Running::of(&rig.instance, line, &[b'x'; LARGE]).end()?;
    if (found.code, &found.out[..], &found.err[..]) == (0, wanted, b"") {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
    let Captured { code, out, err } = &found;
    Err(wrong("a program with folders", (code, text(out), text(err), text(wanted))))
}

/// The program reads the host's data, and the host sees what it has written.
fn both_ways(rig: &Rig, kernel: &str, host: &Host) -> Result<(), Failure> {
    let bytes = super::host::pattern(3, LARGE);
    says(rig, host.line(kernel, &["cat", "/host/in"]), &bytes)?;
    says(rig, host.line(kernel, &["cat", "/host/within"]), &bytes)?;
    let text = "text ".repeat(700);
    let arguments = [
        "put",
        "/host/new",
        &text,
        "add",
        "/host/new",
        "end",
        "size",
        "/host/new",
        "mkdir",
        "/host/sub",
        "mv",
        "/host/new",
        "/host/sub/moved",
        "ls",
        "/host/sub",
        "mkdir",
        "/host/gone",
        "rmdir",
        "/host/gone",
        "ln",
        "moved",
        "/host/sub/link",
        "cat",
        "/host/sub/link",
        "put",
        "/mnt/other/beside",
        "beside",
        "ls",
        "/mnt/other",
        "put",
        "/host/cut",
        "long",
        "cut",
        "/host/cut",
        "put",
        "/host/rm",
        "long",
        "rm",
        "/host/rm",
        "ls",
        "/host",
    ];
    let wanted = format!("3503\nmoved\n{text}endbeside\nabsolute cut in out sub up within\n");
    says(rig, host.line(kernel, &arguments), wanted.as_bytes())?;
    let found = [host.one.join("sub/moved"), host.other.join("beside"), host.one.join("cut")];
    let found = found.map(|path| fs::read_to_string(path).unwrap_or_default());
    let names = fs::read_dir(&host.one)?.count();
    if found != [format!("{text}end"), "beside".to_string(), String::new()] || names != 7 {
        return Err(wrong("what the host finds", (names, found)));
    }
    Ok(())
}

/// A folder as the program's root, and one without a name of its own.
fn rooted(rig: &Rig, kernel: &str, host: &Host) -> Result<(), Failure> {
    let (one, other) = (host.one.display(), host.other.display());
    let names = "absolute cut in out sub up within";
    let text = fs::read_to_string(host.other.join("beside"))?;
    let arguments = ["ls", "/", "ls", ".", "cat", "/mnt/beside", "cat", "/bin/sh.aarch64"];
    let line = Line::on(kernel, PROGRAM, &arguments);
    let line = line.with(&[format!("{one}:/"), format!("{other}::mnt")]);
    let no = "cat /bin/sh.aarch64: No such file or directory";
    says(rig, line, format!("{names}\n{names}\n{text}{no}\n").as_bytes())?;
    let path = host.other.join("beside").display().to_string();
    let line = Line::on(kernel, PROGRAM, &["cat", &path]).with(&[other.to_string()]);
    says(rig, line, text.as_bytes())
}

/// A forbidden access is an error and has no effect.
fn refused(rig: &Rig, kernel: &str, host: &Host) -> Result<(), Failure> {
    let no = "Capabilities insufficient";
    let arguments = [
        "cat",
        "/host/out",
        "cat",
        "/host/absolute",
        "cat",
        "/host/up/secret",
        "put",
        "/host/out",
        "changed",
        "cat",
        "/host/none",
        "mv",
        "/host/in",
        "/mnt/other/in",
        "rmdir",
        "/host/sub",
    ];
    let wanted = format!(
        "cat /host/out: {no}\ncat /host/absolute: {no}\ncat /host/up/secret: {no}\n\
         put /host/out: {no}\ncat /host/none: No such file or directory\n\
         mv /host/in: Cross-device link\nrmdir /host/sub: Directory not empty\n"
    );
    says(rig, host.line(kernel, &arguments), wanted.as_bytes())?;
    if fs::read_to_string(host.outside.join("secret"))? != "secret" {
        return Err(wrong("outside of the folder something changed", kernel));
    }
    let folder = format!("{READ_ONLY}:/host");
    let line = Line::on(kernel, PROGRAM, &["mkdir", "/host/new", "put", "/host/new", "x"]);
    let found = Running::of(&rig.instance, line.with(&[folder]), b"").end()?;
    let text = String::from_utf8_lossy(&found.out).into_owned();
    let is_refused = |line: &str| line.ends_with("Read-only file system");
    match text.lines().count() == 2 && text.lines().all(is_refused) {
        true => Ok(()),
        false => Err(wrong("a folder that is read-only", text)),
    }
}

/// A directory with so many names that listing it takes many jobs.
fn many(rig: &Rig, kernel: &str, host: &Host) -> Result<(), Failure> {
    let names: Vec<String> = (0..400).map(|at| format!("a-file-of-many-{at:03}")).collect();
    for name in &names {
        fs::write(host.other.join(name), "")?;
    }
    let wanted = format!("{} beside\n", names.join(" "));
    says(rig, host.line(kernel, &["ls", "/mnt/other"]), wanted.as_bytes())
}

/// The folder disappears under a program.
fn removed(rig: &Rig, kernel: &str, host: &Host) -> Result<(), Failure> {
    let running = Running::of(&rig.instance, host.line(kernel, &["log", "/host/log"]), b"");
    host.grown("log", 50)?;
    fs::remove_dir_all(&host.one)?;
    let found = running.end()?;
    if (found.code, &found.out[..]) != (0, b"log /host/log: No such file or directory\n") {
        return Err(wrong("a folder that is gone", found));
    }
    fs::create_dir(&host.one)?;
    Ok(())
}

/// `pen exec` is killed while its program runs.
fn abandoned(rig: &mut Rig, kernel: &str, host: &Host) -> Result<(), Failure> {
    let line = host.line(kernel, &["log", "/host/log"]);
    let running = begun(&rig.instance, &line).map_err(|why| wrong("exec", format!("{why:#}")))?;
    host.grown("log", 50)?;
    let said = rig.ask("main", "mounts", PATIENCE)?;
    if !said.contains("?/host") || !said.contains("?/mnt/other") {
        return Err(wrong("mounts", said));
    }
    drop(running);
    cleared(rig)?;
    let length = host.grown("log", 1)?;
    says(rig, host.line(kernel, &["size", "/host/log"]), format!("{length}\n").as_bytes())
}

/// Waits until nothing of a folder or its program remains.
fn cleared(rig: &mut Rig) -> Result<(), Failure> {
    for (command, what) in [("mounts", "?/"), ("ps", PROGRAM)] {
        let start = Instant::now();
        loop {
            let said = rig.ask("main", command, PATIENCE)?;
            if !said.contains(what) {
                break;
            }
            if start.elapsed() > PATIENCE {
                return Err(wrong(command, said));
            }
        }
    }
    Ok(())
}

/// A program's kernel dies.
fn killed(rig: &mut Rig) -> Result<(), Failure> {
    let host = Host::new(rig, "lost")?;
    let line = host.line("shadow", &["log", "/host/log"]);
    let running = Running::of(&rig.instance, line, b"");
    host.grown("log", 50)?;
    rig.kill("shadow")?;
    let found = running.end()?;
    if found.code != LOST {
        return Err(wrong("a program of a kernel that died", found));
    }
    back(rig)?;
    cleared(rig)?;
    // The death may have emptied the file system in memory, and removed the program.
    installed(rig)?;
    says(rig, host.line("shadow", &["put", "/host/new", "new", "cat", "/host/new"]), b"new")
}
