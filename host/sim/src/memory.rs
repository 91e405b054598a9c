//! Shared memory as weakly ordered domains see it.
//!
//! Each agent (a domain, or a core) has a store buffer: its stores become visible one by one, in
//! any order but that of stores to one word; a barrier empties it. Loads see the agent's own
//! stores at once. A load may also return what the word held at any time since the agent's last
//! barrier: it was made early. It never goes back behind what that agent has read of that word.
//!
//! Weaker than any of our ISAs in what it covers (both are multi-copy atomic); what it leaves out
//! is a load made late, after a later store: `litmus` covers that.

use std::collections::BTreeMap;

/// Where words are kept.
pub trait Cells {
    /// The word at `at`.
    fn get(&self, at: usize) -> u64;
    /// Changes it.
    fn set(&mut self, at: usize, value: u64);
}

impl Cells for Vec<u64> {
    fn get(&self, at: usize) -> u64 {
        self[at / 8]
    }
    fn set(&mut self, at: usize, value: u64) {
        self[at / 8] = value;
    }
}

impl Cells for BTreeMap<usize, u64> {
    fn get(&self, at: usize) -> u64 {
        self.get(&at).copied().unwrap_or(0)
    }
    fn set(&mut self, at: usize, value: u64) {
        self.insert(at, value);
    }
}

/// What one agent has stored and may still see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    /// Stores that nobody else sees yet, oldest first.
    buffer: Vec<(usize, u64)>,
    /// Per word, what it held before since the last barrier, oldest first.
    old: Vec<(usize, u64)>,
}

/// The memory and all views of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory<C> {
    /// What everybody sees.
    pub cells: C,
    views: Vec<View>,
    /// May loads be early?
    early: bool,
}

impl<C: Cells> Memory<C> {
    /// For `agents` agents. Without `early`, loads happen in order.
    pub fn new(cells: C, agents: usize, early: bool) -> Memory<C> {
        Memory { cells, views: vec![View::default(); agents], early }
    }

    /// A store goes into the agent's buffer.
    pub fn store(&mut self, agent: usize, at: usize, value: u64) {
        self.views[agent].buffer.push((at, value));
    }

    /// How many values a load could return.
    pub fn choices(&self, agent: usize, at: usize) -> usize {
        let view = &self.views[agent];
        if view.buffer.iter().any(|store| store.0 == at) {
            return 1;
        }
        1 + view.old.iter().filter(|old| old.0 == at).count()
    }

    /// Loads; `choice` 0 is the newest value, others are older ones.
    pub fn load(&mut self, agent: usize, at: usize, choice: usize) -> u64 {
        let view = &mut self.views[agent];
        if let Some(store) = view.buffer.iter().rev().find(|store| store.0 == at) {
            return store.1;
        }
        let olds: Vec<u64> = view.old.iter().filter(|old| old.0 == at).map(|old| old.1).collect();
        if choice == 0 || choice > olds.len() {
            view.old.retain(|old| old.0 != at);
            return self.cells.get(at);
        }
        let pick = olds.len() - choice;
        let mut seen = 0;
        view.old.retain(|old| {
            seen += usize::from(old.0 == at);
            old.0 != at || seen > pick
        });
        olds[pick]
    }

    /// Empties the agent's buffer; no load behind this is made before it.
    pub fn barrier(&mut self, agent: usize) {
        while !self.views[agent].buffer.is_empty() {
            self.drain(agent, 0);
        }
        self.views[agent].old.clear();
    }

    /// Indices of the stores in the agent's buffer that could become visible next.
    pub fn drainable(&self, agent: usize) -> impl Iterator<Item = usize> + '_ {
        let buffer = &self.views[agent].buffer;
        (0..buffer.len()).filter(|i| buffer[..*i].iter().all(|store| store.0 != buffer[*i].0))
    }

    /// Stores that linger.
    pub fn buffered(&self, agent: usize) -> usize {
        self.views[agent].buffer.len()
    }

    /// Makes one of [`Memory::drainable`] visible.
    pub fn drain(&mut self, agent: usize, index: usize) {
        let (at, value) = self.views[agent].buffer.remove(index);
        let before = self.cells.get(at);
        self.cells.set(at, value);
        if self.early && before != value {
            for (other, view) in self.views.iter_mut().enumerate() {
                if other != agent && !view.old.contains(&(at, before)) {
                    view.old.push((at, before));
                }
            }
        }
    }

    /// The agent died: what lingers is lost.
    pub fn kill(&mut self, agent: usize) {
        self.views[agent] = View::default();
    }
}
