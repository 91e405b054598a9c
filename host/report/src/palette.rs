//! The colours of the charts. A chart is drawn in the light colours; the style sheet replaces each
//! by its dark counterpart in dark mode. So all colours here are different.

use plotters::style::RGBColor;
use std::fmt::Write;

/// A colour for a light background, and its counterpart for a dark one.
#[derive(Clone, Copy)]
pub struct Colour {
    light: u32,
    dark: u32,
}

const fn colour(light: u32, dark: u32) -> Colour {
    Colour { light, dark }
}

/// Text.
pub const INK: Colour = colour(0x4a5563, 0xb4bfcc);
/// Axes.
pub const AXIS: Colour = colour(0x98a2b0, 0x6b7684);
/// Grid lines.
pub const GRID: Colour = colour(0xe4e8ee, 0x2b333e);
/// The line of peak power.
pub const PEAK: Colour = colour(0x6e7a89, 0x94a0ae);

/// One per domain, in order.
const DOMAINS: [Colour; 8] = [
    colour(0x2f6fde, 0x639df5),
    colour(0xe8871e, 0xf5a94d),
    colour(0x159a8c, 0x45c7b8),
    colour(0x8a55dd, 0xad84f2),
    colour(0xd0457f, 0xf07fae),
    colour(0x7e8d1f, 0xbccb55),
    colour(0x5a6980, 0x9cabc0),
    colour(0x9a6440, 0xd3a17c),
];

/// Active at a domain's highest frequency, at the next, and at all others.
const ACTIVE: [Colour; 3] =
    [colour(0xc9452d, 0xe5644a), colour(0xec8256, 0xb84a34), colour(0xf6b899, 0x8a3a2c)];
/// Idle, gated, inactive, off.
const RESTING: [Colour; 4] = [
    colour(0x4c94c9, 0x4e93c6),
    colour(0x93c1e2, 0x36678c),
    colour(0xc8d6e2, 0x33465a),
    colour(0xe9edf2, 0x2a313b),
];

impl Colour {
    /// Returns the light colour for drawing.
    pub fn rgb(self) -> RGBColor {
        let [_, r, g, b] = self.light.to_be_bytes();
        RGBColor(r, g, b)
    }

    /// Returns the value of an attribute for drawing.
    pub fn attribute(self) -> String {
        format!("#{:06X}", self.light)
    }

    /// Returns the name of its variable in the style sheet.
    pub fn variable(self) -> String {
        format!("var(--c{:06x})", self.light)
    }
}

/// Returns the colour of the `number`th domain.
pub fn domain(number: usize) -> Colour {
    DOMAINS[number % DOMAINS.len()]
}

/// Returns the colour of activity at the `rank`th frequency, highest first.
pub fn active(rank: usize) -> Colour {
    ACTIVE[rank.min(ACTIVE.len() - 1)]
}

/// Returns the colour of an inactive state; idle is 0.
pub fn resting(depth: usize) -> Colour {
    RESTING[depth.min(RESTING.len() - 1)]
}

/// Returns the part of the style sheet that defines the colours.
pub fn style() -> String {
    let all = [INK, AXIS, GRID, PEAK].into_iter().chain(DOMAINS).chain(ACTIVE).chain(RESTING);
    let (mut light, mut dark, mut uses) = (String::new(), String::new(), String::new());
    for Colour { light: on_light, dark: on_dark } in all {
        let name = format!("--c{on_light:06x}");
        let _ = write!(light, "{name}:#{on_light:06x};");
        let _ = write!(dark, "{name}:#{on_dark:06x};");
        for what in ["fill", "stroke"] {
            let _ = writeln!(uses, "svg [{what}=\"#{on_light:06X}\"]{{{what}:var({name})}}");
        }
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n{uses}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_colour_is_defined_once() {
        let style = style();
        let drawn = style.lines().filter(|l| l.starts_with("svg [fill")).count();
        let different: BTreeSet<&str> = style.lines().filter(|l| l.starts_with("svg")).collect();
        assert_eq!((drawn, different.len()), (19, 38));
        assert!(style.contains(&format!("--c{:06x}:#", domain(0).light)));
    }
}
