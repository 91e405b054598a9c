//! The drawing of a contract: its states in columns, by their distance from the start.
//!
//! ```text
//!            ping            A transition leads at most one column to the right. Those to the
//!   o-> idle ----> asked     left are drawn below those to the right if they are one column
//!            <----           long, and around below everything if they are longer.
//!            pong
//! ```
//! All coordinates are whole pixels, so a drawing is the same on every host.

use crate::error::side_name;
use crate::model::Contract;
use kernel_contract::Side;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of a character of the drawing's font, in tenths of a pixel.
const CHARACTER: i32 = 73;
/// Distance of two lines of text.
const LINE: i32 = 15;
/// Height of a state's box.
const BOX: i32 = 34;
/// Free space around everything, and between an arrow and its label.
const MARGIN: i32 = 24;
const SPACE: i32 = 6;
/// Distance of an arrow from the middle of a box.
const LANE: i32 = 7;

/// Weights of a curve's points in its middle.
const MIDDLE: [i32; 4] = [8, 24, 24, 8];

type Point = (i32, i32);

/// All transitions from one state to another.
struct Arrow {
    from: usize,
    to: usize,
    side: Side,
    labels: Vec<String>,
}

/// Where a state is drawn: the middle of its box, and half of its width.
#[derive(Clone, Copy, Default)]
struct Place {
    column: usize,
    middle: Point,
    half: i32,
}

/// A drawn arrow: its curve, and the middle of the first line of its label.
struct Curve {
    points: [Point; 4],
    label: Point,
}

/// Returns the drawing as SVG.
pub fn drawing(contract: &Contract) -> String {
    let arrows = arrows(contract);
    let places = places(contract, &arrows);
    let lowest = places.iter().map(|it| it.middle.1 + BOX / 2).max().unwrap_or(0);
    let (mut body, mut taken) = (String::new(), Vec::new());
    let (mut depth, mut right) = (lowest, 0);
    for arrow in &arrows {
        let curve = curve(arrow, &places, &mut depth);
        body += &drawn(arrow, &curve, &mut taken, &mut right, &mut depth);
    }
    for (state, place) in contract.states.iter().zip(&places) {
        body += &state_box(state, *place);
        right = right.max(place.middle.0 + place.half);
    }
    body += &entry(places[contract.start]);
    let (mut width, legend) = (right + MARGIN, depth + 2 * MARGIN);
    for (row, text) in legend_lines(contract).into_iter().enumerate() {
        width = width.max(2 * MARGIN + text_width(&text));
        let y = legend + LINE * row as i32;
        // Writing to a String cannot fail.
        let _ = writeln!(body, "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"#444\">{text}</text>");
    }
    framed(contract, width, legend + 2 * LINE + MARGIN, &body)
}

fn text_width(text: &str) -> i32 {
    (text.len() as i32 * CHARACTER) / 10
}

fn color(side: Side) -> &'static str {
    match side {
        Side::Client => "#1a5fb4",
        Side::Server => "#a5480a",
    }
}

fn framed(contract: &Contract, width: i32, height: i32, body: &str) -> String {
    let marker = |side: Side| {
        let (name, color) = (side_name(side), color(side));
        format!(
            "<marker id=\"{name}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" \
             markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{color}\"/>\
             </marker>\n"
        )
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <title>The states of {}</title>\n<defs>\n{}{}</defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n",
        contract.full_name(),
        marker(Side::Client),
        marker(Side::Server)
    )
}

fn legend_lines(contract: &Contract) -> [String; 2] {
    let closes = contract.states.iter().any(|state| state.may_close);
    let dashed = if closes { "; dashed: it may close instead" } else { "" };
    [
        format!("Blue: the client sends. Orange: the server sends{dashed}."),
        "Double border: an end.".to_string(),
    ]
}

fn arrows(contract: &Contract) -> Vec<Arrow> {
    let mut arrows: BTreeMap<(usize, usize), Arrow> = BTreeMap::new();
    for (from, state) in contract.states.iter().enumerate() {
        for &(message, to) in &state.transitions {
            let message = &contract.messages[message];
            let new = || Arrow { from, to, side: message.from, labels: Vec::new() };
            arrows.entry((from, to)).or_insert_with(new).labels.push(message.name.clone());
        }
    }
    arrows.into_values().collect()
}

