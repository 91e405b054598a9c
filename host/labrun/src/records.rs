//! Converts outcomes to records: one JSON object per line, in the format of `pen report`.

use super::run::{COUNTS, Outcome, Phase};
use lab::energy;
use lab::model::Domain;
use lab::page::State;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use workbench::model::Choice;
use workbench::network::Outcome::Right;

/// Description of a run.
pub struct About<'a> {
    /// The scenario.
    pub title: &'a str,
    /// The board.
    pub board: &'a str,
    /// The lab's options.
    pub choice: Choice,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// The names of contracts, by their hashes.
    pub contracts: &'a BTreeMap<String, String>,
}

impl About<'_> {
    fn run(&self) -> String {
        format!("{}-q{}-{}", self.title, self.choice.quantum_ns, self.repetition)
    }
}

/// Returns all records of a run.
pub fn of(about: &About<'_>, outcome: &Outcome) -> Vec<Value> {
    let run = about.run();
    let mut records = vec![head(about, outcome)];
    for (name, value, unit) in &outcome.values {
        let kind = "value";
        records.push(json!({"kind": kind, "run": run, "name": name, "value": value, "unit": unit}));
    }
    records.extend(outcome.phases.iter().flat_map(|phase| phase_values(outcome, phase)).map(
        |(name, value, unit)| {
            json!({"kind": "value", "run": run, "name": name, "value": value, "unit": unit})
        },
    ));
    let domains = &outcome.lab.domains;
    for (domain, shares) in domains.iter().zip(&outcome.shares) {
        for share in shares {
            let (state, mhz) = state_of(domain, share.state);
            records.push(json!({
                "kind": "residency", "run": run, "domain": domain.name, "state": state,
                "mhz": mhz, "ns": share.time / 1000, "uj": share.energy_pj as f64 / 1e6,
            }));
        }
    }
    for (domain, counts) in domains.iter().zip(&outcome.counts) {
        for ((what, _), value) in COUNTS.iter().zip(counts) {
            records.push(json!({
                "kind": "count", "run": run, "domain": domain.name, "what": what, "value": value,
            }));
        }
    }
    for change in &outcome.changes {
        let Some(domain) = outcome.lab.domain(change.seat) else { continue };
        let mw = energy::power_uw(domain, change.state) as f64 / 1000.0;
        let at = change.time / 1000;
        let name = &domain.name;
        records.push(json!({"kind": "power", "run": run, "domain": name, "at_ns": at, "mw": mw}));
    }
    for finding in &outcome.findings {
        let (domain, text) = (finding.parties.first(), &finding.text);
        records.push(json!({"kind": "violation", "run": run, "domain": domain, "text": text}));
    }
    let talks = outcome.traffic.records(&run, &|hash| about.contracts.get(hash).cloned());
    records.extend(talks.into_iter().map(|record| json!(record)));
    records.push(json!({"kind": "end", "run": run, "at_ns": outcome.end / 1000}));
    records
}

/// Returns time and energy of a phase: the board's, and each domain's.
fn phase_values(outcome: &Outcome, phase: &Phase) -> Vec<(String, f64, &'static str)> {
    let name = |what: &str| format!("phase.{}.{what}", phase.name);
    let uj = |pj: u128| pj as f64 / 1e6;
    let mut values = vec![(name("ns"), phase.time as f64 / 1e3, "ns")];
    if !phase.energy_pj.is_empty() {
        values.push((name("uj"), uj(phase.energy_pj.iter().sum()), "uJ"));
    }
    for (domain, &pj) in outcome.lab.domains.iter().zip(&phase.energy_pj) {
        values.push((name(&format!("uj.{}", domain.name)), uj(pj), "uJ"));
    }
    values
}

fn head(about: &About<'_>, outcome: &Outcome) -> Value {
    let mode = about.choice.mode;
    json!({
        "kind": "run", "run": about.run(), "scenario": about.title, "board": about.board,
        "mode": mode.name(), "model": outcome.lab.hash, "exact": outcome.lab.is_exact(),
        "costs": if about.choice.no_costs { "zero" } else { "board" },
        "repetition": about.repetition,
        "config": format!("quantum {} ns", about.choice.quantum_ns),
    })
}

fn state_of(domain: &Domain, state: State) -> (&'static str, u32) {
    let mhz = |index: usize| domain.powers.points.get(index).map_or(0, |point| point.khz / 1000);
    match state {
        State::Active(index) => ("active", mhz(index)),
        State::Idle(index) => ("idle", mhz(index)),
        State::Gated(index) => ("gated", mhz(index)),
        State::Inactive => ("inactive", 0),
        State::Off => ("off", 0),
    }
}

