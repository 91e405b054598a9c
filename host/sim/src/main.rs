//! `sim --seeds N [--start S] [--break BARRIER]`: many seeds, on all cores; prints the rate.
//! `sim --seed X [--trace] [--break BARRIER]`: one seed, with all its steps.
//! With `--dsm`, the same for the DSM protocol.

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sim::{Break, Failure, Tally, dsm, simulate};

struct Options {
    start: u64,
    seeds: u64,
    trace: bool,
    broken: Option<Break>,
    dsm: bool,
    dsm_broken: Option<dsm::Break>,
}

/// The sum over many seeds.
trait Sum: Default + Debug + Send {
    fn add(&mut self, other: Self);
}

impl Sum for Tally {
    fn add(&mut self, other: Tally) {
        Tally::add(self, other);
    }
}

impl Sum for dsm::Tally {
    fn add(&mut self, other: dsm::Tally) {
        dsm::Tally::add(self, other);
    }
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(options) if options.dsm => {
            let (broken, trace) = (options.dsm_broken, options.trace);
            run(&options, |seed| dsm::simulate(seed, broken, trace))
        }
        Ok(options) => run(&options, |seed| simulate(seed, options.broken, options.trace)),
        Err(problem) => {
            let names = Break::ALL.map(|(name, _)| name).join(" ");
            let dsm = dsm::Break::ALL.map(|(name, _)| name).join(" ");
            eprintln!(
                "sim: {problem}\n\
         sim [--dsm] [--seeds N] [--start S] [--seed X] [--trace] [--break NAME]\n\
         barriers: {names}\n\
         with --dsm: {dsm}"
            );
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { start: 0, seeds: 1000, trace: false, broken: None, dsm: false, dsm_broken: None };
    while let Some(argument) = arguments.next() {
        if argument == "--dsm" {
            options.dsm = true;
            continue;
        }
        if argument == "--trace" {
            options.trace = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is not a number"));
        match argument.as_str() {
            "--seeds" => options.seeds = number()?,
            "--start" => options.start = number()?,
            "--seed" => (options.start, options.seeds) = (number()?, 1),
            "--break" if options.dsm => {
                let named = dsm::Break::ALL.into_iter().find(|(name, _)| *name == value);
                options.dsm_broken = Some(named.ok_or(format!("no barrier {value}"))?.1);
            }
            "--break" => {
                let named = Break::ALL.into_iter().find(|(name, _)| *name == value);
                options.broken = Some(named.ok_or(format!("no barrier {value}"))?.1);
            }
            _ => return Err(format!("unknown {argument}")),
        }
    }
    Ok(options)
}

fn run<T: Sum>(options: &Options, simulate: impl Fn(u64) -> Result<T, Failure> + Sync) -> ExitCode {
    let begin = Instant::now();
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let next = AtomicU64::new(0);
    let work = || {
        let mut tally = T::default();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= options.seeds {
                return Ok(tally);
            }
            match simulate(options.start + n) {
                Ok(one) => tally.add(one),
                Err(failure) => {
                    next.store(options.seeds, Ordering::Relaxed);
                    return Err(failure);
                }
            }
        }
    };
    let results: Vec<Result<T, Failure>> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..workers.min(options.seeds)).map(|_| scope.spawn(work)).collect();
        spawned.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mut tally = T::default();
    for result in results {
        match result {
            Ok(one) => tally.add(one),
            Err(failure) => {
                eprint!("{failure}");
                let which = if options.dsm { "--dsm " } else { "" };
                println!("again: sim {which}--seed {} --trace", failure.seed);
                return ExitCode::FAILURE;
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} seeds in {seconds:.1} s, {:.0} a second: {tally:?}",
        options.seeds,
        options.seeds as f64 / seconds
    );
    println!("record sim.seeds {} seeds", options.seeds);
    ExitCode::SUCCESS
}
