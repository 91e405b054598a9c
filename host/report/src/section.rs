//! A setup on the page: its description, its values over the repetitions, its charts and counters.
//! Identical repetitions share one set of charts; others have their own.

use super::cell::{agreement, compared, costs, linux, mode};
use super::chart::{self, Bar, ChartError, Part};
use super::palette::{self, Colour};
use super::plural;
use super::runs::{Row, Run, Setup};
use super::talks::talks;
use maud::{Markup, PreEscaped, html};
use records::number;
use records::record::{Mode, Residency, State};
use std::collections::BTreeSet;

/// Relative difference of the energy by power and by residency above which the page reports it.
const TOLERANCE: f64 = 1e-3;

/// Returns the section of the `number`th setup.
pub fn section(number: usize, setup: &Setup) -> Result<Markup, ChartError> {
    let (first, others) = match setup.identical() {
        Some(true) | None => (&setup.runs[0], &[][..]),
        Some(false) => (&setup.runs[0], &setup.runs[1..]),
    };
    let body = run(first)?;
    let bodies: Vec<(&Run, Markup)> =
        others.iter().map(|other| Ok((other, run(other)?))).collect::<Result<_, ChartError>>()?;
    Ok(html! {
        section.setup id={ "s" (number) } {
            (head(setup))
            (values(setup))
            @if !others.is_empty() { h3 { "Repetition " (first.head.repetition) } }
            (body)
            @for (other, body) in &bodies {
                details {
                    summary { "Repetition " (other.head.repetition) " " span.quiet {
                        (other.head.run) } }
                    (body)
                }
            }
        }
    })
}

fn head(setup: &Setup) -> Markup {
    let head = setup.head();
    html! {
        h2 { (head.scenario) }
        p.facts {
            span.badge { (head.board) }
            span.badge { (mode(head.mode)) }
            @if let Some(source) = head.costs { span.badge { (costs(source)) } }
            @if head.exact { span.badge.good { "exact" } } @else { span.badge { "not exact" } }
            @if !head.model.is_empty() { span.badge { "model " code { (head.model) } } }
            @if setup.runs.len() > 1 {
                span.badge { (plural(setup.runs.len(), "repetition")) }
                (agreement(setup))
            }
            (watched(setup))
        }
        @if !head.config.is_empty() { p { (head.config) } }
        p.quiet { @for (at, run) in setup.runs.iter().enumerate() {
            @if at > 0 { ", " }
            (run.head.run)
        } }
    }
}

/// Returns the sanitizer's findings, if it was active, and other violations.
fn watched(setup: &Setup) -> Markup {
    let found = setup.violations().count();
    let watched = matches!(setup.head().mode, Mode::Sanitizer | Mode::Full);
    html! {
        @if found > 0 { a.badge.bad href="#violations" { (plural(found, "violation")) } }
        @else if watched { span.badge.good { "no violations" } }
    }
}

fn values(setup: &Setup) -> Markup {
    let rows = setup.rows();
    let repeated = setup.runs.len() > 1;
    let spread = rows.iter().any(|row| !row.identical) && repeated;
    let beside = rows.iter().any(|row| row.value.linux.is_some());
    html! {
        @if !rows.is_empty() {
            h3 { "Values" }
            div.wide { table.narrow[!beside] {
                thead { tr {
                    th { "what" }
                    @if spread { th.number { "least" } }
                    th.number { @if spread { "median" } @else { "value" } }
                    @if spread { th.number { "most" } }
                    th { "unit" }
                    @if repeated { th { "repetitions" } }
                    @if beside { th.number { "Linux" } th { "compared" } th { "what Linux does" } }
                } }
                tbody { @for row in &rows {
                    (value_row(row, setup.runs.len(), spread, beside))
                } }
            } }
        }
    }
}

fn value_row(row: &Row, runs: usize, spread: bool, beside: bool) -> Markup {
    let (median, value) = (row.median(), &row.value);
    html! {
        tr {
            td.name { (value.name) }
            @if spread { td.number.quiet { (number::full(row.sorted[0])) } }
            td.number { (number::full(median)) }
            @if spread { td.number.quiet { (number::full(row.sorted[row.sorted.len() - 1])) } }
            td { (value.unit) }
            @if runs > 1 { td { (repetitions(row, runs)) } }
            @if beside {
                td.number { (linux(value.linux)) }
                td { (compared(median, value.linux)) }
                td.quiet { (value.linux_what) }
            }
        }
    }
}

