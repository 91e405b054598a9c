//! The page around the runs: its head, problems, the table of setups, and benchmarks next to
//! Linux's values. All text from records goes through maud, which escapes it.

use super::cell::{agreement, compared, linux, mode};
use super::chart::ChartError;
use super::runs::{Report, Setup};
use super::{palette, plural, section};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use records::number;
use records::record::{Bench, Mode};

const STYLE: &str = include_str!("style.css");
/// Maximum number of problems and violations shown; the rest is counted.
const SHOWN: usize = 100;

/// Returns the whole page.
pub fn page(report: &Report) -> Result<String, ChartError> {
    let sections: Vec<Markup> = report
        .setups
        .iter()
        .enumerate()
        .map(|(number, setup)| section::section(number, setup))
        .collect::<Result<_, _>>()?;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Penumbra: report" }
                style { (PreEscaped(STYLE)) (PreEscaped(palette::style())) }
            }
            body {
                (head(report))
                main {
                    (problems(report))
                    (violations(report))
                    (setups(&report.setups))
                    @for section in &sections { (section) }
                    (benches(&report.benches))
                }
                footer { (footer(report)) }
            }
        }
    };
    Ok(markup.into_string())
}

fn head(report: &Report) -> Markup {
    let runs: usize = report.setups.iter().map(|setup| setup.runs.len()).sum();
    let exact_setups = report.setups.iter().filter(|setup| setup.head().exact);
    let compared: Vec<bool> = exact_setups.filter_map(Setup::identical).collect();
    let same = compared.iter().filter(|same| **same).count();
    let exact = report.setups.iter().flat_map(|s| &s.runs).filter(|r| r.head.exact).count();
    html! {
        header {
            p.eyebrow { "Penumbra" }
            h1 { "Measurements" }
            @if runs > 0 {
                div.tiles {
                    (tile("runs", &number::count(runs as u64), &boards(report), ""))
                    (tile("exact", &format!("{exact} of {runs}"),
                        "come out the same every time", ""))
                    @if !compared.is_empty() {
                        @let good = if same == compared.len() { "good" } else { "bad" };
                        (tile("repetitions agree", &format!("{same} of {}", compared.len()),
                            "exact setups, compared to the bit", good))
                    }
                    (violation_tile(report))
                }
            }
        }
    }
}

fn boards(report: &Report) -> String {
    let mut boards: Vec<&str> = Vec::new();
    for setup in &report.setups {
        if !boards.contains(&setup.head().board.as_str()) {
            boards.push(&setup.head().board);
        }
    }
    format!("on {}", boards.join(", "))
}

fn violation_tile(report: &Report) -> Markup {
    let found: usize = report.setups.iter().map(|setup| setup.violations().count()).sum();
    let watched = |setup: &&Setup| matches!(setup.head().mode, Mode::Sanitizer | Mode::Full);
    let watching: usize = report.setups.iter().filter(watched).map(|setup| setup.runs.len()).sum();
    let note = match watching {
        0 => "nothing ran with the sanitizer".to_string(),
        some => format!("{} with the sanitizer", plural(some, "run")),
    };
    let class = match (found, watching) {
        (0, 0) => "",
        (0, _) => "good",
        _ => "bad",
    };
    let value = match (found, watching) {
        (0, 0) => "\u{2013}".to_string(),
        _ => number::count(found as u64),
    };
    tile("violations", &value, &note, class)
}

fn tile(name: &str, value: &str, note: &str, class: &str) -> Markup {
    html! {
        div class={ "tile " (class) } {
            p.name { (name) }
            p.value { (value) }
            p.note { (note) }
        }
    }
}

fn problems(report: &Report) -> Markup {
    let all = &report.problems;
    html! {
        @if !all.is_empty() {
            section.notice.warn {
                h2 { (plural(all.len(), "line left out")) }
                p { "These are no records, or do not fit the others. The rest of the page is "
                    "complete without them." }
                ul { @for problem in all.iter().take(SHOWN) { li { code { (problem) } } } }
                (more(all.len()))
            }
        }
    }
}

fn more(all: usize) -> Markup {
    html! { @if all > SHOWN { p { "and " (number::count((all - SHOWN) as u64)) " more" } } }
}

