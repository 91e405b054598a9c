//! Records measured by programs: `apps/bench` is built, installed on the board and run as with `pen
//! exec`; its output contains the records.
//!
//! `program.native_ratio.ISA` is computed here: the instructions that `apps/bench/mark.c` takes as
//! a bare-metal image, compiled by clang for the chip and run on the same emulator
//! (`apps/bench/native`), divided by those that it takes as a program (`program.mark`). Both must
//! print the same checksum. clang has the same flags for both; `program.native_ratio_tuned.ISA`
//! uses the program compiled for speed, and `program.native_ratio_movable.ISA` one that can move.

use super::PATIENCE;
use anyhow::{Context, bail, ensure};
use board::{Board, Domain, Isa};
use builds::{apps, kernels};
use deploy::exec::{Line, captured};
use deploy::install;
use labrun::disk;
use labrun::programs::TINY;
use records::benches::Bench;
use records::said::{Said, said};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use tree::place::Place;
use workbench::instance::Instance;
use workbench::machine::Options;
use workbench::rig::{Parts, Rig};
use workbench::{model, prepare};

/// The ratios computed from marks, by the program that prints the mark: compiled for speed, with
/// the flags of native code, and with those and movable.
const RATIOS: [(&str, &str); 4] = [
    ("records", "program.native_ratio_tuned"),
    ("records-plain", "program.native_ratio"),
    ("records-movable", "program.native_ratio_movable"),
    ("records-movable-calls", "program.native_ratio_movable_calls"),
];
/// Programs that others start.
const STARTED: [(&str, &[&str]); 4] = [
    ("offload", &["sat", "index"]),
    ("uploads", &["png", "upload"]),
    ("postmarks", &["postmark"]),
    ("mails", &["mail", "mail-store", "mail-scan", "index"]),
];
/// The program that needs an ext2 on the disk.
const FILES: &str = "records files";
/// The kernel copies the disk into memory, so that device time does not count as instructions.
const IN_MEMORY: &str = "ram=disk";
const MARK: (&str, &str) = ("program.mark", "program.sum");
const NATIVE: (&str, &str) = ("native.mark", "native.sum");

/// Starts the board of a group with `options`, and installs its program and those that it starts.
pub fn start(place: &Place, group: &[Bench], options: Options) -> anyhow::Result<(Rig, Board)> {
    let first = &group[0];
    let started = STARTED.iter().filter(|(name, _)| *name == program(first));
    let names = [program(first)].into_iter().chain(started.flat_map(|(_, all)| *all).copied());
    let programs = names.map(|name| apps::build_for_test(place, name));
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let (board, kernels) =
        prepare::board_and_kernels(place, &first.board, kernels::Profile::Kernel)?;
    let folder = place.target.join("benches").join(&first.board);
    let in_memory = group.iter().any(|bench| bench.command.starts_with(FILES));
    let arguments = match (in_memory, first.disk) {
        (true, _) => Some(IN_MEMORY),
        (false, true) => Some(disk::ROOT.trim_end()),
        (false, false) => None,
    };
    match arguments {
        Some(_) => disk::make(&folder)?,
        None => disk::remove(&folder)?,
    }
    let mut rig = Rig::start(&Parts {
        folder,
        soc: prepare::soc_binary()?,
        board_file: place.board_file(&first.board),
        kernels,
        options: Options { arguments: arguments.map(str::to_string), ..options },
    })?;
    rig.expect(&format!("{}> ", board.main().name), PATIENCE)?;
    let begun = Instant::now();
    while in_memory && !rig.ask(&board.main().name, "fs df", PATIENCE)?.contains("/disk") {
        ensure!(begun.elapsed() < PATIENCE, "the disk is not mounted");
    }
    for built in &programs {
        install::put(place, &rig.instance, &built.wasm, None, &built.name)?;
    }
    install::put(place, &rig.instance, &place.root.join(TINY.1), None, TINY.0)?;
    Ok((rig, board))
}

/// Runs the programs of a group on one board.
pub fn measure(place: &Place, group: &[Bench]) -> anyhow::Result<Vec<Said>> {
    let first = &group[0];
    let lab = match first.lab {
        true => Some((model::Choice::default(), prepare::plugin()?)),
        false => None,
    };
    let options = Options { icount: first.icount, lab, ..Options::default() };
    let (mut rig, board) = start(place, group, options)?;
    let mut done = vec![];
    let mut all = vec![];
    for bench in group {
        let on = if bench.on.is_empty() { &board.main().name } else { &bench.on };
        let what = (on, &bench.command, &bench.moved);
        if done.contains(&what) {
            continue;
        }
        done.push(what);
        let mut found = with_moved(&mut rig, &board, &bench.moved, |instance| {
            run(instance, on, &bench.command)
        })?;
        let domain = board.domains.iter().find(|domain| domain.name == *on);
        let ratio_of = RATIOS.iter().find(|(name, _)| program(bench) == *name);
        if let (Some(domain), Some(mark), Some((_, name))) =
            (domain, value(&found, MARK.0), ratio_of)
        {
            let ratio = ratio(place, domain, mark, value(&found, MARK.1))?;
            found.push((format!("{name}.{}", domain.isa.name()), ratio, "ratio".to_string()));
        }
        all.extend(found);
    }
    Ok(all)
}

