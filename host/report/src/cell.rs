//! Names and cells shared by the page's tables and a setup's section.

use super::runs::Setup;
use maud::{Markup, html};
use records::number;
use records::record::{Costs, Mode};

/// Returns the name of a mode.
pub fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Time => "time",
        Mode::Energy => "time and energy",
        Mode::Sanitizer => "sanitizer",
        Mode::Full => "time, energy and sanitizer",
        Mode::Board => "outside the lab",
    }
}

/// Returns the name of a source of costs.
pub fn costs(costs: Costs) -> &'static str {
    match costs {
        Costs::Board => "costs of the board",
        Costs::Zero => "costs zero",
    }
}

/// Describes whether the repetitions agree.
pub fn agreement(setup: &Setup) -> Markup {
    html! {
        @match setup.identical() {
            Some(true) => span.badge.good { "identical" },
            Some(false) if setup.head().exact => span.badge.bad { "differ" },
            Some(false) => span.badge { "differ" },
            None => {}
        }
    }
}

/// Returns Linux's value, if there is one.
pub fn linux(value: Option<f64>) -> Markup {
    html! { @if let Some(value) = value { (number::full(value)) } @else { "\u{2013}" } }
}

/// Returns a bar on a logarithmic scale: to the left for less than Linux, to the right for more.
pub fn compared(value: f64, linux: Option<f64>) -> Markup {
    let ratio = linux.map(|linux| value / linux).filter(|r| r.is_finite() && *r > 0.0);
    let Some(ratio) = ratio else { return html! {} };
    let half = (ratio.log10().abs() / 3.0 * 50.0).clamp(0.8, 50.0);
    let (class, left, text) = match ratio <= 1.0 {
        true => ("less", 50.0 - half, format!("{}\u{d7} less", number::short(1.0 / ratio))),
        false => ("more", 50.0, format!("{}\u{d7} more", number::short(ratio))),
    };
    html! {
        div.compared {
            div.scale { div class=(class) style={
                "left:" (format!("{left:.1}")) "%;width:" (format!("{half:.1}")) "%"
            } {} }
            span { (text) }
        }
    }
}
