//! The commands about boards: build, up, run, console, down, ps.

use crate::{console, forward};
use abi::soc::state;
use anyhow::Context;
use builds::image;
use deploy::up::{How, Which, only, up};
use deploy::{system, transfer};
use std::process::ExitCode;
use std::time::Duration;
use tree::place::Place;
use workbench::instance::{Instance, InstanceError};
use workbench::network::Network;
use workbench::prepare::board_and_kernels;
use workbench::processes;
use workbench::run_files::VSOCK;
use workbench::{findings, meter};

/// `pen build`
pub fn build(place: &Place, which: &Which) -> anyhow::Result<ExitCode> {
    let (board, kernels) = board_and_kernels(place, &which.board, which.profile)?;
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

/// `pen run`
pub fn run(place: &Place, how: &How) -> anyhow::Result<ExitCode> {
    let instance = up(place, how)?;
    let attached = console::attach(&instance, false);
    end(&instance)?;
    attached?;
    eprintln!("pen: {} is down; logs stay in {}", instance.name, instance.folder.display());
    Ok(verdict(findings::show(&instance.folder)?))
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
        let lost = "what programs wrote in the last seconds may not be on its disk";
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

/// Lists the addresses of a board, what they are attached to, and the published ports.
fn network(instance: &Instance, board: &board::Board) {
    let Some(net) = board.devices.iter().find_map(|device| device.net) else { return };
    let attached = match instance.network() {
        Some(Network::User) => "this host's network".to_string(),
        Some(Network::Socket(path)) => path.display().to_string(),
        Some(Network::Script(path)) => format!("the script {}", path.display()),
        Some(Network::None) | None => "no network".to_string(),
    };
    println!("  network      {}, {}: {attached}", net.v4.address, net.v6.address);
    for forward in instance.published() {
        println!("  published    {}", forward::shown(&forward));
    }
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
            println!("{}: its soc died and left QEMUs; `./pen down {0}` ends them", instance.name);
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
        network(&instance, &board);
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
