//! Where things are in the drawing of programs and their channels.
//!
//! ```text
//!   +- kernel ------+
//!   | +- program -+ |
//!   | |         port|---- contract, figures ----+      one row for each port,
//!   | |         port|<--- client ------------+  |      one lane for each arrow
//!   | +-----------+ |                        |  |      that is beside another one
//!   +---------------+                        |  |
//! ```
//! Contract: kernels and their programs are below each other. An arrow begins and ends in a row of
//! its own, so no text is over another one, however many there are. The same talks give the same
//! layout, in whatever order they come.

use records::record::Talk;
use std::collections::BTreeSet;

/// A rectangle in the drawing, in units of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

impl Rect {
    pub fn right(&self) -> u32 {
        self.x + self.width
    }

    pub fn bottom(&self) -> u32 {
        self.y + self.height
    }
}

/// A program on a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program<'a> {
    pub name: &'a str,
    pub kernel: &'a str,
    pub rect: Rect,
}

/// A kernel, around its programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
    pub name: &'a str,
    pub rect: Rect,
}

/// An arrow from a client to a server: to the right from `from`, along the lane at `lane`, and back
/// to the left to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow<'a> {
    pub talk: &'a Talk,
    /// Indices of the programs.
    pub client: usize,
    pub server: usize,
    /// Points at the right edges of their boxes.
    pub from: (u32, u32),
    pub to: (u32, u32),
    pub lane: u32,
}

/// The drawing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout<'a> {
    pub kernels: Vec<Kernel<'a>>,
    pub programs: Vec<Program<'a>>,
    pub arrows: Vec<Arrow<'a>>,
    pub width: u32,
    pub height: u32,
}

/// Space around everything, and between boxes.
const GAP: u32 = 16;
/// Height of a kernel's name above its programs.
pub const TITLE: u32 = 30;
/// Width of a program's box.
const BOX: u32 = 230;
/// Height of a row: two lines of text with an arrow between them.
pub const ROW: u32 = 46;
/// Space for the text at an arrow.
pub const TEXT: u32 = 430;
/// Between two lanes.
const LANE: u32 = 14;

/// Places the programs that have talked, and arrows between them.
pub fn layout(talks: &[Talk]) -> Layout<'_> {
    let mut talks: Vec<&Talk> = talks.iter().collect();
    talks.sort_by_key(|talk| key(talk));
    let clients = talks.iter().map(|talk| (talk.client_kernel.as_str(), talk.client.as_str()));
    let servers = talks.iter().map(|talk| (talk.server_kernel.as_str(), talk.server.as_str()));
    let all: BTreeSet<(&str, &str)> = clients.chain(servers).collect();
    let all: Vec<(&str, &str)> = all.into_iter().collect();
    let index = |program| all.iter().position(|it| *it == program).unwrap_or(0);
    let both = talks.iter().map(|talk| {
        let client = (talk.client_kernel.as_str(), talk.client.as_str());
        let server = (talk.server_kernel.as_str(), talk.server.as_str());
        (index(client), index(server))
    });
    let both: Vec<(usize, usize)> = both.collect();
    let ports = ports(all.len(), &both);
    let mut layout = boxes(&all, &ports);
    let point = |program: usize, arrow, is_server| {
        let rect = layout.programs[program].rect;
        let row = ports[program].iter().position(|port| *port == (arrow, is_server)).unwrap_or(0);
        (rect.right(), rect.y + row as u32 * ROW + ROW / 2)
    };
    let ends = both.iter().enumerate().map(|(arrow, (client, server))| {
        (point(*client, arrow, false), point(*server, arrow, true))
    });
    let ends: Vec<_> = ends.collect();
    let lanes = lanes(&ends.iter().map(|(from, to)| (from.1, to.1)).collect::<Vec<_>>());
    let first = layout.kernels.iter().map(|it| it.rect.right()).max().unwrap_or(0) + TEXT;
    for (((talk, (client, server)), (from, to)), lane) in
        talks.into_iter().zip(both).zip(ends).zip(&lanes)
    {
        let lane = first + *lane as u32 * LANE;
        layout.arrows.push(Arrow { talk, client, server, from, to, lane });
    }
    let most = lanes.iter().max().map_or(0, |most| *most as u32 + 1);
    layout.width = first + most * LANE + GAP;
    layout
}

fn key(talk: &Talk) -> [&str; 5] {
    let Talk { client_kernel, client, server_kernel, server, contract, .. } = talk;
    [client_kernel, client, server_kernel, server, contract].map(String::as_str)
}

/// Returns the ports of each program: arrows, and whether the program is their server. Those that
/// lead up come first, so that fewer arrows cross.
fn ports(programs: usize, both: &[(usize, usize)]) -> Vec<Vec<(usize, bool)>> {
    let of = |program: usize| {
        let ends = both.iter().enumerate().flat_map(|(arrow, (client, server))| {
            [(*client, *server, arrow, false), (*server, *client, arrow, true)]
        });
        let mut own: Vec<(usize, usize, bool)> = ends
            .filter(|(own, ..)| *own == program)
            .map(|(_, other, arrow, is_server)| (other, arrow, is_server))
            .collect();
        own.sort_unstable();
        own.into_iter().map(|(_, arrow, is_server)| (arrow, is_server)).collect()
    };
    (0..programs).map(of).collect()
}

