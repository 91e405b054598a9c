//! `pen check`: the gate that is no test: formatting, lints, layers, style, licences, advisories.
//!
//! Each check answers findings, a line each; none at all is a pass. What could not be looked at is
//! said, never passed over in silence.

mod bans;
mod law;
mod layouts;
mod licences;
mod style;
mod tools;

use crate::place::Place;
use std::process::ExitCode;

/// What a check found.
pub enum Verdict {
    /// Nothing wrong.
    Good,
    /// These things are wrong.
    Bad(Vec<String>),
    /// It could not be looked at, for this reason.
    Unknown(String),
}

impl From<Vec<String>> for Verdict {
    fn from(findings: Vec<String>) -> Self {
        if findings.is_empty() { Verdict::Good } else { Verdict::Bad(findings) }
    }
}

/// `pen check`
pub fn check(place: &Place) -> anyhow::Result<ExitCode> {
    let law = law::Law::read(place)?;
    let mut bad = 0;
    let mut report = |name: &str, verdict: Verdict| match verdict {
        Verdict::Good => println!("{name}: ok"),
        Verdict::Unknown(why) => println!("{name}: not checked ({why})"),
        Verdict::Bad(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            println!("{name}: {} findings", findings.len());
            bad += 1;
        }
    };
    report("formatting", tools::formatting(place)?);
    report("style", style::check(place, &law)?);
    let graph = law::graph(place)?;
    report("layers", law::check(&law, &graph).into());
    report("licences", licences::check(&law, &graph).into());
    report("lints", tools::clippy(place)?);
    report("bans", bans::check(place)?);
    report("layouts", layouts::check(place)?);
    report("advisories", tools::advisories(place)?);
    println!("{}", if bad == 0 { "check passed" } else { "check FAILED" });
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
