//! Checks by other tools: rustfmt, clippy, rustdoc, cargo-audit or cargo-deny.

use super::Verdict;
use std::process::Command;
use tree::place::Place;
use tree::progress::Step;

/// Returns whether `cargo NAME` is available, in any cargo of the PATH, not only the one that
/// builds.
pub fn available(name: &str) -> bool {
    Command::new("cargo")
        .args([name, "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

pub fn formatting(place: &Place) -> anyhow::Result<Verdict> {
    if !available("fmt") {
        return Ok(Verdict::Unknown("no cargo fmt here".to_string()));
    }
    let output = Command::new("cargo")
        .args(["fmt", "--all", "--check", "--", "-l"])
        .current_dir(&place.root)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let root = format!("{}/", place.root.display());
    let files: Vec<String> = text
        .lines()
        .filter(|l| !l.is_empty())
        .map(|l| format!("{}: run `cargo fmt`", l.trim_start_matches(&root)))
        .collect();
    if files.is_empty() && !output.status.success() {
        return Ok(Verdict::Bad(vec![String::from_utf8_lossy(&output.stderr).into_owned()]));
    }
    Ok(files.into())
}

/// Runs clippy on the default members. Kernel and stub need the bare-metal targets, which clippy's
/// toolchain may lack; the warnings of their compilers are seen at every build.
pub fn clippy(place: &Place) -> anyhow::Result<Verdict> {
    if !available("clippy") {
        return Ok(Verdict::Unknown("no cargo clippy here; rustup's toolchains have it".into()));
    }
    let step = Step::begin("clippy");
    let status = Command::new("cargo")
        .args(["clippy", "-q", "--all-targets", "--", "-D", "warnings"])
        .current_dir(&place.root)
        .env("CARGO_TARGET_DIR", place.target.join("clippy"))
        .env_remove("RUSTC")
        .status()?;
    step.done();
    Ok(match status.success() {
        true => Verdict::Good,
        false => Verdict::Bad(vec!["clippy: see the messages above".to_string()]),
    })
}

/// Reports rustdoc's warnings, mostly broken links. Private items are documented too, because
/// nearly all readers of this tree read the source, so links to them are fine.
pub fn docs(place: &Place) -> anyhow::Result<Verdict> {
    let step = Step::begin("docs");
    let status = place
        .cargo()
        .args(["doc", "-q", "--no-deps", "--document-private-items"])
        .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")
        .status()?;
    step.done();
    Ok(match status.success() {
        true => Verdict::Good,
        false => Verdict::Bad(vec!["rustdoc: see the messages above".to_string()]),
    })
}

pub fn advisories(place: &Place) -> anyhow::Result<Verdict> {
    let tools: [(&str, &[&str]); 2] = [("deny", &["check", "advisories"]), ("audit", &[])];
    let Some((name, arguments)) = tools.into_iter().find(|(name, _)| available(name)) else {
        return Ok(Verdict::Unknown("neither cargo-deny nor cargo-audit is installed".into()));
    };
    let output =
        Command::new("cargo").arg(name).args(arguments).current_dir(&place.root).output()?;
    if output.status.success() {
        return Ok(Verdict::Good);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let offline = ["fetch", "resolve", "connect"].iter().any(|w| text.contains(w))
        && !text.contains("RUSTSEC-");
    Ok(match offline {
        true => Verdict::Unknown("the advisory database cannot be reached".to_string()),
        false => Verdict::Bad(vec![String::from_utf8_lossy(&output.stdout).into_owned(), text]),
    })
}
