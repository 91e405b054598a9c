//! Excludes kernels step by step. Contract: a step that would exclude all that are left excludes
//! none, so if there is a kernel at the start, one is left at the end.

use crate::{Decision, Facts, Kernels, Reason, STEPS, Step};

pub struct Narrowing<'a> {
    facts: &'a [Facts],
    pub left: Kernels,
    steps: [Option<Step>; STEPS],
    taken: usize,
}

impl<'a> Narrowing<'a> {
    /// Starts with the available kernels.
    pub fn new(facts: &'a [Facts]) -> Narrowing<'a> {
        let left = Kernels::those(facts, |_, facts| facts.is_available);
        Narrowing { facts, left, steps: [None; STEPS], taken: 0 }
    }

    /// Keeps the kernels for which `wanted` holds. Returns false, and keeps all, if there is none.
    pub fn keep(&mut self, reason: Reason, wanted: impl Fn(usize, &Facts) -> bool) -> bool {
        let before = self.left;
        if let Some(at) = before.only() {
            return self.facts.get(at).is_some_and(|facts| wanted(at, facts));
        }
        let left = Kernels::those(self.facts, |at, facts| before.has(at) && wanted(at, facts));
        if left.count() == 0 {
            return false;
        }
        if left != before {
            self.left = left;
            if let Some(step) = self.steps.get_mut(self.taken) {
                *step = Some(Step { reason, left });
                self.taken += 1;
            }
        }
        true
    }

    /// Keeps the kernels for which `rank` is least.
    pub fn keep_least(&mut self, reason: Reason, rank: impl Fn(&Facts) -> u64) {
        if self.left.only().is_some() {
            return;
        }
        let ranks = self.left.iter().filter_map(|at| self.facts.get(at)).map(&rank);
        if let Some(least) = ranks.min() {
            self.keep(reason, |_, facts| rank(facts) == least);
        }
    }

    /// Returns the first kernel that is left, and the last step that excluded others.
    pub fn decision(&self) -> Option<Decision> {
        let kernel = self.left.iter().next()?;
        let reason = self.steps.iter().flatten().last().map_or(Reason::Only, |step| step.reason);
        Some(Decision { kernel, reason, steps: self.steps })
    }
}
