//! Commands about services and files, and the self-test of the file service.

use super::{Command, disks, number};
use abi::fs::{Errno, flag, kind};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use base::id::DomainId;
use core::fmt::Write;
use fs::client::Client;
use fs::exercise::PIECE;
use kernel_programs::processes::{self, Processes};
use kernel_services::files::with_client;
use kernel_services::kernel::Kernel;
use kernel_services::session::{Failure, Outcome, Session};
use share::Mode;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "services",
        arguments: "",
        help: "each service: its mode, memory, and numbers of requests",
        run: services,
    },
    Command {
        name: "fs",
        arguments: "ls|cat|stat|mkdir|rmdir|rm|sync PATH, write|append PATH TEXT, \
                    mv|ln|symlink FROM TO, df, sync",
        help: "files, through the file service",
        run: files,
    },
    Command {
        name: "mounts",
        arguments: "",
        help: "file systems: what, where, kind, options, bytes, free",
        run: disks::table,
    },
    Command {
        name: "exercise",
        arguments: "[SEED [OPERATIONS [PATH]]]",
        help: "random file operations; the digest is the same in every mode and on every board",
        run: exercise,
    },
];

fn services(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let lines = kernel.services.lines(kernel);
    let head = ["service", "mode", "starts, KiB used", "here/away/for others/parked"];
    writeln!(out, "  {:<12} {:<20} {:<20} {}", head[0], head[1], head[2], head[3])?;
    for chosen in kernel.blob.services() {
        let name = abi::boot::text(&chosen.name);
        let home = kernel.services.home_of(name);
        let mode = Mode::from_blob(chosen).map_or("?".into(), |mode| called(kernel, mode, home));
        write!(out, "  {name:<12} {mode:<20} ")?;
        let Some(line) = lines.iter().find(|line| line.name == name) else {
            writeln!(out, "-")?;
            continue;
        };
        let usage = line.usage.map_or(String::from("not in this kernel"), |usage| {
            format!("{}, {} of {}", usage.lives, usage.used >> 10, usage.bytes >> 10)
        });
        let [here, away, for_others, parked] = line.counts;
        writeln!(out, "{usage:<20} {here}/{away}/{for_others}/{parked}")?;
    }
    let pipes = processes::get().map(Processes::pipes).unwrap_or_default();
    write!(out, "  private pipes: {}, {} of them delegated; ", pipes.here, pipes.delegated)?;
    writeln!(out, "{} have left to be shared; {} ends elsewhere", pipes.left, pipes.far)?;
    if let Some(coherence) = &kernel.coherence {
        let [faults, sent, given, cleaned, thrashed, broken] = coherence.counts();
        write!(out, "  shared memory: {faults} faults, {sent} messages, {given} pages given up, ")?;
        writeln!(out, "{cleaned} cleaned, {thrashed} thrashing, {broken} faults of peers")?;
    }
    Ok(())
}

fn called(kernel: &Kernel, mode: Mode, home: Option<DomainId>) -> String {
    let name = |home: DomainId| kernel.name_of(home.index());
    match (mode, home) {
        (Mode::Delegated(home), _) => format!("delegated to {}", name(home)),
        (Mode::Shadowed, Some(home)) => format!("shadowed, at {}", name(home)),
        (mode, _) => String::from(mode.name()),
    }
}

fn files(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let root = with_client(session, |client| client.root())?;
    let done = with_root(session, out, root, arguments);
    with_client(session, |client| client.close(root))?;
    done
}