/// Returns each state's distance from the start.
fn columns(contract: &Contract) -> Vec<usize> {
    let mut columns = vec![usize::MAX; contract.states.len()];
    columns[contract.start] = 0;
    let mut todo = std::collections::VecDeque::from([contract.start]);
    while let Some(state) = todo.pop_front() {
        for &(_, next) in &contract.states[state].transitions {
            if columns[next] == usize::MAX {
                columns[next] = columns[state] + 1;
                todo.push_back(next);
            }
        }
    }
    columns
}

fn places(contract: &Contract, arrows: &[Arrow]) -> Vec<Place> {
    let columns = columns(contract);
    let count = columns.iter().max().map_or(1, |last| last + 1);
    let mut members = vec![Vec::new(); count];
    for (state, &column) in columns.iter().enumerate() {
        members[column].push(state);
    }
    let widest_label = |column: usize| {
        let touches = |arrow: &&Arrow| columns[arrow.from].min(columns[arrow.to]) == column;
        let labels = arrows.iter().filter(touches).flat_map(|arrow| &arrow.labels);
        labels.map(|label| text_width(label)).max().unwrap_or(0)
    };
    let lines = arrows.iter().map(|arrow| arrow.labels.len()).max().unwrap_or(1) as i32;
    let row = BOX + 2 * LINE * lines + MARGIN;
    let tallest = members.iter().map(Vec::len).max().unwrap_or(1) as i32;
    let mut places = vec![Place::default(); columns.len()];
    let mut x = MARGIN + 2 * MARGIN;
    for (column, states) in members.iter().enumerate() {
        let half = |&state: &usize| text_width(&contract.states[state].name) / 2 + 14;
        let widest = states.iter().map(half).max().unwrap_or(0);
        let top = MARGIN + LINE * lines + (tallest - states.len() as i32) * row / 2 + BOX / 2;
        for (index, state) in states.iter().enumerate() {
            let middle = (x + widest, top + index as i32 * row);
            places[*state] = Place { column, middle, half: half(state) };
        }
        // Labels are near the states on the right, where arrows are apart.
        x += 2 * widest + widest_label(column) * 5 / 3 + 3 * MARGIN;
    }
    places
}

/// Returns the curve of an arrow. One that goes around lowers `depth`, the lowest line so far.
fn curve(arrow: &Arrow, places: &[Place], depth: &mut i32) -> Curve {
    let (from, to) = (places[arrow.from], places[arrow.to]);
    let ((x0, y0), (x3, y3)) = (from.middle, to.middle);
    if to.column > from.column {
        let (start, end) = ((x0 + from.half, y0 - LANE), (x3 - to.half, y3 - LANE));
        let points = sideways(start, end);
        let (x, y) = on_curve(&points, [1, 9, 27, 27]);
        return Curve { points, label: (x, y - SPACE - LINE * (arrow.labels.len() as i32 - 1)) };
    }
    if to.column + 1 == from.column {
        let (start, end) = ((x0 - from.half, y0 + LANE), (x3 + to.half, y3 + LANE));
        let points = sideways(start, end);
        let (x, y) = on_curve(&points, [27, 27, 9, 1]);
        return Curve { points, label: (x, y + SPACE + 8) };
    }
    if to.column == from.column {
        let lane = if y3 > y0 { -LANE } else { LANE };
        let (start, end) = ((x0 + from.half, y0 - lane), (x3 + to.half, y3 - lane));
        let bulge = start.0.max(end.0) + 2 * MARGIN;
        let points = [start, (bulge, start.1), (bulge, end.1), end];
        let (x, y) = on_curve(&points, MIDDLE);
        let half = arrow.labels.iter().map(|it| text_width(it)).max().unwrap_or(0) / 2;
        return Curve { points, label: (x + SPACE + half, y + 4) };
    }
    let (start, end) = ((x0, y0 + BOX / 2), (x3, y3 + BOX / 2));
    let low = *depth + MARGIN + LINE;
    // A curve comes three quarters of the way to its control points.
    let control = |y: i32| (4 * low - y) / 3;
    let points = [start, (x0, control(start.1)), (x3, control(end.1)), end];
    let (x, y) = on_curve(&points, MIDDLE);
    *depth = y + 4;
    Curve { points, label: (x, y + SPACE + 8) }
}

