//! `pen bench PREFIX --profile`: the commands run in the lab, each once, and what is printed is not
//! their records but where the cycles went. The counts begin when the programs are installed and
//! the kernels wait at the prompt, so boot and installation are not in them.

use super::{PATIENCE, chosen, groups, programs};
use anyhow::bail;
use records::benches::{Bench, Measure};
use std::process::ExitCode;
use tree::place::Place;
use workbench::machine::Options;
use workbench::model::Choice;
use workbench::prepare;
use workbench::profile::{Counts, show};
use workbench::rig::{Parts, Rig};

/// Profiles the benchmarks whose names begin with `prefix`: one profile for each board.
pub fn bench(place: &Place, prefix: &str) -> anyhow::Result<ExitCode> {
    for group in groups(&chosen(place, prefix)?) {
        let names: Vec<&str> = group.iter().map(|bench| bench.name.as_str()).collect();
        println!("{} on {}", names.join(", "), group[0].board);
        one(place, &group)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one(place: &Place, group: &[Bench]) -> anyhow::Result<()> {
    let choice = Choice { profile: true, ..Choice::default() };
    let options = Options { lab: Some((choice, prepare::plugin()?)), ..Options::default() };
    let (mut rig, main) = match group[0].measure {
        Measure::Program => {
            let (rig, board) = programs::start(place, group, options)?;
            (rig, board.main().name.clone())
        }
        Measure::Kernel => start(place, &group[0], options)?,
        _ => bail!("{}: --profile is for commands and programs", group[0].name),
    };
    let folder = rig.instance.folder.clone();
    let before = Counts::read(&folder)?;
    let mut done: Vec<(&str, &str)> = vec![];
    for bench in group {
        let on = if bench.on.is_empty() { &main } else { &bench.on };
        if done.contains(&(on, &bench.command)) {
            continue;
        }
        done.push((on, &bench.command));
        match bench.measure {
            Measure::Program => drop(programs::run(&rig.instance, on, &bench.command)?),
            _ => drop(rig.ask(&main, &bench.command, PATIENCE)?),
        }
    }
    rig.instance.stop()?;
    show(&folder, &before)
}

/// Starts the board of a kernel's benchmark. Returns the name of its main domain too.
fn start(place: &Place, first: &Bench, options: Options) -> anyhow::Result<(Rig, String)> {
    let (board, kernels) = prepare::board_and_kernels(place, &first.board, super::profile(first))?;
    let main = board.main().name.clone();
    let mut rig = Rig::start(&Parts {
        folder: place.target.join("benches").join(&first.board),
        soc: prepare::soc_binary()?,
        board_file: place.board_file(&first.board),
        kernels,
        options,
    })?;
    rig.expect(&format!("{main}> "), PATIENCE)?;
    Ok((rig, main))
}
