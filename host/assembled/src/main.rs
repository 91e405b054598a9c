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
//! - [`callers`], [`shared`], [`processes`], [`talks`], [`windows`]: what runs on it
//! - [`workloads`]: what callers do; [`enumeration`]: a domain ends at each step of a workload
//! - [`history`]: what callers were answered; [`mod@judge`]: whether an order explains it
//! - [`chip`]: stores, caches, interrupts and time as the kernel sees them
//! - [`turn`]: which process runs
//! - [`report`]: what the runs have done
//! - [`layout`], [`raw`]: addresses, and the home of `unsafe`

mod callers;
mod chip;
mod enumeration;
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
mod windows;
mod workloads;

use enumeration::Stride;
use points::{Point, Sample};
use report::Count;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use workloads::Workload;

const USAGE: &str = "assembled [--seeds N] [--start S] [--seed X] [--trace] [--break NAME]
          [--kill D@K] [--stop D@K] [--points N | --pairs N]
          [--workload W | --all W [--every N] [--offset M]]
  --seeds N     run N seeds (10), from --start (0), on all cores
  --seed X      run one seed; with --trace, print the kernels' logs
  --kill D@K    let domain D die at its K-th step, and nothing else happen
  --stop D@K    the same for a stop of domain D; both options together: each at its step
  --points N    N runs: in each, one domain is killed or stopped at a random step
  --pairs N     the same, one domain stopped and the other one killed
  --workload W  callers do something short: files, pipe, processes, channel or balloon,
                with --seed 4, unless another one follows
  --all W       one run of it for each step of its callers, at which their domain is
                killed, and one at which it is stopped; only each N-th step with
                --every, from the M-th one with --offset
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
    workload: Option<&'static Workload>,
    /// The points of the workload, if there is a run for each of them.
    stride: Option<Stride>,
}

impl Options {
    fn new() -> Options {
        Options {
            start: 0,
            seeds: 10,
            is_loud: false,
            broken: None,
            points: vec![],
            sample: None,
            workload: None,
            stride: None,
        }
    }