fn sideways(start: Point, end: Point) -> [Point; 4] {
    let bend = (end.0 - start.0) / 2;
    [start, (start.0 + bend, start.1), (end.0 - bend, end.1), end]
}

/// Returns the point of a Bezier curve at which its points have these weights, of 64.
fn on_curve(points: &[Point; 4], weights: [i32; 4]) -> Point {
    let sum = |of: fn(&Point) -> i32| {
        let parts = points.iter().map(of).zip(weights).map(|(at, weight)| at * weight);
        parts.sum::<i32>() / 64
    };
    (sum(|point| point.0), sum(|point| point.1))
}

/// A label's left, top, right and lower edge.
type Area = (i32, i32, i32, i32);

fn overlaps(a: Area, b: Area) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

/// Returns an arrow and its label, which is moved down until it covers no other.
fn drawn(
    arrow: &Arrow,
    curve: &Curve,
    taken: &mut Vec<Area>,
    right: &mut i32,
    depth: &mut i32,
) -> String {
    let [a, b, c, d] = curve.points;
    let (side, color) = (side_name(arrow.side), color(arrow.side));
    let mut text = format!(
        "<path d=\"M{} {}C{} {} {} {} {} {}\" fill=\"none\" stroke=\"{color}\" \
         marker-end=\"url(#{side})\"/>\n",
        a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1
    );
    let half = arrow.labels.iter().map(|it| text_width(it)).max().unwrap_or(0) / 2;
    let height = LINE * arrow.labels.len() as i32;
    let (x, mut y) = curve.label;
    let area = |y: i32| (x - half, y - LINE + 4, x + half, y - LINE + 4 + height);
    // In the order of their tops, so a label that was passed is never covered later.
    for other in taken.iter() {
        if overlaps(area(y), *other) {
            y = other.3 + LINE - 4;
        }
    }
    taken.insert(taken.partition_point(|other| other.1 <= area(y).1), area(y));
    *right = (*right).max(x + half);
    *depth = (*depth).max(area(y).3);
    for (index, label) in arrow.labels.iter().enumerate() {
        let y = y + LINE * index as i32;
        let _ = writeln!(
            text,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{color}\" stroke=\"#fff\" \
             stroke-width=\"4\" paint-order=\"stroke\">{label}</text>"
        );
    }
    text
}

fn state_box(state: &crate::model::State, place: Place) -> String {
    let (x, y) = place.middle;
    let stroke = state.side.map_or("#444", color);
    let fill = match state.side {
        Some(Side::Client) => "#e7f0fb",
        Some(Side::Server) => "#fdeee3",
        None => "#eee",
    };
    let dashes = if state.may_close { " stroke-dasharray=\"5 3\"" } else { "" };
    let rectangle = |inset: i32, fill: &str| {
        let (left, top) = (x - place.half + inset, y - BOX / 2 + inset);
        let (width, height) = (2 * (place.half - inset), BOX - 2 * inset);
        format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"8\" \
             fill=\"{fill}\" stroke=\"{stroke}\"{dashes}/>\n"
        )
    };
    let mut text = rectangle(0, fill);
    if state.side.is_none() {
        text += &rectangle(3, "none");
    }
    let name = &state.name;
    let _ = writeln!(text, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", y + 4);
    text
}

/// Returns the dot and the arrow that lead to the start state.
fn entry(start: Place) -> String {
    let (x, y) = (start.middle.0 - start.half, start.middle.1);
    let dot = x - 2 * MARGIN;
    format!(
        "<circle cx=\"{dot}\" cy=\"{y}\" r=\"5\" fill=\"#444\"/>\n\
         <path d=\"M{dot} {y}L{x} {y}\" stroke=\"#444\"/>\n\
         <path d=\"M{} {}L{x} {y}L{} {}z\" fill=\"#444\"/>\n",
        x - 8,
        y - 4,
        x - 8,
        y + 4
    )
}
