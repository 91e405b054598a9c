//! Progress: the complete state graph of a model, and what is wrong with it.
//!
//! A state without successors must be a state in which everything is done, and the graph must have
//! no cycle. Then *every* schedule, fair or not, ends, and ends well. Programs are finite, so a
//! cycle would be pages or messages that move without any core making progress.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use stateright::{Expectation, Model};

/// The result of an exploration.
#[derive(Debug)]
pub struct Graph {
    pub states: usize,
    /// The name of a violated property.
    pub wrong: Option<&'static str>,
    /// Whether there is a deadlock: a state without successors in which not everything is done.
    pub stuck: bool,
    pub cycle: bool,
    /// The actions that lead to the first defect.
    pub path: Vec<String>,
}

impl Graph {
    pub fn is_fine(&self) -> bool {
        self.wrong.is_none() && !self.stuck && !self.cycle
    }
}

struct Search<'a, M: Model> {
    model: &'a M,
    ids: HashMap<u64, u32>,
    edges: Vec<(u32, u32)>,
    /// Predecessor on a shortest path, by state.
    parents: Vec<u32>,
    queue: VecDeque<(u32, M::State)>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl<M: Model> Search<'_, M>
where
    M::State: std::hash::Hash + Clone,
{
    fn add(&mut self, parent: u32, state: M::State) -> u32 {
        let next = self.ids.len() as u32;
        let id = *self.ids.entry(self.hasher.hash_one(&state)).or_insert(next);
        if id == next {
            self.parents.push(parent);
            self.queue.push_back((id, state));
        }
        id
    }

    fn wrong(&self, state: &M::State) -> Option<&'static str> {
        let fails = |p: &stateright::Property<M>| {
            p.expectation == Expectation::Always && !(p.condition)(self.model, state)
        };
        self.model.properties().into_iter().find(fails).map(|property| property.name)
    }

    /// Kahn's algorithm: states that remain when those without predecessors are removed repeatedly.
    fn has_cycle(&self) -> bool {
        let mut indegree = vec![0u32; self.ids.len()];
        let mut first = vec![0usize; self.ids.len() + 1];
        for (from, to) in &self.edges {
            indegree[*to as usize] += 1;
            first[*from as usize + 1] += 1;
        }
        (0..self.ids.len()).for_each(|i| first[i + 1] += first[i]);
        let mut ready: Vec<usize> = (0..indegree.len()).filter(|i| indegree[*i] == 0).collect();
        let mut left = indegree.len();
        while let Some(state) = ready.pop() {
            left -= 1;
            // Edges are sorted by state, because they were found in that order.
            for (_, to) in &self.edges[first[state]..first[state + 1]] {
                indegree[*to as usize] -= 1;
                if indegree[*to as usize] == 0 {
                    ready.push(*to as usize);
                }
            }
        }
        left > 0
    }

    fn path(&self, to: u32) -> Vec<u32> {
        let mut path = vec![to];
        while path[path.len() - 1] != 0 {
            path.push(self.parents[path[path.len() - 1] as usize]);
        }
        path.reverse();
        path
    }

    fn describe(&self, to: u32) -> Vec<String>
    where
        M::Action: std::fmt::Debug + Clone,
    {
        let Some(mut state) = self.model.init_states().pop() else { return vec![] };
        let mut lines = vec![];
        for id in self.path(to).into_iter().skip(1) {
            let mut actions = vec![];
            self.model.actions(&state, &mut actions);
            for action in actions {
                let Some(next) = self.model.next_state(&state, action.clone()) else { continue };
                if self.ids.get(&self.hasher.hash_one(&next)) == Some(&id) {
                    lines.push(format!("{action:?}"));
                    state = next;
                    break;
                }
            }
        }
        lines
    }
}

/// Explores a model with one initial state, up to the first defect.
pub fn explore<M: Model>(model: &M, is_done: impl Fn(&M::State) -> bool) -> Graph
where
    M::State: std::hash::Hash + Clone,
    M::Action: std::fmt::Debug + Clone,
{
    let mut search = Search {
        model,
        ids: HashMap::new(),
        edges: vec![],
        parents: vec![],
        queue: VecDeque::new(),
        hasher: BuildHasherDefault::default(),
    };
    for state in model.init_states() {
        search.add(0, state);
    }
    let mut graph = Graph { states: 0, wrong: None, stuck: false, cycle: false, path: vec![] };
    let mut actions = vec![];
    while let Some((id, state)) = search.queue.pop_front() {
        graph.wrong = search.wrong(&state);
        model.actions(&state, &mut actions);
        let mut end = true;
        for action in actions.drain(..) {
            if let Some(next) = model.next_state(&state, action) {
                end = false;
                let next = search.add(id, next);
                search.edges.push((id, next));
            }
        }
        graph.stuck = end && !is_done(&state);
        if !graph.is_fine() {
            graph.path = search.describe(id);
            break;
        }
    }
    graph.states = search.ids.len();
    graph.cycle = graph.is_fine() && search.has_cycle();
    graph
}
