//! Checks a board with several cores per process: about the same time and energy in every run,
//! accounts that add up, and no core that waits forever. `pen test lab`.

use super::killed::kill;
use super::kit::Kit;
use super::records;
use super::run::{Outcome, cycles};
use anyhow::ensure;
use lab::page::{Count, State};
use workbench::model::Choice;

/// The commands: all cores working, all waiting, calls between domains.
const WORK: &str = "ping shadow 1; smp 100; rpc 50; nap 1000";
/// Number of runs compared.
const RUNS: usize = 3;
/// Maximum relative difference of their times: of about 1.04 s, measured 0.7 % over 12 runs.
const BAND: f64 = 0.05;
/// Maximum relative difference of cycles and instructions: fractions of a picosecond cut off by
/// clock jumps.
const ROUNDING: f64 = 1e-4;

/// `lab.statistical`
pub fn statistical(kit: &Kit<'_>) -> anyhow::Result<()> {
    let runs = (0..RUNS).map(|_| kit.run("duo", WORK, Choice::default()));
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    let ends = || runs.iter().map(|run| run.end as f64);
    let (least, most) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
    ensure!(least > 1e12 && most < least * (1.0 + BAND), "from {least} to {most} ps");
    for run in &runs {
        ensure!(!run.lab.is_exact(), "it says that it is exact");
        ensure!(
            records::microjoules(run).iter().all(|&uj| uj > 0.0),
            "no energy: {:?}",
            run.shares
        );
        accounted(run)?;
    }
    for (board, run) in [("duo", "smp 50; frequency 1200; smp 50; rpc 20"), ("twin", "smp 50")] {
        add_up(&kit.run(board, run, Choice { no_costs: true, ..Choice::default() })?)?;
    }
    let run = "ping shadow 1; domain inactive shadow; nap 1000; domain on shadow; ping shadow 1; \
               domain off shadow; nap 1000; domain on shadow; ping shadow 1";
    asleep(&kit.run("duo-1x3", run, Choice::default())?)?;
    kill(kit, "duo")
}

/// Every core of a domain is accounted for until the end, or until another core's next block.
fn accounted(run: &Outcome) -> anyhow::Result<()> {
    for (domain, shares) in run.lab.domains.iter().zip(&run.shares) {
        let sum: u64 = shares.iter().map(|share| share.time).sum();
        let told = sum as f64 / domain.cores() as f64;
        let end = run.end as f64;
        ensure!((told - end).abs() < end * 1e-3, "{}: {told} of {end} ps", domain.name);
    }
    Ok(())
}

/// With one cycle per instruction, active core-time times frequency is the number of instructions.
fn add_up(run: &Outcome) -> anyhow::Result<()> {
    for (at, domain) in run.lab.domains.iter().enumerate() {
        let (cycles, points) = cycles(domain, &run.shares[at]);
        let counted = run.count(at, Count::Instructions) as f64;
        ensure!(points > 0, "{} was never active", domain.name);
        let off = (cycles - counted).abs();
        ensure!(off < counted * ROUNDING + 10.0, "{cycles} cycles, {counted} instructions");
    }
    Ok(())
}

/// A shadow of three cores that was inactive and off for a second each.
fn asleep(run: &Outcome) -> anyhow::Result<()> {
    for state in [State::Inactive, State::Off] {
        let time = |share: &&lab::energy::Share| share.state == state;
        let time = run.shares.get(1).and_then(|shares| shares.iter().find(time)).map(|s| s.time);
        let second = 3_000_000_000_000;
        let about = (second - second / 20)..(second + second / 20);
        ensure!(time.is_some_and(|time| about.contains(&time)), "{state:?} for {time:?} ps");
    }
    Ok(())
}
