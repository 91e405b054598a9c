//! The commands about boards: build, up, run, console, down, ps.

use crate::instance::{BORROWED, Instance, InstanceError};
use crate::kernels::{self, Built, Profile};
use crate::lab::{findings, meter};
use crate::place::Place;
use crate::processes;
use crate::progress::Step;
use crate::run_files::VSOCK;
use crate::{How, Which, apps, console, image, system, transfer};
use abi::soc::state;
use anyhow::{Context, anyhow, bail};
use board::Board;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Reads the board and builds its kernels.
pub fn prepare(place: &Place, name: &str, profile: Profile) -> anyhow::Result<(Board, Vec<Built>)> {
    let file = find(place, name)?;
    let board = board::read(&file)?;
    let kernels = kernels::build(place, &kernels::isas(&board), profile)?;
    Ok((board, kernels))
}

/// Builds a board's kernels, and at the same time the system's programs if it has them: neither
/// needs the other, and each build leaves cores idle while its last crates are compiled.
fn build_all(
    place: &Place,
    board: &Board,
    profile: Profile,
    has_programs: bool,
) -> anyhow::Result<(Vec<Built>, Option<Vec<apps::Built>>)> {
    std::thread::scope(|scope| {
        let programs = scope.spawn(|| has_programs.then(|| apps::build(place, &[])).transpose());
        let kernels = kernels::build(place, &kernels::isas(board), profile)?;
        let programs = programs.join();
        let programs = programs.map_err(|_| anyhow!("the build of the programs panicked"))??;
        Ok((kernels, programs))
    })
}

/// The board file called `name`.
fn find(place: &Place, name: &str) -> anyhow::Result<PathBuf> {
    let file = place.board_file(name);
    if !file.exists() {
        bail!("there is no board \"{name}\"; boards: {}", place.boards().join(", "));
    }
    Ok(file)
}

/// The instance that `up` makes of the board `name` by default.
pub fn own(place: &Place, name: &str) -> anyhow::Result<Instance> {
    let board = board::read(&find(place, name)?)?;
    Ok(Instance::named(place, &board.name)?)
}

/// The soc's binary: beside this one.
pub fn soc_binary() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("soc");
    if !path.exists() {
        bail!("{} is missing: `cargo build -p soc` makes it, ./pen does so itself", path.display());
    }
    Ok(path)
}