/// Describes the repetitions: identical, their spread, or their number.
fn repetitions(row: &Row, runs: usize) -> Markup {
    let found = row.sorted.len();
    let range = row.sorted[found - 1] - row.sorted[0];
    html! {
        @if row.identical { span.badge.good { "identical" } }
        @else if found < runs { span.badge.bad { "in " (found) " of " (runs) } }
        @else { span.badge { "range " (number::share(range, row.median().abs())) } }
    }
}

fn run(run: &Run) -> Result<Markup, ChartError> {
    Ok(html! { (power(run)?) (residency(run)?) (talks(run)) (counts(run)) })
}

fn power(run: &Run) -> Result<Markup, ChartError> {
    let (layers, end) = (chart::layers(run), run.length());
    let Some(stacked) = chart::power(&layers, end, 560)? else { return Ok(html! {}) };
    let single: Vec<Option<chart::Power>> = match layers.len() {
        1 => vec![],
        _ => layers
            .iter()
            .map(|layer| chart::power(&[*layer], end, 230))
            .collect::<Result<_, _>>()?,
    };
    Ok(html! {
        h3 { "Power" }
        figure {
            figcaption { (legend(run)) }
            (PreEscaped(stacked.svg))
            @if stacked.coarse {
                p.quiet { "There are more steps than columns: a column is a mean, the thin line "
                    "the highest power in it." }
            }
        }
        @if !single.is_empty() {
            details open {
                summary { "Each domain on its own scale" }
                @for (picture, (domain, _)) in single.iter().zip(&run.power) {
                    @if let Some(picture) = picture {
                        figure { figcaption { (domain) } (PreEscaped(&picture.svg)) }
                    }
                }
            }
        }
        (disagreement(run))
    })
}

/// Returns the domains with their colours, mean power and energy.
fn legend(run: &Run) -> Markup {
    let end = run.length();
    html! {
        @for ((number, steps), (domain, _)) in chart::layers(run).iter().zip(&run.power) {
            span.key {
                (swatch(palette::domain(*number)))
                b { (domain) } " "
                (number::short(steps.mean(0, end))) " mW on average, "
                (number::energy(steps.area(0, end) / 1e6))
            }
        }
    }
}

fn swatch(colour: Colour) -> Markup {
    html! { span.swatch style={ "background:" (colour.variable()) } {} }
}

/// Reports a difference between the energy by power and by residency.
fn disagreement(run: &Run) -> Markup {
    let (Some(drawn), Some(accounted)) = (run.drawn_uj(), run.accounted_uj()) else {
        return html! {};
    };
    let apart = (drawn - accounted).abs() > TOLERANCE * drawn.max(accounted);
    html! {
        @if apart {
            p.notice.warn {
                "The area under the power records is " (number::energy(drawn))
                ", the states sum up to " (number::energy(accounted)) "."
            }
        }
    }
}

/// Returns a domain's states, ordered by power, each with its colour.
fn states<'a>(run: &'a Run, domain: &str) -> Vec<(&'a Residency, Colour)> {
    let mut own: Vec<&Residency> = run.residency.iter().filter(|r| r.domain == domain).collect();
    own.sort_by_key(|r| (r.state, std::cmp::Reverse(r.mhz)));
    let active = own.iter().filter(|r| r.state == State::Active).map(|r| r.mhz);
    let steps: BTreeSet<u32> = active.collect();
    let rank = |mhz: u32| steps.iter().rev().position(|m| *m == mhz).unwrap_or(0);
    let colour = |r: &Residency| match r.state {
        State::Active => palette::active(rank(r.mhz)),
        State::Idle => palette::resting(0),
        State::Gated => palette::resting(1),
        State::Inactive => palette::resting(2),
        State::Off => palette::resting(3),
    };
    own.into_iter().map(|r| (r, colour(r))).collect()
}

