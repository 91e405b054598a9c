//! What a seed decides before the run: modes of the services, how fast the domains are, and what
//! happens to them when.

use abi::boot::{Blob, BootSecrets};
use base::prng::Prng;

/// Something that happens to a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its power fails at some step.
    Kill(usize),
    /// It is stopped where it is, and runs again when a peer wakes it, or later.
    Stop(usize),
    Wake(usize),
}

/// A run.
#[derive(Debug)]
pub struct Plan {
    pub blob: Box<Blob>,
    /// For the report.
    pub modes: String,
    /// Chip time of a step of each domain, in ns.
    pub step_ns: [u64; 2],
    /// Counter of each domain minus chip time, in ns.
    pub offset: [i64; 2],
    /// Longest turn, in steps.
    pub turn: u32,
    /// When what happens, in order.
    pub acts: Vec<(u64, Act)>,
}

/// The board: two domains with one core each.
const BOARD: &str = include_str!("../../../boards/duo-1x1.toml");

/// The services whose mode differs between seeds, and the modes that the board file may give them.
/// `main` and `shadow` are homes of a delegated one.
const CHOICES: &[(&str, &[&str])] = &[
    ("fs", &["shadowed", "shadowed", "main", "shadow"]),
    ("net", &["shadowed", "shadowed", "main", "shadow"]),
    ("processes", &["shadowed", "main", "shadow"]),
    ("frames", &["independent", "shadowed"]),
];

/// Time within which things happen to domains, in ns.
const SPAN: u64 = 40_000_000;

impl Plan {
    /// Without `acts`, nothing happens to the domains.
    pub fn new(seed: u64, with_acts: bool) -> Result<Plan, String> {
        let mut random = Prng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut text = without_devices(BOARD);
        let mut modes = String::new();
        for (name, choices) in CHOICES {
            let mode = choices[random.below(choices.len() as u64) as usize];
            let how = match mode {
                "main" | "shadow" => format!("\"delegated\", home = \"{mode}\""),
                _ => format!("\"{mode}\""),
            };
            text = replace(&text, name, &format!("{name} = {{ mode = {how} }}"))?;
            modes += &format!("{name} {mode}, ");
        }
        let board = board::parse("duo-1x1", &text).map_err(|why| why.to_string())?;
        let blob = board.blob_with("", &BootSecrets::default());
        let mut blob = Box::new(blob.map_err(|why| format!("{why:?}"))?);
        crate::layout::relocate(&mut blob);
        let slow = 1 + random.below(8);
        let step = 50 + random.below(200);
        let turns = [1, 8, 40, 200];
        let turn = turns[random.below(turns.len() as u64) as usize];
        let offset = [(); 2].map(|()| random.below(1 << 40) as i64);
        let mut acts = Vec::new();
        for _ in 0..random.below(3) {
            let (at, d) = (1_000_000 + random.below(SPAN), random.below(2) as usize);
            acts.push((at, Act::Kill(d)));
        }
        for _ in 0..random.below(4) {
            let (at, d) = (1_000_000 + random.below(SPAN), random.below(2) as usize);
            acts.push((at, Act::Stop(d)));
            acts.push((at + random.below(SPAN), Act::Wake(d)));
        }
        if !with_acts {
            acts.clear();
        }
        acts.sort_by_key(|&(at, _)| at);
        Ok(Plan { blob, modes, step_ns: [step, step * slow], offset, turn, acts })
    }
}

/// Returns a board file without its devices: the simulated chip has none. So a service may have
/// another home here than its device has on the board.
fn without_devices(text: &str) -> String {
    let mut is_device = false;
    let kept = text.lines().filter(|line| {
        if line.starts_with('[') {
            is_device = *line == "[[device]]";
        }
        !is_device
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// Replaces the line of a service in the board file.
fn replace(text: &str, name: &str, with: &str) -> Result<String, String> {
    let start = format!("{name} = {{ mode");
    let line = text.lines().find(|line| line.starts_with(&start));
    let line = line.ok_or_else(|| format!("the board has no service {name}"))?;
    Ok(text.replace(line, with))
}
