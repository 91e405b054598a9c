//! The charts, as SVG text: power over time, and shares of time and energy. Drawn at twice the
//! displayed size, because the library rounds everything to whole pixels.

use super::palette::{self, Colour};
use super::runs::Run;
use super::steps::{Steps, columns};
use plotters::coord::Shift;
use plotters::prelude::*;
use records::number;
use std::error::Error;
use std::ops::Range;

const WIDTH: u32 = 2080;
/// Maximum number of columns; more would be finer than pixels.
const COLUMNS: usize = 900;
const LABEL: i32 = 28;
const LEFT: u32 = 150;

/// A chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a chart could not be drawn: {0}")]
pub struct ChartError(String);

fn failed<E: Error + Send + Sync>(why: DrawingAreaErrorKind<E>) -> ChartError {
    ChartError(why.to_string())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on a new canvas.
fn draw(
    height: u32,
    label: &str,
    paint: impl FnOnce(&Area) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        paint(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1))
}

/// A layer of a stack: a domain's number and its power.
pub type Layer<'a> = (usize, &'a Steps);

/// A chart of power over time.
pub struct Power {
    /// The chart.
    pub svg: String,
    /// Columns cover more than one step: they show means, and a line shows the peak power.
    pub coarse: bool,
}

/// Draws power over time, with stacked layers. Returns `None` if there is no time or no power.
pub fn power(layers: &[Layer], end: u64, height: u32) -> Result<Option<Power>, ChartError> {
    let times = columns(layers.iter().map(|layer| layer.1), end, COLUMNS);
    let total = Steps::sum(layers.iter().map(|layer| layer.1));
    let most = total.peak(0, end);
    if end == 0 || most <= 0.0 {
        return Ok(None);
    }
    let stack = stack(layers, &times);
    let peaks = step_line(&times, |from, to| total.peak(from, to));
    let coarse = stack.last().is_some_and(|top| top.upper != peaks);
    let drawn = draw(height, "power over time", |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .margin_right(56)
            .x_label_area_size(48)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(0f64..end as f64, 0f64..most * 1.06)
            .map_err(failed)?;
        mesh(&mut chart, end, height).map_err(failed)?;
        for layer in &stack {
            let colour = layer.colour.rgb();
            let outline = layer.upper.iter().chain(layer.lower.iter().rev()).copied();
            let shape = Polygon::new(outline.collect::<Vec<_>>(), colour.filled());
            chart.draw_series([shape]).map_err(failed)?;
        }
        if coarse {
            let line = PathElement::new(peaks, palette::PEAK.rgb().stroke_width(2));
            chart.draw_series([line]).map_err(failed)?;
        }
        Ok(())
    });
    drawn.map(|svg| Some(Power { svg, coarse }))
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
type MeshError = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;

fn mesh(chart: &mut Chart, end: u64, height: u32) -> Result<(), MeshError> {
    let (size, unit) = number::time_unit(end as f64);
    let label = ("sans-serif", LABEL).into_font().color(&palette::INK.rgb());
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(palette::GRID.rgb().stroke_width(2))
        .axis_style(palette::AXIS.rgb().stroke_width(2))
        .set_all_tick_mark_size(6)
        .label_style(label)
        .x_labels(8)
        .y_labels((height / 110).max(2) as usize)
        .x_label_formatter(&|ns| format!("{} {unit}", number::short(ns / size)))
        .y_label_formatter(&|mw| format!("{} mW", number::short(*mw)))
        .draw()
}

/// The outline of a layer.
struct Drawn {
    colour: Colour,
    lower: Vec<(f64, f64)>,
    upper: Vec<(f64, f64)>,
}

/// Computes the outlines of layers. Their height is the mean power in a column, so areas are
/// energy.
fn stack(layers: &[Layer], times: &[u64]) -> Vec<Drawn> {
    let mut below = vec![0.0; times.len().saturating_sub(1)];
    let mut all = Vec::new();
    for (number, steps) in layers {
        let above: Vec<f64> =
            times.windows(2).zip(&below).map(|(t, b)| b + steps.mean(t[0], t[1])).collect();
        let (lower, upper) = (outline(times, &below), outline(times, &above));
        all.push(Drawn { colour: palette::domain(*number), lower, upper });
        below = above;
    }
    all
}

fn outline(times: &[u64], heights: &[f64]) -> Vec<(f64, f64)> {
    let columns = times.windows(2).zip(heights);
    columns.flat_map(|(t, height)| [(t[0] as f64, *height), (t[1] as f64, *height)]).collect()
}

fn step_line(times: &[u64], height: impl Fn(u64, u64) -> f64) -> Vec<(f64, f64)> {
    let heights: Vec<f64> = times.windows(2).map(|t| height(t[0], t[1])).collect();
    outline(times, &heights)
}

/// A part of a bar.
pub struct Part {
    /// Its value.
    pub size: f64,
    /// Its colour.
    pub colour: Colour,
}

/// A bar with a label.
pub struct Bar {
    /// The label.
    pub name: String,
    /// Its parts.
    pub parts: Vec<Part>,
}

const BAR: i32 = 40;
const STEP: i32 = 56;
const NAME: i32 = 300;

/// Draws bars of equal length whose parts show shares. Returns `None` if there are no values.
pub fn bars(bars: &[Bar]) -> Result<Option<String>, ChartError> {
    let bars: Vec<&Bar> =
        bars.iter().filter(|bar| bar.parts.iter().any(|part| part.size > 0.0)).collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let drawn = draw((bars.len() as i32 * STEP + 8) as u32, "shares of time and energy", |area| {
        for (row, bar) in bars.iter().enumerate() {
            let top = 8 + row as i32 * STEP;
            paint_bar(area, bar, top).map_err(failed)?;
        }
        Ok(())
    });
    drawn.map(Some)
}

fn paint_bar(area: &Area, bar: &Bar, top: i32) -> Result<(), MeshError> {
    let whole: f64 = bar.parts.iter().map(|part| part.size).sum();
    let room = (WIDTH as i32 - NAME - 56) as f64;
    let style = ("sans-serif", LABEL + 1).into_font().color(&palette::INK.rgb());
    area.draw(&Text::new(bar.name.clone(), (4, top + 7), style))?;
    let mut before = 0.0;
    for part in &bar.parts {
        let Range { start, end } = before..before + part.size;
        let x = |size: f64| NAME + (size / whole * room).round() as i32;
        before = end;
        if x(end) > x(start) {
            let corners = [(x(start), top), (x(end), top + BAR)];
            area.draw(&Rectangle::new(corners, part.colour.rgb().filled()))?;
        }
    }
    Ok(())
}

/// Returns the layers of a run.
pub fn layers(run: &Run) -> Vec<Layer<'_>> {
    let domains = run.domains();
    let number = |name: &str| domains.iter().position(|d| *d == name).unwrap_or(0);
    run.power.iter().map(|(domain, steps)| (number(domain), steps)).collect()
}
