//! A lab scenario with programs, done in several ways: on other boards, by other kernels, with
//! another policy of rest. Compares the energy of all domains. `lab/day.toml`.

use super::kit::Kit;
use super::run::{Outcome, Phase};
use super::scenario::{Content, ProgramRun, Way, Ways};
use super::{programs, records};
use ::records::said::Said;
use anyhow::{Context, ensure};
use builds::kernels::Profile;
use lab::model::{Domain, Mode};
use lab::page::State;
use std::cell::RefCell;
use std::io::Write;
use std::process::ExitCode;
use tree::place::Place;
use tree::progress::Step;
use workbench::model::Choice;
use workbench::prepare;

/// Does all ways. The records go to one file, for `pen report`.
pub fn series(place: &Place, title: &str, ways: &Ways) -> anyhow::Result<ExitCode> {
    let folder = place.target.join("lab");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{title}.jsonl"));
    let mut file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    println!(
        "{:<8} {:<8} {:>10} {:>10} {:>10} {:>8} {:>12}",
        "way", "domain", "active, s", "idle, s", "at rest, s", "rests", "energy, J"
    );
    let contracts = deploy::contracts::names(&place.root);
    for way in &ways.way {
        let (_, kernels) = prepare::board_and_kernels(place, &way.board, Profile::KernelTrials)?;
        let folder = folder.join(title);
        let kit = Kit { place, kernels: &kernels, folder, counted: RefCell::default() };
        let step = Step::begin(&format!("{title}, {}", way.name));
        let outcome = run(&kit, way, &ways.program)?;
        step.done();
        let about = records::About {
            title: &format!("{title}-{}", way.name),
            board: &way.board,
            choice: Choice::default(),
            repetition: 1,
            contracts: &contracts,
        };
        for record in records::of(&about, &outcome) {
            writeln!(file, "{record}")?;
        }
        show(&way.name, &outcome, ways.hours)?;
    }
    println!("records: {}; `./pen report` makes a page of them", path.display());
    Ok(ExitCode::SUCCESS)
}

/// The records `day.WAY` of `lab/day.toml`: joules of a day.
pub fn day(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let path = kit.place.root.join("lab/day.toml");
    let Content::Ways(ways) = Content::read(&path)? else {
        anyhow::bail!("{}: it has no ways", path.display());
    };
    let said = |way: &Way| {
        let outcome = run(kit, way, &ways.program)?;
        let phase = the_phase(&way.name, &outcome)?;
        let day = joules(phase.energy_pj.iter().sum()) * f64::from(ways.hours);
        Ok((format!("day.{}", way.name), day, "J".to_string()))
    };
    ways.way.iter().map(said).collect()
}

fn run(kit: &Kit<'_>, way: &Way, program: &str) -> anyhow::Result<Outcome> {
    let rig = programs::start(kit, (&way.board, Mode::Energy), &way.arguments, program)?;
    let text = std::thread::scope(|scope| {
        let one = |run: &'_ ProgramRun| {
            let words: Vec<&str> = run.words.split_whitespace().collect();
            programs::run(&rig.instance, &run.on, program, &words)
        };
        let all: Vec<_> = way.run.iter().map(|run| scope.spawn(move || one(run))).collect();
        let ended = all.into_iter().map(|it| it.join().expect("it does not panic"));
        ended.collect::<anyhow::Result<String>>()
    })?;
    rig.instance.stop()?;
    Outcome::of_phases(&rig.instance.folder, &text)
}

/// Time of a domain in a phase, in s, and its rests.
#[derive(Default)]
struct Spent {
    active: f64,
    idle: f64,
    rest: f64,
    rests: u32,
}

fn spent(outcome: &Outcome, phase: &Phase, domain: &Domain) -> Spent {
    let mut spent = Spent::default();
    let end = phase.start + phase.time;
    let own = outcome.changes.iter().filter(|change| change.seat == domain.slot);
    let starts: Vec<_> = own.map(|change| (change.time, change.state)).collect();
    let ends = starts.iter().skip(1).map(|&(time, _)| time).chain([outcome.end]);
    for (&(from, state), to) in starts.iter().zip(ends) {
        let time = to.min(end).saturating_sub(from.max(phase.start)) as f64 / 1e12;
        match state {
            State::Active(_) => spent.active += time,
            State::Idle(_) | State::Gated(_) => spent.idle += time,
            State::Inactive | State::Off => {
                spent.rest += time;
                spent.rests += u32::from(time > 0.0);
            }
        }
    }
    spent
}

fn joules(pj: u128) -> f64 {
    pj as f64 / 1e12
}

/// Returns the measured phase.
fn the_phase<'o>(way: &str, outcome: &'o Outcome) -> anyhow::Result<&'o Phase> {
    let [phase] = &outcome.phases[..] else {
        anyhow::bail!("{way}: the programs have printed {} phases, not one", outcome.phases.len());
    };
    ensure!(!phase.energy_pj.is_empty(), "{way}: the board has a domain with several cores");
    Ok(phase)
}

fn show(way: &str, outcome: &Outcome, hours: u32) -> anyhow::Result<()> {
    let phase = the_phase(way, outcome)?;
    for (domain, &pj) in outcome.lab.domains.iter().zip(&phase.energy_pj) {
        let Spent { active, idle, rest, rests } = spent(outcome, phase, domain);
        let (name, joules) = (&domain.name, joules(pj));
        println!(
            "{way:<8} {name:<8} {active:>10.2} {idle:>10.2} {rest:>10.2} {rests:>8} {joules:>12.3}"
        );
    }
    let all = joules(phase.energy_pj.iter().sum());
    println!(
        "{way:<8} {:<8} {all:>54.3}; {hours} such hours: {:.1} J",
        "all",
        all * f64::from(hours)
    );
    Ok(())
}
