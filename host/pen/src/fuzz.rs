//! `pen fuzz`: libFuzzer on what programs may call (`fuzz/`, docs/reference/testing.md).
//!
//! Built separately, by the same compiler, with LLVM's edge counters, comparison tracing and
//! overflow checks. Inputs worth keeping are stored in `target/fuzz/corpus`.

use anyhow::{Context, bail};
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
const LONGEST: usize = 4096;

/// `pen fuzz [SECONDS]`
pub fn fuzz(place: &Place, seconds: u32) -> anyhow::Result<ExitCode> {
    let compiler = Command::new("c++").arg("--version").output();
    if !compiler.is_ok_and(|found| found.status.success()) {
        bail!("libFuzzer needs a C++ compiler: run `apt-get install g++` as root, then try again");
    }
    let place = place.within("fuzz");
    let (corpus, found) = (place.target.join("corpus"), place.target.join("found-"));
    begin(&corpus).with_context(|| format!("cannot write to {}", corpus.display()))?;
    let mut cargo = place.cargo();
    cargo.current_dir(place.root.join("fuzz")).env("RUSTFLAGS", FLAGS);
    cargo.args(["run", "-q", "--release", "--target", "host-tuple", "--"]);
    cargo.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={LONGEST}"));
    cargo.args(["-len_control=0", "-timeout=60", "-print_final_stats=1"]);
    cargo.arg(format!("-artifact_prefix={}", found.display())).arg(&corpus);
    if cargo.status()?.success() {
        return Ok(ExitCode::SUCCESS);
    }
    let found = found.display();
    eprintln!("pen: if it was built, see {found}*; `cargo run -p abuse -- FILE` repeats one");
    Ok(ExitCode::FAILURE)
}

/// Creates the corpus, if there is none yet.
fn begin(corpus: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(corpus)?;
    if std::fs::read_dir(corpus)?.next().is_some() {
        return Ok(());
    }
    (0..SEEDS).try_for_each(|seed| {
        std::fs::write(corpus.join(format!("seed-{seed}")), abuse::bytes_of(seed))
    })
}
