//! Shared memory as weakly ordered domains see it.
//!
//! Each agent (a domain, or a core) has a store buffer: its stores become visible one by one, in
//! any order except that of stores to the same word; a barrier drains it. Loads see the agent's own
//! stores at once. A load may also return any value that the word held since the agent's last
//! barrier, as if it was made early, but never an older value than the agent has already read from
//! that word.
//!
//! This is weaker than our ISAs (both are multi-copy atomic), except that a load cannot be delayed
//! after a later store; `litmus` covers that.

use std::collections::BTreeMap;

/// Storage of words.
pub trait Cells {
    /// Returns the word at `at`.
    fn get(&self, at: usize) -> u64;
    /// Sets the word at `at`.
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

/// The stores of an agent, and old values that it may still load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    /// Stores that are not visible to other agents yet, oldest first.
    buffer: Vec<(usize, u64)>,
    /// Values that each word held since the last barrier, oldest first.
    old: Vec<(usize, u64)>,
}

/// The memory with all agents' views.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory<C> {
    /// The globally visible words.
    pub cells: C,
    views: Vec<View>,
    /// Whether loads may be early.
    early: bool,
}

impl<C: Cells> Memory<C> {
    /// Creates a memory for `agents` agents. Without `early`, loads happen in order.
    pub fn new(cells: C, agents: usize, early: bool) -> Memory<C> {
        Memory { cells, views: vec![View::default(); agents], early }
    }

    /// A store goes into the agent's buffer.
    pub fn store(&mut self, agent: usize, at: usize, value: u64) {
        self.views[agent].buffer.push((at, value));
    }

    /// Returns the number of values that a load may return.
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

    /// Drains the agent's buffer. Later loads are not made before the barrier.
    pub fn barrier(&mut self, agent: usize) {
        while !self.views[agent].buffer.is_empty() {
            self.drain(agent, 0);
        }
        self.views[agent].old.clear();
    }

    /// Returns the indices of the buffered stores that may become visible next.
    pub fn drainable(&self, agent: usize) -> impl Iterator<Item = usize> + '_ {
        let buffer = &self.views[agent].buffer;
        (0..buffer.len()).filter(|i| buffer[..*i].iter().all(|store| store.0 != buffer[*i].0))
    }

    /// Returns the number of buffered stores.
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

    /// The agent died: its buffered stores are lost.
    pub fn kill(&mut self, agent: usize) {
        self.views[agent] = View::default();
    }
}
