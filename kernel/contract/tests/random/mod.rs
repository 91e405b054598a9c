//! Random automata: valid ones from a seed, small enough to explore completely.

use base::prng::Prng;
use kernel_contract::{Carried, ENDPOINTS, Hash, MAX_LEVEL, Shape, Side, Tables, Turn};

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

    fn side(&mut self) -> Side {
        if self.below(2) == 0 { Side::Client } else { Side::Server }
    }
}

/// Returns the tables of a valid automaton with at most `most` states.
pub fn tables(seed: u64, most: usize) -> Tables {
    let mut random = Random::new(seed);
    let messages: Vec<Shape> = (0..8).map(|_| shape(&mut random)).collect();
    let count = 1 + random.below(most);
    let mut states: Vec<Option<Side>> = (0..count).map(|_| Some(random.side())).collect();
    if count > 1 && random.below(4) > 0 {
        states[count - 1] = None;
    }
    let mut edges: Vec<(u8, u8, u8)> = Vec::new();
    // A path to each state makes all reachable.
    for next in 1..count {
        let state = random.below(next);
        add(&mut random, &mut edges, &states, &messages, state, next);
    }
    for _ in 0..random.below(3 * count + 1) {
        let (state, next) = (random.below(count), random.below(count));
        // Only forward edges stay with one side, so no cycle does.
        if states[state] != states[next] || state < next {
            add(&mut random, &mut edges, &states, &messages, state, next);
        }
    }
    // A state without transitions becomes an end state.
    for (index, side) in states.iter_mut().enumerate() {
        if edges.iter().all(|edge| usize::from(edge.0) != index) {
            *side = None;
        }
    }
    let closes = random.below(2) == 0;
    let turn = |&side: &Option<Side>| Turn { side, may_close: side.is_some() && closes };
    let states = states.iter().map(turn).collect();
    let carries = messages.iter().any(|message| !message.endpoints.is_empty());
    let level = if carries { 1 + random.below(MAX_LEVEL.into()) as u8 } else { 0 };
    Tables { start: 0, level, names: [7; 16], states, messages, transitions: edges }
}

fn shape(random: &mut Random) -> Shape {
    let endpoint = |random: &mut Random| Carried {
        contract: Hash([random.below(4) as u8; 16]),
        side: random.side(),
    };
    Shape {
        from: random.side(),
        inline: random.below(2049) as u16,
        block: if random.below(2) == 0 { 0 } else { random.below(16 << 20) as u32 },
        endpoints: (0..random.below(ENDPOINTS + 1)).map(|_| endpoint(random)).collect(),
    }
}

/// Adds a transition by a message that the state's side sends and that the state does not use yet.
fn add(
    random: &mut Random,
    edges: &mut Vec<(u8, u8, u8)>,
    states: &[Option<Side>],
    messages: &[Shape],
    state: usize,
    next: usize,
) {
    let is_free = |&message: &usize| {
        let is_used = edges.iter().any(|edge| (edge.0, edge.1) == (state as u8, message as u8));
        Some(messages[message].from) == states[state] && !is_used
    };
    let free: Vec<usize> = (0..messages.len()).filter(is_free).collect();
    if !free.is_empty() {
        let message = free[random.below(free.len())];
        edges.push((state as u8, message as u8, next as u8));
    }
}
