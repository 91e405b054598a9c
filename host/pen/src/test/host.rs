//! Tests on the host: cargo builds them, and their programs run two at a time, as scenarios do.
//! (`cargo test` runs one program after the other, many of which end with one long test.)

use super::lanes::BUSY;
use super::pool::{self, Job, Passed};
use super::tally::Tally;
use anyhow::{Context, bail, ensure};
use cargo_metadata::{Artifact, Message};
use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tree::place::Place;
use tree::progress::Step;

/// A program of tests.
struct Program {
    /// `unit PACKAGE`, or `PACKAGE tests/NAME.rs`.
    name: String,
    file: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
}

/// Builds all and runs those tests that match.
pub fn run(place: &Place, filter: Option<&str>, tally: &mut Tally) -> anyhow::Result<()> {
    let programs = build(place)?;
    let jobs = programs.iter().map(|program| Job {
        name: program.name.clone(),
        folder: PathBuf::new(),
        alone: false,
        run: Box::new(move |_| one(program, filter)),
    });
    pool::run(jobs.collect(), BUSY, tally)
}

fn build(place: &Place) -> anyhow::Result<Vec<Program>> {
    let step = Step::begin("building the tests of the host");
    let mut cargo = place.cargo();
    cargo.args(["test", "-q", "--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cargo")?;
    let output = BufReader::new(child.stdout.take().context("no output of cargo")?);
    let mut programs = vec![];
    for message in Message::parse_stream(output) {
        if let Message::CompilerArtifact(artifact) = message? {
            programs.extend(program(artifact));
        }
    }
    ensure!(child.wait()?.success(), "the tests do not build; see the messages above");
    step.done();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    // Those of whole crates first: the last ones to run should be short.
    programs.sort_by_key(|program| !program.name.contains("tests/"));
    Ok(programs)
}

fn program(artifact: Artifact) -> Option<Program> {
    let (file, manifest) =
        (artifact.executable.filter(|_| artifact.profile.test)?, artifact.manifest_path);
    let folder = manifest.parent()?.as_std_path().to_path_buf();
    let package = folder.file_name()?.to_str()?;
    let source = artifact.target.src_path.strip_prefix(&folder).ok()?;
    let name = match artifact.target.is_test() {
        true => format!("{package} {source}"),
        false => format!("unit {package} {source}"),
    };
    Some(Program { name, file: file.into_std_path_buf(), folder })
}

/// Runs the tests of one program that match; what it says is shown when one fails.
fn one(program: &Program, filter: Option<&str>) -> anyhow::Result<Passed> {
    // It ends with this process, even if that is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(&program.file);
    command.args(filter).args(["-Zunstable-options", "--report-time"]);
    // The harness reports times only where unstable options are allowed.
    command.env("RUSTC_BOOTSTRAP", "1").current_dir(&program.folder);
    let output = command.stderr(Stdio::inherit()).output().context(program.name.clone())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(Passed::These(text.lines().filter_map(passed).collect()));
    }
    std::io::stdout().write_all(&output.stdout)?;
    let named = text.lines().filter_map(|line| line.strip_prefix("---- "));
    let named: Vec<&str> = named.filter_map(|line| line.split(' ').next()).collect();
    bail!("{} ({})", named.join(", "), output.status)
}

/// `test NAME ... ok <SECONDSs>`
fn passed(line: &str) -> Option<(String, Duration)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ok")?;
    let seconds = rest.trim().strip_prefix('<')?.strip_suffix("s>")?.parse().ok()?;
    Some((name.to_string(), Duration::try_from_secs_f64(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn times_of_tests_are_read() {
        let told = passed("test a::b ... ok <1.250s>").unwrap();
        assert_eq!(told, ("a::b".to_string(), Duration::from_millis(1250)));
        for other in ["test a::b ... FAILED <0.1s>", "test a::b ... ignored", "ok <1s>", ""] {
            assert!(passed(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_program_says_which_of_its_tests_passed() {
        let program = |file: &Path| Program {
            name: "it".into(),
            file: file.to_path_buf(),
            folder: std::env::temp_dir(),
        };
        let me = program(&std::env::current_exe().unwrap());
        let Passed::These(all) = one(&me, Some("times_of_tests_are_read")).unwrap() else {
            panic!("no times")
        };
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(one(&program(Path::new("/bin/false")), None).is_err());
    }
}