fn residency(run: &Run) -> Result<Markup, ChartError> {
    if run.residency.is_empty() {
        return Ok(html! {});
    }
    let mut bars = Vec::new();
    let domains: Vec<&str> = run
        .domains()
        .into_iter()
        .filter(|d| run.residency.iter().any(|r| r.domain == *d))
        .collect();
    for domain in &domains {
        let states = states(run, domain);
        let bar = |name: &str, size: fn(&Residency) -> f64| Bar {
            name: format!("{domain}: {name}"),
            parts: states.iter().map(|(r, c)| Part { size: size(r), colour: *c }).collect(),
        };
        bars.push(bar("time", |r| r.ns as f64));
        bars.push(bar("energy", |r| r.uj));
    }
    let picture = chart::bars(&bars)?;
    Ok(html! {
        h3 { "Time and energy" }
        @if let Some(picture) = picture { figure { (PreEscaped(picture)) } }
        (state_table(run, &domains))
    })
}

fn state_table(run: &Run, domains: &[&str]) -> Markup {
    let total = run.accounted_uj().unwrap_or(0.0);
    html! {
        div.wide { table {
            thead { tr {
                th { "domain" } th { "state" } th.number { "MHz" } th.number { "time" }
                th.number { "of its time" } th.number { "energy" } th.number { "of all energy" }
                th.number { "mean power" }
            } }
            @for domain in domains {
                @let states = states(run, domain);
                tbody {
                    @for (state, colour) in &states { (state_row(state, *colour, &states, total)) }
                    (sum_row(domain, &states, total))
                }
            }
            @if domains.len() > 1 { tfoot { tr {
                td { "all" } td {} td {} td {} td {} td.number { (number::energy(total)) }
                td {} td {}
            } } }
        } }
    }
}

fn state_row(r: &Residency, colour: Colour, all: &[(&Residency, Colour)], total: f64) -> Markup {
    let time: f64 = all.iter().map(|(r, _)| r.ns as f64).sum();
    html! {
        tr {
            td { (r.domain) }
            td { (swatch(colour)) (state(r.state)) }
            td.number { @if r.mhz > 0 { (r.mhz) } @else { "\u{2013}" } }
            td.number title={ (r.ns) " ns" } { (number::time(r.ns)) }
            td.number { (number::share(r.ns as f64, time)) }
            td.number title={ (r.uj) " \u{b5}J" } { (number::energy(r.uj)) }
            td.number { (number::share(r.uj, total)) }
            td.number { (mean(r.uj, r.ns)) }
        }
    }
}

fn sum_row(domain: &str, all: &[(&Residency, Colour)], total: f64) -> Markup {
    let ns = all.iter().fold(0, |sum: u64, (r, _)| sum.saturating_add(r.ns));
    let uj: f64 = all.iter().map(|(r, _)| r.uj).sum();
    html! {
        tr.sum {
            td { (domain) } td { "all states" } td {}
            td.number { (number::time(ns)) } td {}
            td.number { (number::energy(uj)) }
            td.number { (number::share(uj, total)) }
            td.number { (mean(uj, ns)) }
        }
    }
}

/// Converts microjoules over nanoseconds to milliwatts.
fn mean(uj: f64, ns: u64) -> String {
    if ns == 0 {
        return "\u{2013}".to_string();
    }
    format!("{} mW", number::short(uj * 1e6 / ns as f64))
}

fn state(state: State) -> &'static str {
    match state {
        State::Active => "active",
        State::Idle => "idle",
        State::Gated => "gated",
        State::Inactive => "inactive",
        State::Off => "off",
    }
}

fn counts(run: &Run) -> Markup {
    let mut domains: Vec<&str> = Vec::new();
    let mut whats: Vec<&str> = Vec::new();
    for count in &run.counts {
        if !domains.contains(&count.domain.as_str()) {
            domains.push(&count.domain);
        }
        if !whats.contains(&count.what.as_str()) {
            whats.push(&count.what);
        }
    }
    let of = |what: &str, domain: &str| {
        let found = run.counts.iter().find(|c| c.what == what && c.domain == domain);
        found.map_or("\u{2013}".to_string(), |c| number::count(c.value))
    };
    html! {
        @if !whats.is_empty() {
            h3 { "Counts" }
            div.wide { table.narrow {
                thead { tr { th { "what" } @for d in &domains { th.number { (d) } } } }
                tbody { @for what in &whats {
                    tr { td { (what) } @for d in &domains { td.number { (of(what, d)) } } }
                } }
            } }
        }
    }
}
