//! Hangs: the domain that the reports of waiting cores lead to, by [`Blame`].

use base::id::CoreId;
use stateright::Model;

use super::model::{State, World};
use super::steps::{Action, Status};
use crate::dsm::Leaving;
use abi::hang::Blame;

impl<const D: usize, const C: usize> World<D, C> {
    /// Returns the domain that a waiting core's report leads to, or `None` if it leads in a circle.
    fn accused(state: &State<D, C>, waits: usize, page: u32) -> Option<usize> {
        let mut at = waits;
        for _ in 0..=D {
            match state.nodes[at].dsm.blame(page) {
                _ if state.hangs[at] => return Some(at), // it does not answer
                Blame::Here => return Some(at),
                Blame::Peer(next) => at = usize::from(next),
                Blame::Nothing => return None,
            }
        }
        None
    }

    /// Returns the domains that reports of all waiting cores lead to.
    fn all_accused(&self, state: &State<D, C>) -> Vec<usize> {
        let mut accused = vec![];
        for (node, this) in state.nodes.iter().enumerate() {
            let leaves = this.dsm.leaving != Leaving::No && !this.left;
            let awaited = (0..C).filter_map(|core| this.dsm.awaited(CoreId(core as u8)));
            let waits = awaited.chain(leaves.then_some(self.pages));
            if state.status[node] == Status::Runs && !state.hangs[node] {
                accused.extend(waits.filter_map(|page| Self::accused(state, node, page)));
            }
        }
        accused
    }

    /// A domain may hang at any time. When nothing else can happen, the domains are reset that the
    /// reports of waiting cores lead to.
    pub fn hang_actions(&self, state: &State<D, C>, actions: &mut Vec<Action>) {
        let hung = state.hangs.contains(&true);
        if hung && actions.iter().all(|action| self.next_state(state, *action).is_none()) {
            actions.extend(self.all_accused(state).into_iter().map(Action::Reset));
        }
        if self.hang && !hung && state.kills == 0 {
            let runs = |node: &usize| state.status[*node] == Status::Runs;
            actions.extend((0..D).filter(runs).map(Action::Hang));
        }
    }
}
