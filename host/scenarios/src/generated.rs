//! Generated modules on both kernels and under wasmtime on the host: what they print and how they
//! end must be the same. So it is our compiled code that is compared, on the chip's ISAs. On
//! shadow, which has no SIMD, a function that uses it traps when it is called.

use super::machine::demand;
use super::programs::{Running, wrong};
use super::{Failure, PATIENCE, Rig};
use crate::reference;
use builds::compiler;
use deploy::exec::{Captured, Line};
use deploy::install;
use std::path::PathBuf;
use std::process::Command;
use tree::place::Place;

const KERNELS: [&str; 2] = ["main", "shadow"];
/// A program is one file for each ISA.
const ISAS: [&str; 2] = ["aarch64", "riscv64"];
/// The kernel without SIMD.
const PLAIN: &str = "shadow";
/// How often a module of ten may end because its stack is exhausted. Frames differ between ISAs, so
/// such an end is no result.
const DEEP: usize = 1;

/// Runs `count` modules of `pen-smith compute`.
pub fn agree(rig: &mut Rig, count: usize) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let bench = Bench { place: Place::find()?, folder: made(rig, count)? };
    let (mut deep, mut printed, mut trapped) = (0, 0, 0);
    for index in 0..count {
        let name = format!("compute-{index}");
        let wanted = bench.on_host(&name)?;
        if wanted.end == "stack" {
            deep += 1;
            continue;
        }
        let plain = format!("plain-{index}");
        let has_simd = bench.file(&plain).is_file();
        let plain = if has_simd { bench.on_host(&plain)? } else { wanted.clone() };
        if plain.end == "stack" {
            deep += 1;
            continue;
        }
        printed += plain.out.len();
        trapped += usize::from(plain.out.len() < wanted.out.len());
        bench.put(rig, &name)?;
        for kernel in KERNELS {
            let found = bench.on_board(rig, kernel, &name)?;
            let wanted = if kernel == PLAIN { &plain } else { &wanted };
            if found != *wanted {
                return Err(wrong(&format!("{name} on {kernel}"), differ(&found, wanted)));
            }
        }
        for isa in ISAS {
            let gone = demand(rig, &format!("fs rm bin/{name}.{isa}"), "")?;
            if gone.contains("! ") {
                return Err(wrong("a program that stays", gone));
            }
        }
        rig.counted.add(1, "modules");
    }
    if deep * 10 > DEEP * count || printed < 24 * count || trapped * 8 < count {
        return Err(wrong("modules that show little", (deep, printed, trapped)));
    }
    mistaken(rig, &bench, count)
}

/// One instruction taken for another must be noticed, of the first module that shows it.
fn mistaken(rig: &mut Rig, bench: &Bench, count: usize) -> Result<(), Failure> {
    let is_plain = |index: &usize| !bench.file(&format!("plain-{index}")).is_file();
    for index in (0..count).filter(is_plain) {
        let name = format!("mistake-{index}");
        let wanted = bench.on_host(&format!("compute-{index}"))?;
        if bench.on_host(&name)? == wanted {
            continue;
        }
        bench.put(rig, &name)?;
        for kernel in KERNELS {
            if bench.on_board(rig, kernel, &name)? == wanted {
                return Err(wrong(kernel, format!("{name} was not noticed")));
            }
        }
        return Ok(());
    }
    Err(wrong("mistakes", "no module shows one"))
}

/// Generates the modules. Returns their folder.
fn made(rig: &Rig, count: usize) -> Result<PathBuf, Failure> {
    let failed = |why: anyhow::Error| wrong("pen-smith", format!("{why:#}"));
    let what = "building the generator of random modules";
    let smith = compiler::helper(&Place::find()?, "smith", "pen-smith", what).map_err(failed)?;
    let folder = rig.instance.path("computing");
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(smith);
    command.args(["compute", "1", &count.to_string()]).arg(&folder);
    if command.status()?.success() { Ok(folder) } else { Err(wrong("pen-smith", command)) }
}

/// What a module printed, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Outcome {
    out: Vec<u8>,
    end: &'static str,
}

struct Bench {
    place: Place,
    folder: PathBuf,
}

impl Bench {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.wasm"))
    }

    fn put(&self, rig: &Rig, name: &str) -> Result<(), Failure> {
        let put = install::put(&self.place, &rig.instance, &self.file(name), None, name);
        put.map(|_| ()).map_err(|why| wrong("install", format!("{name}: {why:#}")))
    }

    fn on_host(&self, name: &str) -> Result<Outcome, Failure> {
        let file = self.file(name);
        let ended = reference::run(&self.place, &self.folder, &file, name, &[], vec![]);
        outcome(ended.map_err(|why| wrong("wasmtime", format!("{why:#}")))?)
    }

    fn on_board(&self, rig: &Rig, kernel: &str, name: &str) -> Result<Outcome, Failure> {
        outcome(Running::of(&rig.instance, Line::on(kernel, name, &[]), b"").end()?)
    }
}

/// Ends, with what wasmtime and `pen exec` say of them.
const ENDS: [(&str, &[&str]); 5] = [
    ("stack", &["call stack exhausted", "recursion without end"]),
    ("memory", &["out of bounds memory access", "outside its memory"]),
    ("table", &["undefined element", "uninitialized element", "call type mismatch", "a table's"]),
    ("unreachable", &["`unreachable` instruction", "trap: unreachable"]),
    ("number", &["divide by zero", "integer overflow", "conversion to integer", "a division"]),
];

fn outcome(captured: Captured) -> Result<Outcome, Failure> {
    let text = String::from_utf8_lossy(&captured.err).into_owned();
    let said = ENDS.iter().find(|(_, texts)| texts.iter().any(|it| text.contains(it)));
    let end = match (captured.code, said) {
        (0, None) => "exit",
        (134, Some((end, _))) => end,
        _ => return Err(wrong("a module that ends otherwise", captured)),
    };
    Ok(Outcome { out: captured.out, end })
}

/// Returns how both ended, and the number of the first sum that differs.
fn differ(found: &Outcome, wanted: &Outcome) -> String {
    let pairs = found.out.chunks(8).zip(wanted.out.chunks(8));
    let same = pairs.take_while(|(one, other)| one == other).count();
    let [one, other] =
        [found, wanted].map(|it| format!("{} after {} sums", it.end, it.out.len() / 8));
    format!("{one}, wasmtime {other}; the first {same} agree")
}
