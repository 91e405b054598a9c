//! `pen check`: the checks that are not tests: formatting, lints, layers, style, licences,
//! advisories.
//!
//! ```text
//!   law: tests/law.toml, cargo's graph --> layers, licences; cycles (imports, pieces)
//!   text of the tree (pieces) --> style, words, links; figures (records)
//!   kernels as built --> reach (calls), layouts
//!   other tools --> tools: formatting, lints, docs, advisories; bans
//! ```
//! Contract: nothing in the tree changes, unless an update was asked for. Each check returns
//! findings, one line each; no findings is a pass. A check that cannot run is reported, never
//! skipped silently.

mod bans;
mod cycles;
mod imports;
mod law;
mod layouts;
mod licences;
mod links;
mod pieces;
mod reach;
mod style;
mod tools;
mod words;

use records::figures;
use std::cell::LazyCell;
use std::process::ExitCode;
use tree::place::Place;

/// The result of a check.
pub enum Verdict {
    /// Nothing wrong.
    Good,
    /// Findings.
    Bad(Vec<String>),
    /// It could not run, for this reason.
    Unknown(String),
}

impl From<Vec<String>> for Verdict {
    fn from(findings: Vec<String>) -> Self {
        if findings.is_empty() { Verdict::Good } else { Verdict::Bad(findings) }
    }
}

/// A check's name, and its function.
type Named<'a> = (&'static str, &'a dyn Fn() -> anyhow::Result<Verdict>);

/// `pen check`. With `update`, the counts of words are recorded instead of compared.
pub fn check(place: &Place, only: Option<&str>, update: bool) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!update || only == Some("words"), "--update is for `./pen check words` only");
    let law = law::Law::read(place)?;
    let graph = LazyCell::new(|| law::graph(place));
    let graph = || graph.as_ref().map_err(|e| anyhow::anyhow!("{e:#}"));
    let all: [Named<'_>; 14] = [
        ("formatting", &|| tools::formatting(place)),
        ("style", &|| style::check(place, &law)),
        ("words", &|| if update { words::update(place) } else { words::check(place) }),
        ("layers", &|| Ok(law::check(&law, graph()?).into())),
        ("cycles", &|| cycles::check(place, &law, graph()?)),
        ("licences", &|| Ok(licences::check(&law, graph()?).into())),
        ("figures", &|| Ok(figures::differences(place)?.into())),
        ("links", &|| links::check(place)),
        ("lints", &|| tools::clippy(place)),
        ("docs", &|| tools::docs(place)),
        ("bans", &|| bans::check(place)),
        ("reach", &|| reach::check(place)),
        ("layouts", &|| layouts::check(place)),
        ("advisories", &|| tools::advisories(place)),
    ];
    let chosen = || all.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    let names = all.map(|(name, _)| name).join(", ");
    anyhow::ensure!(chosen().next().is_some(), "no such check; the checks are: {names}");
    let mut good = true;
    for (name, check) in chosen() {
        good &= report(name, check()?);
    }
    println!("{}", if good { "check passed" } else { "check FAILED" });
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a result. Returns whether it is a pass.
fn report(name: &str, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Good => println!("{name}: ok"),
        Verdict::Unknown(why) => println!("{name}: not checked ({why})"),
        Verdict::Bad(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            println!("{name}: {} findings", findings.len());
            return false;
        }
    }
    true
}