    /// Sets what an option with a value says.
    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        let number = || value.parse().map_err(|_| format!("{value} is not a number"));
        match option {
            "--break" => {
                let named = chip::Broken::ALL.into_iter().find(|(name, _)| *name == value);
                self.broken = Some(named.ok_or(format!("the chip cannot forget {value}"))?.1);
            }
            "--kill" | "--stop" => self.points.push(Point::parse(value, option == "--kill")?),
            "--workload" | "--all" => {
                self.workload = Some(Workload::find(value)?);
                (self.start, self.seeds) = (workloads::SEED, 1);
                self.stride = (option == "--all").then_some(Stride { every: 1, offset: 0 });
            }
            "--every" | "--offset" => {
                let stride = self.stride.as_mut();
                let stride = stride.ok_or(format!("{option} is an option of --all"))?;
                let of = if option == "--every" { &mut stride.every } else { &mut stride.offset };
                *of = number()?;
                if stride.every == 0 {
                    return Err("--every 0 reaches no step".into());
                }
            }
            "--seeds" => self.seeds = number()?,
            "--start" => self.start = number()?,
            "--points" => (self.seeds, self.sample) = (number()?, Some(Sample::One)),
            "--pairs" => (self.seeds, self.sample) = (number()?, Some(Sample::Pair)),
            "--seed" => (self.start, self.seeds) = (number()?, 1),
            _ => return Err(format!("there is no option {option}")),
        }
        Ok(())
    }

    /// Returns whether nothing happens but at points.
    fn has_points(&self) -> bool {
        self.has_sample() || !self.points.is_empty() || self.workload.is_some()
    }

    fn has_sample(&self) -> bool {
        self.sample.is_some()
    }

    /// Returns the command that repeats a run.
    fn again(&self, seed: u64, points: &[Point]) -> String {
        let workload = self.workload.map_or(String::new(), |it| format!(" --workload {}", it.name));
        let broken = chip::Broken::ALL.into_iter().find(|(_, broken)| Some(*broken) == self.broken);
        let broken = broken.map_or(String::new(), |(name, _)| format!(" --break {name}"));
        let points: String = points.iter().map(Point::option).collect();
        format!("assembled{workload} --seed {seed}{points}{broken} --trace")
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::new();
    while let Some(argument) = arguments.next() {
        if argument == "--trace" {
            options.is_loud = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        options.set(&argument, &value)?;
    }
    let is_more = options.seeds != 1 || options.has_sample() || !options.points.is_empty();
    match options.stride {
        Some(_) if is_more => Err("--all makes points of one seed itself".into()),
        _ => Ok(options),
    }
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

/// Does what the command line says, and reports what came of it.
fn run(options: &Options) -> ExitCode {
    let begun = std::time::Instant::now();
    if let Err(why) = talks::prepare() {
        eprintln!("assembled: {why}");
        return ExitCode::FAILURE;
    }
    report::map();
    let verdict = match options.stride {
        Some(stride) => enumeration::run(options, stride),
        None => seeds(options),
    };
    let outcome = match &verdict {
        Ok(()) => "all went well".to_owned(),
        Err(why) => format!("failed: {why}"),
    };
    let (first, last) = (options.start, options.start + options.seeds - 1);
    let seconds = begun.elapsed().as_secs_f64();
    println!("assembled: seeds {first} to {last}: {outcome}, {seconds:.1} s");
    println!("assembled: {}", report::totals());
    let reached = [Count::Deaths, Count::Stops].map(|what| report::totals().get(what));
    match options.has_points() {
        true => println!("record assembled.points {} points", reached[0] + reached[1]),
        false if verdict.is_ok() => println!("record assembled.seeds {} seeds", options.seeds),
        false => {}
    }
    if verdict.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all seeds.
fn seeds(options: &Options) -> Result<(), String> {
    let all_good = on_all_cores(options.seeds, |number| {
        let seed = options.start + number;
        one(seed, &points::of(seed, options), options)
    });
    if all_good { judge(options) } else { Err("see above".into()) }
}

/// Does jobs in worker processes, one for each core of the host. A worker stops at the first job
/// that returns false. Returns whether none did.
fn on_all_cores(jobs: u64, job: impl Fn(u64) -> bool) -> bool {
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let pids: Vec<i32> = (0..workers.min(jobs))
        .map(|worker| {
            raw::fork(|| {
                raw::stay_on(worker as usize);
                let mut mine = (0..jobs).filter(|number| number % workers == worker);
                let all_good = mine.all(&job);
                raw::exit(i32::from(!all_good));
            })
        })
        .collect();
    // All of them are waited for.
    pids.iter().filter(|&&pid| raw::ended(pid, true) != Some(0)).count() == 0
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

/// Runs one seed, with these points, in a process of its own. Returns false if it failed.
fn one(seed: u64, points: &[Point], options: &Options) -> bool {
    let pid = raw::fork(|| {
        let plan = plan::Plan::new(seed, !options.has_points());
        let result = plan.and_then(|plan| {
            let result = soc::run(&plan, seed, points, options);
            let judged = result.and_then(|()| judge::judge(&turn::control().counts));
            judged.map_err(|why| format!("{why}\n  {}{:?}", plan.modes, plan.acts))?;
            let control = turn::control();
            report::add(&control.counts, control.cores.iter().map(turn::Core::span));
            if options.seeds == 1 && options.stride.is_none() {
                println!("seed {seed}: trace {:016x}", control.trace.load(Relaxed));
            }
            Ok(())
        });
        if let Err(why) = &result {
            eprintln!("seed {seed} failed: {why}\n  again: {}", options.again(seed, points));
        }
        raw::exit(i32::from(result.is_err()));
    });
    raw::ended(pid, true) == Some(0)
}