fn with_root(session: &Session, out: &mut dyn Write, root: u64, arguments: &[&str]) -> Outcome {
    let done = |work: &mut dyn FnMut(&mut Client<'_>) -> Result<(), Errno>| {
        with_client(session, |client| work(client))
    };
    match *arguments {
        ["ls"] => list(session, out, root, b"."),
        ["ls", path] => list(session, out, root, path.as_bytes()),
        ["cat", path] => cat(session, out, root, path.as_bytes()),
        ["stat", path] => stat(session, out, root, path.as_bytes()),
        ["write", path, ref text @ ..] => {
            put(session, root, path.as_bytes(), flag::WRITE | flag::CREATE | flag::TRUNCATE, text)
        }
        ["append", path, ref text @ ..] => {
            put(session, root, path.as_bytes(), flag::WRITE | flag::CREATE | flag::APPEND, text)
        }
        ["mkdir", path] => done(&mut |client| client.mkdir(root, path.as_bytes())),
        ["rmdir", path] => done(&mut |client| client.rmdir(root, path.as_bytes())),
        ["rm", path] => done(&mut |client| client.unlink(root, path.as_bytes())),
        ["mv", from, to] => {
            done(&mut |client| client.rename(root, from.as_bytes(), root, to.as_bytes()))
        }
        ["ln", from, to] => {
            done(&mut |client| client.link(root, from.as_bytes(), root, to.as_bytes()))
        }
        ["symlink", text, path] => {
            done(&mut |client| client.symlink(root, text.as_bytes(), path.as_bytes()))
        }
        ["df"] => disks::df(session, out, root),
        ["sync"] => disks::sync_all(session, out, root),
        ["sync", path] => disks::sync(session, root, path.as_bytes()),
        _ => Err(Failure::Usage),
    }
}

fn list(session: &Session, out: &mut dyn Write, root: u64, path: &[u8]) -> Outcome {
    let entries = with_client(session, |client| {
        let directory = client.open(root, path, flag::READ | flag::DIRECTORY)?;
        let entries = client.list(directory, 2048);
        client.close(directory).and(entries)
    })?;
    for entry in entries {
        let name = String::from_utf8_lossy(&entry.name);
        let mark = match entry.kind {
            kind::DIRECTORY => "/",
            kind::LINK => "@",
            _ => "",
        };
        writeln!(out, "  {name}{mark}")?;
    }
    Ok(())
}

fn cat(session: &Session, out: &mut dyn Write, root: u64, path: &[u8]) -> Outcome {
    let file = with_client(session, |client| client.open(root, path, flag::READ | flag::FOLLOW))?;
    let mut piece = vec![0; 2048];
    let mut ended_line = true;
    loop {
        let bytes = with_client(session, |client| client.read(file, &mut piece))?;
        if bytes == 0 {
            break;
        }
        ended_line = piece[bytes - 1] == b'\n';
        out.write_str(&String::from_utf8_lossy(&piece[..bytes]))?;
    }
    with_client(session, |client| client.close(file))?;
    if ended_line { Ok(()) } else { Ok(writeln!(out)?) }
}

fn stat(session: &Session, out: &mut dyn Write, root: u64, path: &[u8]) -> Outcome {
    let stat = with_client(session, |client| client.stat_path(root, path, 0))?;
    let what = match stat.kind {
        kind::DIRECTORY => "directory",
        kind::LINK => "symbolic link",
        kind::CHARACTER => "character device",
        _ => "file",
    };
    writeln!(out, "  {what}, {} bytes, {} names, node {}", stat.size, stat.links, stat.node)?;
    Ok(())
}

fn put(session: &Session, root: u64, path: &[u8], flags: u16, text: &[&str]) -> Outcome {
    let mut line = text.join(" ").into_bytes();
    line.push(b'\n');
    with_client(session, |client| {
        let file = client.open(root, path, flags)?;
        let result = client.write_all(file, &line);
        client.close(file).and(result)
    })
}

fn exercise(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let seed = number(arguments, 0, 1)?;
    let operations = number(arguments, 1, 1000)?;
    let from = arch::time::soc_time();
    let path = arguments.get(2).copied().unwrap_or(".");
    let digest = with_client(session, |client| {
        let ask = &mut disks::below(path, client.0);
        fs::exercise::exercise_in(PIECE, seed, operations, ask)
    })?;
    let took = arch::time::soc_time() - from;
    write!(out, "  seed {seed}: {} requests, {} of them refused, ", digest.asked, digest.refused)?;
    writeln!(out, "{} ns each, digest {:016x}", took / digest.asked.max(1), digest.hash)?;
    Ok(())
}