/// Returns whether two runs are identical, to the last picosecond and instruction.
pub fn agree(one: &Outcome, other: &Outcome) -> bool {
    one.values == other.values
        && one.shares == other.shares
        && one.counts == other.counts
        && one.changes == other.changes
        && one.answers == other.answers
        && one.traffic == other.traffic
        && one.end == other.end
}

/// Formats what the clients of a scripted peer have seen, a line for each of them.
pub fn answers(outcome: &Outcome) -> String {
    let mut names: Vec<&str> = outcome.answers.iter().map(|it| it.client.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &str| {
        let own = || outcome.answers.iter().filter(|it| it.client == name);
        let right = own().filter(|it| it.outcome == Right).count();
        let slowest = own().map(|it| it.took_ns).max().unwrap_or(0) as f64 / 1e6;
        let all = own().count();
        let mut text =
            format!("  {name}: {right} of {all} answers right, the slowest {slowest} ms");
        if let Some(wake) = own().filter_map(|it| it.wake_ns).max() {
            text += &format!("; the program had the frame after {wake} ns at most");
        }
        text + "\n"
    };
    names.into_iter().map(of).collect()
}

/// Formats a line for people.
pub fn summary(about: &About<'_>, outcome: &Outcome, same: bool) -> String {
    let (run, host) = (about.repetition, outcome.host);
    let mut text = if outcome.lab.mode.takes_turns() {
        let (quantum, chip) = (about.choice.quantum_ns, outcome.end as f64 / 1e12);
        let same = if same { "" } else { ", UNLIKE the first" };
        format!("quantum {quantum} ns, run {run}: {chip:.6} s of the chip in {host:.2} s{same}")
    } else {
        format!("run {run}: {host:.2} s, no chip time in this mode")
    };
    for (domain, shares) in outcome.lab.domains.iter().zip(&outcome.shares) {
        let pj: u128 = shares.iter().map(|share| share.energy_pj).sum();
        text += &format!(
            "\n  {:<28} {:>14.3} uJ",
            format!("energy of {}", domain.name),
            pj as f64 / 1e6
        );
    }
    for phase in &outcome.phases {
        let uj = phase.energy_pj.iter().sum::<u128>() as f64 / 1e6;
        let ms = phase.time as f64 / 1e9;
        let (name, told) = (format!("phase {}", phase.name), !phase.energy_pj.is_empty());
        let uj = if told { format!("{uj:>14.3} uJ in ") } else { format!("{:>18}", "") };
        text += &format!("\n  {name:<28} {uj}{ms:.3} ms");
    }
    for (name, value, unit) in &outcome.values {
        text += &format!("\n  {name:<28} {value:>14.1} {unit}");
    }
    text
}

/// Describes the spread of several runs of a board with statistical time; `None` for exact or
/// single runs.
pub fn spread(outcomes: &[Outcome]) -> Option<String> {
    let one = outcomes.first().filter(|one| !one.lab.is_exact() && outcomes.len() > 1)?;
    if !one.lab.mode.takes_turns() {
        return None;
    }
    let mut text = format!("statistical, several cores in a domain; {} runs:", outcomes.len());
    let mut add = |name: &str, unit: &str, values: Vec<f64>| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let percent = if mean > 0.0 { 100.0 * (most - least) / mean } else { 0.0 };
        text +=
            &format!("\n  {name:<28} {mean:>14.3} {unit}, {least:.3} to {most:.3}, {percent:.1} %");
    };
    add("chip time", "ms", outcomes.iter().map(|run| run.end as f64 / 1e9).collect());
    for (index, domain) in one.lab.domains.iter().enumerate().take(one.shares.len()) {
        let of = |run: &Outcome| microjoules(run).get(index).copied().unwrap_or(0.0);
        let name = format!("energy of {}", domain.name);
        add(&name, "uJ", outcomes.iter().map(of).collect());
    }
    for (name, _, unit) in &one.values {
        let of = |run: &Outcome| run.values.iter().find(|(n, ..)| n == name).map(|v| v.1);
        add(name, unit, outcomes.iter().filter_map(of).collect());
    }
    Some(text)
}

/// Returns the energy of each domain, in microjoule.
pub fn microjoules(run: &Outcome) -> Vec<f64> {
    let sum =
        |shares: &Vec<energy::Share>| shares.iter().map(|share| share.energy_pj).sum::<u128>();
    run.shares.iter().map(|shares| sum(shares) as f64 / 1e6).collect()
}
