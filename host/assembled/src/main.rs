//! Kernels as shipped, a process each, on a simulated chip. One process runs at a time; which one,
//! for how long, and in which order its stores arrive in memory, follows from one seed, and so does
//! what happens to the domains: they are slow, stopped, killed and started again.
//!
//! ```text
//!                                  +-- kernel of domain 0: callers, services, peers, coherence
//!   main -- a seed -- plan -- soc -+
//!                                  +-- kernel of domain 1: the same
//!            turn, raw, layout: the memory and the turn that they share
//! ```
//! - [`plan`]: what the seed decides; [`points`]: or that a domain ends at one certain step
//! - [`soc`]: the power controller, over processes
//! - [`kernel`]: a kernel's process
//! - [`callers`], [`shared`], [`processes`], [`talks`]: what runs on it
//! - [`history`]: what callers were answered; [`mod@judge`]: whether an order explains it
//! - [`chip`]: stores, caches, interrupts and time as the kernel sees them
//! - [`turn`]: which process runs
//! - [`report`]: what the runs have done
//! - [`layout`], [`raw`]: addresses, and the home of `unsafe`

mod callers;
mod chip;
mod history;
mod judge;
mod kernel;
mod layout;
mod plan;
mod points;
mod processes;
mod raw;
mod report;
mod shared;
mod soc;
mod talks;
mod turn;

use points::{Point, Sample};
use report::Count;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

const USAGE: &str = "assembled [--seeds N] [--start S] [--seed X] [--trace] [--break NAME]
          [--kill D@K] [--stop D@K] [--points N | --pairs N]
  --seeds N     run N seeds (10), from --start (0), on all cores
  --seed X      run one seed; with --trace, print the kernels' logs
  --kill D@K    let domain D die at its K-th step, and nothing else happen
  --stop D@K    the same for a stop of domain D; both options together: each at its step
  --points N    N runs: in each, one domain is killed or stopped at a random step
  --pairs N     the same, one domain stopped and the other one killed
  --break NAME  let the chip forget something, which must be found:
                barrier, clean, invalidate, ring; or let a kernel not name its
                processes, a reader get other bytes, or a message of a channel
                be lost or come twice: name, read, lose, twice";

/// So many runs do everything that is counted.
const ENOUGH: u64 = 100;

/// The command line.
pub struct Options {
    start: u64,
    seeds: u64,
    is_loud: bool,
    broken: Option<chip::Broken>,
    /// Those of the command line, or what is sampled.
    points: Vec<Point>,
    sample: Option<Sample>,
}

impl Options {
    /// Whether nothing happens but at points.
    fn has_points(&self) -> bool {
        self.sample.is_some() || !self.points.is_empty()
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { start: 0, seeds: 10, is_loud: false, broken: None, points: vec![], sample: None };
    while let Some(argument) = arguments.next() {
        if argument == "--trace" {
            options.is_loud = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        if argument == "--break" {
            let named = chip::Broken::ALL.into_iter().find(|(name, _)| *name == value);
            options.broken = Some(named.ok_or(format!("the chip cannot forget {value}"))?.1);
            continue;
        }
        if argument == "--kill" || argument == "--stop" {
            options.points.push(Point::parse(&value, argument == "--kill")?);
            continue;
        }
        let number = value.parse().map_err(|_| format!("{value} is not a number"))?;
        match argument.as_str() {
            "--seeds" => options.seeds = number,
            "--start" => options.start = number,
            "--points" => (options.seeds, options.sample) = (number, Some(Sample::One)),
            "--pairs" => (options.seeds, options.sample) = (number, Some(Sample::Pair)),
            "--seed" => (options.start, options.seeds) = (number, 1),
            _ => return Err(format!("there is no option {argument}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(options) => run(&options),
        Err(why) => {
            eprintln!("assembled: {why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs the seeds in worker processes, one for each core of the host. A worker stops at its first
/// failure.
fn run(options: &Options) -> ExitCode {
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let begun = std::time::Instant::now();
    if let Err(why) = talks::prepare() {
        eprintln!("assembled: {why}");
        return ExitCode::FAILURE;
    }
    report::map();
    let pids: Vec<i32> = (0..workers.min(options.seeds))
        .map(|worker| {
            raw::fork(|| {
                raw::stay_on(worker as usize);
                let mut mine = (0..options.seeds).filter(|seed| seed % workers == worker);
                let all_good = mine.all(|seed| one(options.start + seed, options));
                raw::exit(i32::from(!all_good));
            })
        })
        .collect();
    let good = pids.iter().filter(|&&pid| raw::ended(pid, true) == Some(0)).count();
    let verdict = if good == pids.len() { judge(options) } else { Err("see above".into()) };
    let outcome = match &verdict {
        Ok(()) => "all went well".to_owned(),
        Err(why) => format!("failed: {why}"),
    };
    let (first, last) = (options.start, options.start + options.seeds - 1);
    let seconds = begun.elapsed().as_secs_f64();
    println!("assembled: seeds {first} to {last}: {outcome}, {seconds:.1} s");
    println!("assembled: {}", report::totals());
    if verdict.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Judges what runs without a failure have done together.
fn judge(options: &Options) -> Result<(), String> {
    let totals = report::totals();
    if options.sample.is_some() {
        let done = totals.get(Count::Deaths) + totals.get(Count::Stops);
        println!("assembled: {done} points");
        return match done * 2 >= options.seeds {
            true => Ok(()),
            false => Err(format!("most runs end before the point: {done} of {}", options.seeds)),
        };
    }
    let too_long = totals.get(Count::TooLong);
    // A few runs say little about all runs.
    if options.seeds < ENOUGH {
        return Ok(());
    }
    if too_long * 10 > options.seeds {
        return Err(format!("{too_long} of {} histories are too long", 2 * options.seeds));
    }
    match totals.missing() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("of all runs, none had {}", missing.join(" or "))),
    }
}

/// Runs one seed in a process of its own. Returns false if it failed.
fn one(seed: u64, options: &Options) -> bool {
    let pid = raw::fork(|| {
        let points = points::of(seed, options);
        let plan = plan::Plan::new(seed, !options.has_points());
        let result = plan.and_then(|plan| {
            let result = soc::run(&plan, seed, &points, options);
            let judged = result.and_then(|()| judge::judge(&turn::control().counts));
            judged.map_err(|why| format!("{why}\n  {}{:?}", plan.modes, plan.acts))?;
            let turn::Control { counts, trace, .. } = turn::control();
            report::totals().add_all(counts);
            if options.seeds == 1 {
                println!("seed {seed}: trace {:016x}", trace.load(Relaxed));
            }
            Ok(())
        });
        if let Err(why) = &result {
            let points: String = points.iter().map(points::Point::option).collect();
            eprintln!(
                "seed {seed} failed: {why}\n  again: assembled --seed {seed}{points} --trace"
            );
        }
        raw::exit(i32::from(result.is_err()));
    });
    raw::ended(pid, true) == Some(0)
}