/// Returns the violations, identical ones combined, most frequent first.
fn violations(report: &Report) -> Markup {
    let mut rows: Vec<(&str, &str, &str, usize)> = Vec::new();
    for setup in &report.setups {
        for v in setup.violations() {
            let scenario = setup.head().scenario.as_str();
            let same = |r: &&mut (&str, &str, &str, usize)| {
                (r.0, r.1, r.2) == (scenario, v.domain.as_str(), v.text.as_str())
            };
            match rows.iter_mut().find(same) {
                Some(row) => row.3 += 1,
                None => rows.push((scenario, &v.domain, &v.text, 1)),
            }
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.3));
    html! {
        @if !rows.is_empty() {
            section.notice.bad #violations {
                h2 { (plural(rows.len(), "violation")) }
                div.wide { table {
                    thead { tr { th { "scenario" } th { "domain" } th { "what happened" }
                        th.number { "times" } } }
                    tbody { @for (scenario, domain, text, times) in rows.iter().take(SHOWN) {
                        tr { td.name { (scenario) } td.name { (domain) } td { (text) }
                            td.number { (number::count(*times as u64)) } }
                    } }
                } }
                (more(rows.len()))
            }
        }
    }
}

/// Returns the table of setups; each row links to its section.
fn setups(setups: &[Setup]) -> Markup {
    html! {
        @if !setups.is_empty() {
            section {
                h2 { "What was run" }
                div.wide { table {
                    thead { tr {
                        th { "scenario" } th { "board" } th { "mode" } th { "exact" }
                        th.number { "repetitions" } th.number { "SoC time" }
                        th.number { "energy" } th { "model" }
                    } }
                    tbody { @for (number, setup) in setups.iter().enumerate() {
                        (setup_row(number, setup))
                    } }
                } }
            }
        }
    }
}

fn setup_row(number: usize, setup: &Setup) -> Markup {
    let (head, first) = (setup.head(), &setup.runs[0]);
    let energy = first.accounted_uj().or(first.drawn_uj());
    html! {
        tr {
            td { a.name href={ "#s" (number) } { (head.scenario) }
                @if !head.config.is_empty() { " " span.quiet { (head.config) } } }
            td.name { (head.board) }
            td { (mode(head.mode)) }
            td { @if head.exact { "yes" } @else { "no" } }
            td.number { (setup.runs.len()) " " (agreement(setup)) }
            td.number { (number::time(first.length())) }
            td.number { @if let Some(uj) = energy { (number::energy(uj)) } @else { "\u{2013}" } }
            td { code { (head.model) } }
        }
    }
}

fn benches(benches: &[Bench]) -> Markup {
    html! {
        @if !benches.is_empty() {
            section #benches {
                h2 { "Benchmarks" }
                p.quiet { "What " code { "./pen bench" } " has measured, beside Linux on the same "
                    "emulator where it was measured there." }
                div.wide { table {
                    thead { tr {
                        th { "what" } th { "board" } th.number { "value" } th { "unit" }
                        th.number { "Linux" } th { "compared" } th { "what Linux does" }
                    } }
                    tbody { @for bench in benches { (bench_row(bench)) } }
                } }
            }
        }
    }
}

fn bench_row(bench: &Bench) -> Markup {
    html! {
        tr {
            td { span.name { (bench.name) }
                @if !bench.config.is_empty() { " " span.quiet { (bench.config) } } }
            td.name { (bench.board) }
            td.number { (number::full(bench.value)) }
            td { (bench.unit) }
            td.number { (linux(bench.linux)) }
            td { (compared(bench.value, bench.linux)) }
            td.quiet { (bench.linux_what) }
        }
    }
}

fn footer(report: &Report) -> Markup {
    html! {
        p { (plural(report.records, "record")) " from " (plural(report.files.len(), "file")) ": "
            @for (at, file) in report.files.iter().take(SHOWN).enumerate() {
                @if at > 0 { ", " }
                code { (file) }
            }
            "." }
        p { "Times are SoC time: the lab's clock, not the host's. An area under a power curve is "
            "an energy. docs/reference/report.md describes the records." }
    }
}