/// Runs `work` while services are on given kernels. The names of its records say so.
fn with_moved(
    rig: &mut Rig,
    board: &Board,
    moved: &BTreeMap<String, String>,
    work: impl FnOnce(&Instance) -> anyhow::Result<Vec<Said>>,
) -> anyhow::Result<Vec<Said>> {
    let put = |rig: &mut Rig, service: &str, kernel: &str| {
        let said =
            rig.ask(&board.main().name, &format!("move service {service} {kernel}"), PATIENCE)?;
        ensure!(!said.contains('!'), "the service does not move: {said}");
        Ok(())
    };
    for (service, kernel) in moved {
        put(rig, service, kernel)?;
    }
    let mut found = work(&rig.instance)?;
    for (service, kernel) in moved {
        put(rig, service, "each")?;
        found.iter_mut().for_each(|said| said.0 += &format!("_{service}_on_{kernel}"));
    }
    Ok(found)
}

/// Returns the program of a benchmark's command.
pub fn program(bench: &Bench) -> &str {
    bench.command.split_whitespace().next().unwrap_or_default()
}

/// Runs a program. Returns its records.
pub fn run(instance: &Instance, on: &str, command: &str) -> anyhow::Result<Vec<Said>> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let (name, arguments) = words.split_first().context("a record without a command")?;
    let ended = captured(instance, &Line::on(on, name, arguments), None)?;
    if ended.code != 0 {
        bail!("{command} ended with {}: {}", ended.code, String::from_utf8_lossy(&ended.err));
    }
    Ok(String::from_utf8_lossy(&ended.out).lines().filter_map(said).collect())
}

fn value(all: &[Said], name: &str) -> Option<f64> {
    all.iter().find(|said| said.0 == name).map(|said| said.1)
}

/// Returns the program's speed relative to native code.
fn ratio(place: &Place, domain: &Domain, mark: f64, sum: Option<f64>) -> anyhow::Result<f64> {
    let native = native(place, domain)?;
    let expected = value(&native, NATIVE.1);
    ensure!(sum == expected, "the program computes {sum:?}, the native image {expected:?}");
    let native = value(&native, NATIVE.0).context("the native image printed no record")?;
    Ok((native / mark * 1000.0).round() / 1000.0)
}

/// Compiles the image for the CPU of a domain, and runs it.
fn native(place: &Place, domain: &Domain) -> anyhow::Result<Vec<Said>> {
    let image = image(place, domain)?;
    let (program, machine): (_, &[&str]) = match domain.isa {
        Isa::Aarch64 => ("qemu-system-aarch64", &["-M", "virt,gic-version=2"]),
        Isa::Riscv64 => ("qemu-system-riscv64", &["-M", "virt", "-bios", "none"]),
    };
    let mut qemu = Command::new(program);
    qemu.args(machine).args(["-cpu", &domain.cpu, "-m", "128", "-nodefaults"]);
    qemu.args(["-display", "none", "-serial", "stdio", "-icount", "shift=0,sleep=off"]);
    let output = qemu.arg("-kernel").arg(image).output().context(program)?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(said).collect())
}

fn image(place: &Place, domain: &Domain) -> anyhow::Result<PathBuf> {
    let made = place.target.join("apps").join(format!("mark.{}.elf", domain.isa.name()));
    // For RV64, the extensions that QEMU's rv64 has and the program compiler uses.
    let (target, base): (&[&str], _) = match domain.isa {
        Isa::Aarch64 => (&["--target=aarch64-none-elf", "-mcpu=cortex-a76"], "0x40200000"),
        Isa::Riscv64 => (
            &[
                "--target=riscv64-none-elf",
                "-march=rv64gc_zba_zbb_zbs",
                "-mabi=lp64d",
                "-mcmodel=medany",
            ],
            "0x80000000",
        ),
    };
    let mut clang = Command::new("clang-19");
    clang.current_dir(place.root.join("apps/bench")).args(target);
    clang.args(["-O2", "-ffreestanding", "-nostdlib", "-static", "-fuse-ld=lld-19"]);
    clang.arg(format!("-Wl,-T,native/image.ld,--defsym=base={base}"));
    clang.args(["native/start.c", "mark.c", "-o"]).arg(&made);
    ensure!(clang.status().context("clang-19")?.success(), "the native image does not build");
    Ok(made)
}
