//! Files and pipes where kernels die and the service loses its state.
//!
//! Contract, in addition to that of [`crate::files`]: a handle belongs to the kernel whose call
//! opened or duplicated it, and is closed when the service learns that this life has ended; no call
//! of that life takes effect afterwards. The next life may make calls before. After a restart of
//! the service, all is empty, and handles of earlier lives answer `Restarted`. Deaths and restarts
//! are calls of the history, too.

use crate::check::Spec;
use crate::files::{self, Files, Got};
use abi::fs::{Errno, Op, Reply};
use fs::model::Model;
use std::collections::BTreeMap;

/// What happens at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A request of a kernel in one of its lives.
    Request { kernel: u8, life: u16, ask: files::Ask },
    /// The service learns that a life of a kernel has ended.
    Died { kernel: u8, life: u16 },
    /// The service loses its state and starts its next life.
    Restarted,
}

/// The state that replies depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    model: Model,
    budget: u64,
    /// The life of the service, which is part of its handles.
    life: u64,
    /// Owners of open handles: a kernel and its life.
    owners: BTreeMap<u64, (u8, u16)>,
    /// The first life of each kernel that has not ended.
    newest: BTreeMap<u8, u16>,
}

impl World {
    /// The service's life `life` begins, with a file system of `budget` bytes.
    pub fn new(life: u64, budget: u64) -> World {
        let (owners, newest) = (BTreeMap::new(), BTreeMap::new());
        World { model: Model::new(budget), budget, life, owners, newest }
    }

    /// Returns whether a handle is of an earlier life of the service.
    fn is_stale(&self, handle: u64) -> bool {
        handle >> 40 != 0 && handle >> 40 != self.life
    }
}

/// The specification.
pub struct Lives;

impl Spec for Lives {
    type State = World;
    type Ask = Ask;
    type Reply = Got;

    fn accept(&self, state: &World, ask: &Ask, reply: Option<&Got>) -> Option<World> {
        let mut behind = state.clone();
        match ask {
            Ask::Request { kernel, life, ask } => {
                let newest = state.newest.get(kernel).copied().unwrap_or(0);
                (*life >= newest).then_some(())?;
                let mut behind = request(state, (*kernel, *life), ask, reply)?;
                behind.newest.insert(*kernel, *life);
                Some(behind)
            }
            Ask::Died { kernel, life } => {
                let newest = behind.newest.entry(*kernel).or_default();
                *newest = (*newest).max(life + 1);
                let of_life = |(handle, owner): (&u64, &(u8, u16))| {
                    (*owner == (*kernel, *life)).then_some(*handle)
                };
                for handle in behind.owners.iter().filter_map(of_life).collect::<Vec<_>>() {
                    behind.owners.remove(&handle);
                    behind.model.answer(0, abi::fs::Request::new(Op::Close, handle), &mut []);
                }
                Some(behind)
            }
            Ask::Restarted => {
                (behind.life, behind.model) = (state.life + 1, Model::new(state.budget));
                behind.owners.clear();
                Some(behind)
            }
        }
    }

    fn only_looks(&self, ask: &Ask, got: &Got) -> bool {
        matches!(ask, Ask::Request { ask, .. } if files::only_looks(&ask.request, &got.reply))
    }
}

/// Returns the state after a request of a kernel that lives.
fn request(state: &World, life: (u8, u16), ask: &files::Ask, reply: Option<&Got>) -> Option<World> {
    let handles = [ask.request.handle, ask.request.second];
    if handles.iter().any(|handle| state.is_stale(*handle)) {
        let wanted = Reply::error(Errno::Restarted);
        return reply.is_none_or(|got| got.reply == wanted).then(|| state.clone());
    }
    let mut behind = state.clone();
    behind.model = Files.accept(&state.model, ask, reply)?;
    let before: Vec<u64> = state.model.handles().collect();
    let after: Vec<u64> = behind.model.handles().collect();
    behind.owners.retain(|handle, _| after.contains(handle));
    let new = after.into_iter().filter(|handle| !before.contains(handle));
    behind.owners.extend(new.map(|handle| (handle, life)));
    Some(behind)
}
