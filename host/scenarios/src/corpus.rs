//! Third-party programs on both kernels and under wasmtime on the host: output, exit code and
//! created files must be the same.

mod postmark;

use super::host::{pull, push};
use super::programs::{Running, wrong};
use super::{Failure, PATIENCE, Rig, disk};
use crate::reference;
use builds::apps;
use builds::compiler::{self, Kind};
use deploy::exec::{Captured, Line};
use deploy::install::{self, Source};
pub use postmark::postmark;
use std::path::Path;
use tree::place::Place;

/// Folder of inputs.
const FOLDER: &str = "tests/corpus";

/// A run of a program.
struct Case {
    /// A program of apps/corpus.toml, or else of apps/apps.toml.
    program: &'static str,
    /// Its arguments.
    arguments: &'static [&'static str],
    /// Its input: a file of [`FOLDER`] or, with a leading `+`, this many generated lines.
    input: &'static str,
    /// Files that it finds in `/`: the source, named like an input, and the name there.
    finds: &'static [(&'static str, &'static str)],
    /// Files that it creates.
    makes: &'static [&'static str],
    /// Its exit code.
    code: u8,
}

const LUA: Case = Case {
    program: "lua",
    arguments: &["/lua.lua", "/lines"],
    input: "",
    finds: &[("lua.lua", "lua.lua")],
    makes: &["lines"],
    code: 0,
};
const ZLIB: Case = Case {
    program: "zlib",
    arguments: &["/packed"],
    input: "",
    finds: &[],
    makes: &["packed"],
    code: 0,
};
const SQLITE: Case = Case {
    program: "sqlite",
    arguments: &["/people.db"],
    input: "sqlite.sql",
    finds: &[],
    makes: &["people.db"],
    code: 0,
};
/// The pigeonhole problem; the exit code says that it is unsatisfiable.
const VARISAT: Case = Case {
    program: "varisat",
    arguments: &["/problem.cnf"],
    input: "",
    finds: &[("pigeons.cnf", "problem.cnf")],
    makes: &[],
    code: 20,
};
const SORT: Case = Case {
    program: "coreutils",
    arguments: &["sort", "-k", "2", "-o", "/sorted", "/lines"],
    input: "",
    finds: &[("+100000", "lines")],
    makes: &["sorted"],
    code: 0,
};
const HASH: Case = Case {
    program: "coreutils",
    arguments: &["sha256sum", "-", "/lines"],
    input: "+200000",
    finds: &[("+100000", "lines")],
    makes: &[],
    code: 0,
};

/// Small programs in C.
pub fn light(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    all(rig, &[LUA, ZLIB])
}

/// A database on an ext2 root: the program is larger than the file system in memory.
pub fn database(rig: &mut Rig) -> Result<(), Failure> {
    disk::begin_as_root(rig, 4096, None)?;
    all(rig, &[SQLITE])?;
    disk::off_and_clean(rig)
}

/// Programs that take long to build, on an ext2 with room for them.
pub fn heavy(rig: &mut Rig) -> Result<(), Failure> {
    disk::begin_as_root(rig, 4096, Some(64 << 20))?;
    all(rig, &[VARISAT, SORT, HASH])?;
    disk::off_and_clean(rig)
}

/// Code from both compilers computes the same.
pub fn compilers(rig: &mut Rig) -> Result<(), Failure> {
    disk::begin_as_root(rig, 4096, Some(64 << 20))?;
    for kind in [Kind::Release, Kind::Own] {
        all_by(kind, rig, &[LUA, ZLIB, SQLITE, VARISAT, SORT, HASH])?;
    }
    disk::off_and_clean(rig)
}

fn all(rig: &mut Rig, cases: &[Case]) -> Result<(), Failure> {
    all_by(compiler::chosen(), rig, cases)
}

fn all_by(kind: Kind, rig: &mut Rig, cases: &[Case]) -> Result<(), Failure> {
    let place = Place::find()?;
    for case in cases {
        let what = format!("{} compiled by {kind:?}", case.program);
        let failed = |why: Failure| Failure::Wrong(format!("{what}: {why}"));
        one(kind, &place, rig, case).map_err(failed)?;
    }
    Ok(())
}

