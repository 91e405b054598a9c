//! Random contracts as text: good ones from a seed.

use base::prng::Prng;
use std::fmt::Write;

/// Random numbers that are lengths and indexes.
pub struct Random(Prng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Prng::new(seed))
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const SIDES: [&str; 2] = ["client", "server"];
const TYPES: &[&str] = &[
    "u8",
    "u16",
    "u32",
    "u64",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8[1]",
    "u8[7]",
    "bytes[1]",
    "bytes[6]",
    "bytes[33]",
];

/// Returns the text of a good contract, to be parsed in the folder `contracts`, as it carries
/// endpoints of `other.v2`.
pub fn contract(seed: u64) -> String {
    let mut random = Random::new(seed);
    let count = 1 + random.below(8);
    // The last state is an end. A transition leads forward, or to a state of the other side.
    let sides: Vec<usize> = (0..count).map(|_| random.below(2)).collect();
    let mut text = "about = \"Random.\"\nstart = \"s0\"\n".to_string();
    let (mut states, mut messages) = (String::new(), 0);
    for (state, &side) in sides.iter().enumerate() {
        let close = random.below(2) == 0;
        let _ = writeln!(states, "[[state]]\nname = \"s{state}\"\nclose = {close}");
        for way in 0..1 + random.below(3) {
            let back = random.below(state + 1);
            let forward = state + 1 + random.below(count - state);
            let next = match way {
                0 => state + 1,
                _ if back < count && sides[back] != side && random.below(2) == 0 => back,
                _ => forward,
            };
            let _ = writeln!(states, "on.m{messages} = \"s{next}\"");
            text += &message(&mut random, messages, SIDES[side]);
            messages += 1;
        }
    }
    text + &states + &format!("[[state]]\nname = \"s{count}\"\nend = true\n")
}

fn message(random: &mut Random, index: usize, from: &str) -> String {
    let mut text = format!("[[message]]\nname = \"m{index}\"\nfrom = \"{from}\"\n");
    if random.below(3) == 0 {
        let _ = writeln!(text, "block = \"{} KiB\"", 1 + random.below(64));
    }
    let count = random.below(6);
    let field = |at| format!("{{ name = \"f{at}\", type = \"{}\" }}", random.pick(TYPES));
    let fields: Vec<String> = (0..count).map(field).collect();
    let count = random.below(3);
    let endpoint = |at| {
        let side = random.pick(&SIDES);
        format!("{{ name = \"e{at}\", contract = \"other.v2\", side = \"{side}\" }}")
    };
    let endpoints: Vec<String> = (0..count).map(endpoint).collect();
    let (fields, endpoints) = (fields.join(", "), endpoints.join(", "));
    text + &format!("fields = [{fields}]\nendpoints = [{endpoints}]\n")
}
