//! `pen fuzz`: libFuzzer on the targets of `abuse` (`fuzz/`, docs/reference/testing.md).
//!
//! Built separately, by the same compiler, with LLVM's edge counters, comparison tracing and
//! overflow checks; one binary for all targets. Inputs worth keeping are stored in
//! `target/fuzz/corpus/TARGET`.

use abuse::{TARGETS, Target};
use anyhow::{Context, bail};
use clap::Args;
use std::path::Path;
use std::process::{Command, ExitCode};
use tree::place::Place;

/// rustc's options.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";
/// Number of initial inputs, from seeds.
const SEEDS: u64 = 200;
/// Maximum length of an input, about that of the longest seed.
const LONGEST: usize = 8192;

/// What to fuzz.
#[derive(Args)]
#[command(after_help = help())]
pub struct Line {
    /// What to attack: a target from the list below. By default, each in turn.
    target: Option<String>,
    /// Duration in seconds, of each target.
    #[arg(default_value_t = 180)]
    seconds: u32,
}

/// The targets, below the options.
fn help() -> String {
    let rows = TARGETS.iter().map(|it| format!("  {:10} {}\n", it.name, it.about));
    let rows: String = rows.collect();
    format!("Targets:\n{rows}\nA finding is target/fuzz/found-TARGET-*; what to do is printed.")
}

/// `pen fuzz [TARGET] [SECONDS]`
pub fn fuzz(place: &Place, line: &Line) -> anyhow::Result<ExitCode> {
    let compiler = Command::new("c++").arg("--version").output();
    if !compiler.is_ok_and(|found| found.status.success()) {
        bail!("libFuzzer needs a C++ compiler: run `apt-get install g++` as root, then try again");
    }
    let chosen = match &line.target {
        None => TARGETS.to_vec(),
        Some(name) => vec![named(name)?],
    };
    let place = place.within("fuzz");
    let mut good = true;
    for target in chosen {
        good &= one(&place, target, line.seconds)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn named(name: &str) -> anyhow::Result<&'static Target> {
    let names = TARGETS.map(|target| target.name).join(", ");
    abuse::target(name).with_context(|| format!("there is no target {name}; there are: {names}"))
}

/// Runs a target. Returns false if it was not built or found something.
fn one(place: &Place, target: &Target, seconds: u32) -> anyhow::Result<bool> {
    let name = target.name;
    let corpus = place.target.join("corpus").join(name);
    let found = place.target.join(format!("found-{name}-"));
    begin(&corpus, target).with_context(|| format!("cannot write to {}", corpus.display()))?;
    let mut cargo = place.cargo();
    cargo.current_dir(place.root.join("fuzz")).env("RUSTFLAGS", FLAGS).env("FUZZ_TARGET", name);
    cargo.args(["run", "-q", "--release", "--target", "host-tuple", "--"]);
    cargo.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={LONGEST}"));
    cargo.args(["-len_control=0", "-timeout=60", "-print_final_stats=1"]);
    cargo.arg(format!("-artifact_prefix={}", found.display())).arg(&corpus);
    if cargo.status()?.success() {
        return Ok(true);
    }
    let found = found.display();
    eprintln!(
        "pen: if it was built, see {found}*; `cargo run -p abuse -- files {name} FILE` repeats one"
    );
    Ok(false)
}

/// Creates the corpus, if there is none yet.
fn begin(corpus: &Path, target: &Target) -> std::io::Result<()> {
    std::fs::create_dir_all(corpus)?;
    if std::fs::read_dir(corpus)?.next().is_some() {
        return Ok(());
    }
    (0..SEEDS).try_for_each(|seed| {
        std::fs::write(corpus.join(format!("seed-{seed}")), (target.seed)(seed))
    })
}
