//! Which programs talk to which: a drawing, and a table with the same figures. All text from
//! records goes through maud, which escapes it.

use super::layout::{Arrow, Kernel, Layout, Program, ROW, TITLE, layout};
use super::palette::{self, Colour};
use super::plural;
use super::runs::Run;
use maud::{Markup, html};
use records::number;
use records::record::Talk;

/// Most characters of a name in the drawing; the table has all of them.
const PROGRAM: usize = 24;
const CONTRACT: usize = 28;
/// Between an arrow and its text.
const ABOVE: u32 = 7;
const BELOW: u32 = 16;
/// Length and half the width of an arrow's head.
const HEAD: (u32, u32) = (9, 5);

/// Returns the drawing and the table of a run; nothing if there were no channels.
pub fn talks(run: &Run) -> Markup {
    if run.talks.is_empty() {
        return html! {};
    }
    let layout = layout(&run.talks);
    let seconds = run.length() as f64 / 1e9;
    html! {
        h3 { "Which programs talk to which" }
        figure {
            figcaption { "An arrow leads from the client to the server of channels of one "
                "contract: messages and bytes of the client \u{2192}, of the server \u{2190}, "
                "and all messages per second." }
            (drawing(run, &layout, seconds))
        }
        (table(&layout, seconds))
    }
}

fn drawing(run: &Run, layout: &Layout<'_>, seconds: f64) -> Markup {
    let (width, height) = (layout.width.to_string(), layout.height.to_string());
    let label = format!(
        "{} on {}, with {} between them; the table below has the same figures",
        plural(layout.programs.len(), "program"),
        plural(layout.kernels.len(), "kernel"),
        plural(layout.arrows.len(), "arrow")
    );
    let domains = run.domains();
    let colour = |kernel: &str| {
        palette::domain(domains.iter().position(|domain| *domain == kernel).unwrap_or(0))
    };
    html! {
        svg.talks xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(label)
            viewBox={ "0 0 " (width) " " (height) } style={ "max-width:" (width) "px" } {
            @for it in &layout.kernels { (kernel(it, colour(it.name))) }
            @for it in &layout.programs { (program(it, colour(it.kernel))) }
            @for it in &layout.arrows {
                (arrow(it, colour(&it.talk.client_kernel), seconds))
            }
        }
    }
}

fn kernel(kernel: &Kernel<'_>, colour: Colour) -> Markup {
    let rect = kernel.rect;
    html! {
        rect x=(rect.x) y=(rect.y) width=(rect.width) height=(rect.height) rx="10" fill="none"
            stroke=(colour.attribute()) stroke-width="1.5" {}
        (text((rect.x + 16, rect.y + TITLE - 10), "bold", &cut(kernel.name, PROGRAM)))
    }
}

fn program(program: &Program<'_>, colour: Colour) -> Markup {
    let rect = program.rect;
    html! {
        rect x=(rect.x) y=(rect.y) width=(rect.width) height=(rect.height) rx="6"
            fill=(palette::GRID.attribute()) stroke=(colour.attribute()) {}
        (text((rect.x + 12, rect.y + ROW / 2 + 5), "plain", &cut(program.name, PROGRAM)))
    }
}

fn arrow(arrow: &Arrow<'_>, colour: Colour, seconds: f64) -> Markup {
    let Arrow { talk, from, to, lane, .. } = arrow;
    let left = from.0 + 22;
    let (tip, back) = (to.0 + 1, to.0 + HEAD.0);
    let head = format!("{tip},{} {back},{} {back},{}", to.1, to.1 - HEAD.1, to.1 + HEAD.1);
    let line = format!("M{} {} H{lane} V{} H{back}", from.0, from.1, to.1);
    html! {
        path d=(line) fill="none" stroke=(colour.attribute()) stroke-width="1.5" {}
        polygon points=(head) fill=(colour.attribute()) {}
        text x=(left) y=(from.1 - ABOVE) fill=(palette::INK.attribute()) {
            tspan.bold { (cut(&talk.contract, CONTRACT)) }
            tspan.small { " to " (cut(&talk.server, PROGRAM)) }
        }
        (text((left, from.1 + BELOW), "small", &figures(talk, seconds)))
        (text((left, to.1 - ABOVE), "small", &source(talk)))
    }
}

/// Returns the words at the head of an arrow: the client, and its kernel if that is another one.
fn source(talk: &Talk) -> String {
    let Talk { client, client_kernel, server_kernel, .. } = talk;
    match client_kernel == server_kernel {
        true => format!("from {}", cut(client, PROGRAM)),
        false => format!("from {} on {}", cut(client, PROGRAM), cut(client_kernel, PROGRAM)),
    }
}

fn text((x, y): (u32, u32), class: &str, text: &str) -> Markup {
    html! { text class=(class) x=(x) y=(y) fill=(palette::INK.attribute()) { (text) } }
}

/// Shortens a name that is too long for its place.
fn cut(name: &str, most: usize) -> String {
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['\u{2026}']).collect(),
        false => name.to_string(),
    }
}

fn figures(talk: &Talk, seconds: f64) -> String {
    let half =
        |arrow, sent, bytes| format!("{arrow} {} ({})", number::count(sent), number::bytes(bytes));
    let there = half('\u{2192}', talk.client_sent, talk.client_bytes);
    let back = half('\u{2190}', talk.server_sent, talk.server_bytes);
    format!("{there}  {back}  {}", rate(talk, seconds))
}

/// Returns messages per second, in both directions.
fn rate(talk: &Talk, seconds: f64) -> String {
    let messages = talk.client_sent.saturating_add(talk.server_sent) as f64;
    match seconds > 0.0 {
        true => format!("{}/s", number::short(messages / seconds)),
        false => "\u{2013}".to_string(),
    }
}

fn table(layout: &Layout<'_>, seconds: f64) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th { "client" } th { "on" } th { "server" } th { "on" } th { "contract" }
                th.number { "channels" } th.number { "messages \u{2192}" }
                th.number { "bytes \u{2192}" } th.number { "messages \u{2190}" }
                th.number { "bytes \u{2190}" } th.number { "messages per second" }
            } }
            tbody { @for Arrow { talk, .. } in &layout.arrows { (row(talk, seconds)) } }
        } }
    }
}

fn row(talk: &Talk, seconds: f64) -> Markup {
    html! {
        tr {
            td.name { (talk.client) } td.name { (talk.client_kernel) }
            td.name { (talk.server) } td.name { (talk.server_kernel) }
            td.name { (talk.contract) }
            td.number { (number::count(talk.channels)) }
            td.number { (number::count(talk.client_sent)) }
            td.number { (number::count(talk.client_bytes)) }
            td.number { (number::count(talk.server_sent)) }
            td.number { (number::count(talk.server_bytes)) }
            td.number { (rate(talk, seconds)) }
        }
    }
}