/// `pen build`
pub fn build(place: &Place, which: &Which) -> anyhow::Result<ExitCode> {
    let (board, kernels) = prepare(place, &which.board, which.profile)?;
    let folder = place.target.join("images").join(&board.name);
    std::fs::create_dir_all(&folder)?;
    for domain in &board.domains {
        let built = kernels.iter().find(|b| b.isa == domain.isa).context("an ISA was not built")?;
        let elf = std::fs::read(&built.kernel).context(built.kernel.display().to_string())?;
        let staged = image::stage(&elf, &board, domain)
            .with_context(|| format!("domain \"{}\"", domain.name))?;
        let path = folder.join(format!("{}.img", domain.name));
        std::fs::write(&path, &staged)?;
        println!("{}: {} KiB, from {}", path.display(), staged.len() >> 10, built.kernel.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// `pen up`
pub fn up(place: &Place, how: &How) -> anyhow::Result<Instance> {
    let file = find(place, &how.which.board)?;
    let name = how.name.clone().map_or_else(|| board::read(&file).map(|b| b.name), Ok)?;
    let instance = Instance::named(place, &name)?;
    if instance.soc().is_some() {
        return Err(InstanceError::Running(name).into());
    }
    let board = board::read(&file)?;
    let mut options = how.options()?;
    let has_system = !how.bare && !options.is_exact() && system::fits(&board);
    let has_programs = has_system && how.lent != Some(false);
    let (kernels, programs) = build_all(place, &board, how.which.profile, has_programs)?;
    if has_system {
        options.arguments = Some(if how.lent.is_some() {
            let own = Instance::named(place, &board.name)?;
            system::lend(place, &own, &instance, &board, programs.as_deref())?
        } else {
            let (programs, key) = (programs.unwrap_or_default(), instance.lasting_key()?);
            system::prepare(place, &instance, &board, &programs, &key)?;
            system::arguments(options.arguments.as_deref().unwrap_or(&board.arguments))
        });
    }
    let step = Step::begin(&format!("starting {}", instance.name));
    instance.start(&soc_binary()?, &file, &kernels, &options)?;
    step.done();
    if how.lent.is_some() {
        return Ok(instance);
    }
    eprintln!("pen: {} is up: ./pen console {0}, ./pen down {0}", instance.name);
    Ok(instance)
}

/// `pen run`
pub fn run(place: &Place, how: &How) -> anyhow::Result<ExitCode> {
    let instance = up(place, how)?;
    let attached = console::attach(&instance, false);
    end(&instance)?;
    attached?;
    eprintln!("pen: {} is down; logs stay in {}", instance.name, instance.folder.display());
    Ok(verdict(findings::show(&instance.folder)?))
}

/// Returns the only running board, if there is one. A board that ends with its program does not
/// count.
pub fn only(place: &Place) -> anyhow::Result<Option<Instance>> {
    let free = |i: &Instance| i.soc().is_some() && !i.name.starts_with(BORROWED);
    let mut running: Vec<Instance> = Instance::all(place).into_iter().filter(free).collect();
    match (running.pop(), running.len()) {
        (one, 0) => Ok(one),
        (_, _) => bail!("several boards are running: say which (`./pen ps` lists them)"),
    }
}

/// The named instance, or the only one that runs.
fn choose(place: &Place, name: Option<&str>) -> anyhow::Result<Instance> {
    match name {
        Some(name) => Ok(Instance::named(place, name)?),
        None => only(place)?.context("no board is running; `./pen up` starts one"),
    }
}

/// Does something with a board that runs.
pub fn with_running(
    place: &Place,
    name: Option<&str>,
    work: impl FnOnce(&Instance) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let instance = choose(place, name)?;
    if instance.soc().is_none() {
        return Err(InstanceError::NotRunning(instance.name).into());
    }
    work(&instance)?;
    Ok(ExitCode::SUCCESS)
}

/// `pen console`
pub fn console(place: &Place, name: Option<&str>) -> anyhow::Result<ExitCode> {
    with_running(place, name, |instance| Ok(console::attach(instance, true)?))
}

/// `pen down`
pub fn down(place: &Place, name: Option<&str>, all: bool) -> anyhow::Result<ExitCode> {
    let instances = match all {
        true => Instance::all(place).into_iter().filter(living).collect(),
        false => vec![choose(place, name)?],
    };
    let mut found = 0;
    for instance in instances {
        if !living(&instance) {
            return Err(InstanceError::NotRunning(instance.name).into());
        }
        end(&instance)?;
        println!("{} is down", instance.name);
        found += findings::show(&instance.folder)?;
    }
    Ok(verdict(found))
}

/// How long a board may take to write what it has.
const SETTLING: Duration = Duration::from_secs(10);

/// Ends a board: what its programs have written is on its disk by then, if the board still answers.
fn end(instance: &Instance) -> anyhow::Result<()> {
    let runs = instance.soc().is_some() && instance.folder.join(VSOCK).exists();
    if runs
        && instance.board().is_ok_and(|board| system::fits(&board))
        && let Err(why) = transfer::settle(instance, SETTLING)
    {
        let lost = "what was written there in its last seconds may not be on its disk";
        eprintln!("pen: {}: {lost}: {why:#}", instance.name);
    }
    Ok(instance.stop()?)
}

/// A board on which the sanitizer found something is a failure.
fn verdict(found: usize) -> ExitCode {
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn living(instance: &Instance) -> bool {
    instance.soc().is_some() || !instance.machines().is_empty()
}

/// `pen ps`
pub fn ps(place: &Place) -> anyhow::Result<ExitCode> {
    let running: Vec<Instance> = Instance::all(place).into_iter().filter(living).collect();
    let strays = processes::strays(place);
    if running.is_empty() && strays.is_empty() {
        println!("no board is running");
    }
    for instance in running {
        let Some(soc) = instance.soc() else {
            println!("{}: its soc is dead, QEMUs are left: ./pen down {0}", instance.name);
            continue;
        };
        let board = instance.board()?;
        println!("{} (board {}, soc {})", instance.name, board.name, soc.as_raw_nonzero());
        for (domain, (epoch, now, deaths)) in board.domains.iter().zip(instance.states(&board)) {
            println!(
                "  {:<12} {:<8} x{}  {:<8} epoch {epoch}, {deaths} deaths",
                domain.name,
                domain.isa.name(),
                domain.cores,
                state::name(now)
            );
        }
        if let Some((ns, used)) = meter::used(&instance) {
            println!("  in the lab, {:.6} s of the chip", ns as f64 / 1e9);
            for (name, uj) in used {
                println!("  {:<28} {uj:>14.3} uJ", format!("energy of {name}"));
            }
        }
    }
    for stray in strays {
        println!("{}; {}", stray.text(), stray.end());
    }
    Ok(ExitCode::SUCCESS)
}