/// Places the boxes. The programs are ordered by kernel.
fn boxes<'a>(all: &[(&'a str, &'a str)], ports: &[Vec<(usize, bool)>]) -> Layout<'a> {
    let (mut layout, mut y) = (Layout::default(), GAP);
    for programs in all.chunk_by(|one, next| one.0 == next.0) {
        let top = y;
        y += TITLE;
        for (kernel, name) in programs {
            let rows = ports[layout.programs.len()].len() as u32;
            let rect = Rect { x: 2 * GAP, y, width: BOX, height: rows * ROW };
            y = rect.bottom() + GAP;
            layout.programs.push(Program { name, kernel, rect });
        }
        let rect = Rect { x: GAP, y: top, width: BOX + 2 * GAP, height: y - top };
        layout.kernels.push(Kernel { name: programs[0].0, rect });
        y += GAP;
    }
    layout.height = y;
    layout
}

/// Returns a lane for each arrow, by the heights of its ends: two in one lane do not touch. Short
/// arrows get the inner lanes.
fn lanes(heights: &[(u32, u32)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|arrow| (heights[*arrow].0.abs_diff(heights[*arrow].1), *arrow));
    let mut taken: Vec<Vec<(u32, u32)>> = Vec::new();
    let mut lanes = vec![0; heights.len()];
    for arrow in order {
        let (one, other) = heights[arrow];
        let span = (one.min(other), one.max(other));
        let is_free = |lane: &Vec<(u32, u32)>| lane.iter().all(|it| it.1 < span.0 || span.1 < it.0);
        let lane = taken.iter().position(is_free).unwrap_or_else(|| {
            taken.push(Vec::new());
            taken.len() - 1
        });
        taken[lane].push(span);
        lanes[arrow] = lane;
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(client: (usize, usize), server: (usize, usize), contract: usize) -> Talk {
        let program =
            |it: (usize, usize)| (format!("program-{}", it.1), format!("kernel-{}", it.0));
        let ((client, client_kernel), (server, server_kernel)) = (program(client), program(server));
        Talk {
            run: "r".to_string(),
            contract: format!("contract.v{contract}"),
            client,
            client_kernel,
            server,
            server_kernel,
            channels: 1,
            client_sent: 1,
            client_bytes: 2,
            server_sent: 3,
            server_bytes: 4,
        }
    }

    /// Talks between `programs` programs on so many kernels, each with several others, and with
    /// another process of its own name.
    fn many(kernels: usize, programs: usize) -> Vec<Talk> {
        let at = |program: usize| (program % kernels, program);
        let mut all = Vec::new();
        for one in 0..programs {
            for step in [0, 1, 3, 7] {
                all.push(talk(at(one), at((one * step + step) % programs), step));
            }
        }
        all
    }

    fn overlap(one: &Rect, other: &Rect) -> bool {
        one.x < other.right()
            && other.x < one.right()
            && one.y < other.bottom()
            && other.y < one.bottom()
    }

    fn apart<'a>(all: impl Iterator<Item = &'a Rect> + Clone) {
        for (at, one) in all.clone().enumerate() {
            for other in all.clone().skip(at + 1) {
                assert!(!overlap(one, other), "{one:?} {other:?}");
            }
        }
    }

    fn check(layout: &Layout<'_>) {
        apart(layout.programs.iter().map(|it| &it.rect));
        apart(layout.kernels.iter().map(|it| &it.rect));
        for program in &layout.programs {
            let around: Vec<&str> = layout
                .kernels
                .iter()
                .filter(|it| overlap(&it.rect, &program.rect))
                .map(|it| it.name)
                .collect();
            assert_eq!(around, [program.kernel]);
        }
        let mut rows = BTreeSet::new();
        for arrow in &layout.arrows {
            for (end, program, name) in [
                (arrow.from, arrow.client, &arrow.talk.client),
                (arrow.to, arrow.server, &arrow.talk.server),
            ] {
                let Program { name: found, rect, .. } = &layout.programs[program];
                assert_eq!(found, name);
                assert_eq!(end.0, rect.right());
                assert!(rect.y < end.1 && end.1 < rect.bottom(), "{arrow:?}");
                assert!(rows.insert(end.1), "two arrows in one row");
            }
            assert!(arrow.lane + GAP <= layout.width);
            assert!(arrow.lane >= arrow.from.0 + TEXT, "a lane crosses text");
        }
        for (at, one) in layout.arrows.iter().enumerate() {
            for other in &layout.arrows[at + 1..] {
                let span = |it: &Arrow<'_>| (it.from.1.min(it.to.1), it.from.1.max(it.to.1));
                let (a, b) = (span(one), span(other));
                assert!(one.lane != other.lane || a.1 < b.0 || b.1 < a.0, "two arrows are one");
            }
        }
        let bottom = layout.kernels.iter().map(|it| it.rect.bottom()).max().unwrap_or(0);
        assert!(bottom < layout.height);
    }

    #[test]
    fn nothing_overlaps_and_every_arrow_ends_at_its_boxes() {
        for kernels in 1..=8 {
            for programs in [1, 2, 5, 40] {
                let talks = many(kernels, programs);
                let layout = layout(&talks);
                check(&layout);
                assert_eq!(layout.arrows.len(), talks.len());
                assert_eq!(layout.programs.len(), programs);
                assert_eq!(layout.kernels.len(), kernels.min(programs));
            }
        }
    }

    #[test]
    fn the_order_of_the_records_does_not_matter() {
        let (talks, mut turned) = (many(3, 7), many(3, 7));
        turned.reverse();
        assert_eq!(layout(&talks), layout(&turned));
    }

    #[test]
    fn a_program_that_runs_on_two_kernels_has_two_boxes() {
        let talks = [talk((0, 1), (1, 1), 1)];
        let layout = layout(&talks);
        check(&layout);
        assert_eq!(layout.programs.len(), 2);
    }

    #[test]
    fn without_talks_there_are_no_boxes() {
        assert_eq!(layout(&[]).programs, []);
    }
}