/// The result of a run: how it ended, and the files that it created.
#[derive(PartialEq, Eq)]
struct Outcome(Captured, Vec<Vec<u8>>);

fn one(kind: Kind, place: &Place, rig: &mut Rig, case: &Case) -> Result<(), Failure> {
    let failed = |why: anyhow::Error| wrong("build", format!("{why:#}"));
    let built = if case.program == "coreutils" {
        apps::build(place, &[case.program.to_string()]).map(|mut all| all.remove(0))
    } else {
        apps::build_for_test(place, case.program)
    };
    let wasm = built.map_err(failed)?.wasm;
    let put = install::put_by(kind, place, &rig.instance, Source::new(&wasm, None), case.program);
    put.map_err(|why| wrong("install", format!("{why:#}")))?;
    let wanted = on_host(place, rig, case, &wasm)?;
    let says_nothing = wanted.0.out.is_empty() && wanted.1.is_empty();
    if wanted.0.code != case.code || says_nothing {
        return Err(wrong("wasmtime's run", shown(&wanted.0)));
    }
    for kernel in ["main", "shadow"] {
        let found = on_board(place, rig, case, kernel)?;
        if found != wanted {
            let said = [shown(&found.0), shown(&wanted.0)];
            let files = found.1.iter().zip(&wanted.1).map(|(one, other)| one == other);
            return Err(wrong(kernel, (said, files.collect::<Vec<_>>())));
        }
    }
    Ok(())
}

fn shown(captured: &Captured) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("code {}, {:?}, {:?}", captured.code, text(&captured.out), text(&captured.err))
}

/// Returns the bytes of a case's input.
fn content(place: &Place, name: &str) -> Result<Vec<u8>, Failure> {
    let line = |at: u32| format!("{at} {:08x} line\n", at.wrapping_mul(2_654_435_761));
    match name.strip_prefix('+').map(str::parse) {
        Some(Ok(lines)) => Ok((0..lines).map(line).collect::<String>().into_bytes()),
        _ if name.is_empty() => Ok(vec![]),
        _ => Ok(std::fs::read(place.root.join(FOLDER).join(name))?),
    }
}

fn on_board(place: &Place, rig: &mut Rig, case: &Case, kernel: &str) -> Result<Outcome, Failure> {
    for (name, path) in case.finds {
        let bytes = content(place, name)?;
        push(&rig.instance, &bytes[..], path).map_err(|why| wrong("push", why))?;
    }
    let line = Line::on(kernel, case.program, case.arguments);
    let ended = Running::of(&rig.instance, line, &content(place, case.input)?).end()?;
    let mut made = vec![];
    for path in case.makes {
        made.push(pull(&rig.instance, path).map_err(|why| wrong(path, (why, shown(&ended))))?);
        // The next run creates it again.
        rig.ask("main", &format!("fs rm {path}"), PATIENCE)?;
    }
    Ok(Outcome(ended, made))
}

fn on_host(place: &Place, rig: &Rig, case: &Case, wasm: &Path) -> Result<Outcome, Failure> {
    let root = rig.instance.path(&format!("reference-{}", case.arguments[0].replace('/', "-")));
    // What an earlier run has made is not there on the board either.
    if root.exists() {
        std::fs::remove_dir_all(&root)?;
    }
    std::fs::create_dir_all(&root)?;
    for (name, path) in case.finds {
        std::fs::write(root.join(path), content(place, name)?)?;
    }
    let input = content(place, case.input)?;
    let ended = reference::run(place, &root, wasm, case.program, case.arguments, input);
    let ended = ended.map_err(|why| wrong("wasmtime", format!("{why:#}")))?;
    let made = case.makes.iter().map(|path| std::fs::read(root.join(path)));
    let made = made.collect::<std::io::Result<Vec<_>>>();
    Ok(Outcome(ended, made?))
}
