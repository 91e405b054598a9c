//! A cell for each core of each domain, nearly all of them idle nearly always, which is quick to
//! see.

use crate::word::{Config, RequestId};

/// What a cell holds.
pub trait Cell: Copy + PartialEq {
    /// Nothing is under way.
    const IDLE: Self;
}

/// The cells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grid<V, const D: usize, const C: usize> {
    cells: [[V; C]; D],
    domains: u8,
    cores: u8,
    /// Cells that are not idle.
    busy: u16,
}

impl<V: Cell, const D: usize, const C: usize> Grid<V, D, C> {
    /// All idle.
    pub fn new(config: &Config) -> Self {
        let (domains, cores) = (config.domains, config.cores);
        Grid { cells: [[V::IDLE; C]; D], domains, cores, busy: 0 }
    }

    /// Is nothing under way?
    pub fn is_idle(&self) -> bool {
        self.busy == 0
    }

    /// Is one thing under way?
    pub fn is_single(&self) -> bool {
        self.busy == 1
    }

    /// A cell; idle, if there is none of that name.
    pub fn get(&self, id: RequestId) -> V {
        let cell = self.cells.get(id.domain.index()).and_then(|row| row.get(id.core.index()));
        cell.copied().unwrap_or(V::IDLE)
    }

    /// Changes a cell.
    pub fn set(&mut self, id: RequestId, value: V) {
        let row = self.cells.get_mut(id.domain.index());
        let Some(cell) = row.and_then(|row| row.get_mut(id.core.index())) else { return };
        let before = core::mem::replace(cell, value);
        self.busy += u16::from(value != V::IDLE);
        self.busy -= u16::from(before != V::IDLE);
    }

    /// Changes every cell that is not idle.
    pub fn change(&mut self, change: impl Fn(V) -> V) {
        if self.is_idle() {
            return;
        }
        let (domains, cores) = (usize::from(self.domains), usize::from(self.cores));
        for cell in self.cells[..domains].iter_mut().flat_map(|row| &mut row[..cores]) {
            if *cell != V::IDLE {
                *cell = change(*cell);
                self.busy -= u16::from(*cell == V::IDLE);
            }
        }
    }

    /// Is there one of which `what` is true?
    pub fn any(&self, what: impl Fn(V) -> bool) -> bool {
        !self.is_idle() && self.cells().any(what)
    }

    /// All cells, idle ones too.
    pub fn cells(&self) -> impl Iterator<Item = V> {
        let cores = usize::from(self.cores);
        self.cells[..usize::from(self.domains)].iter().flat_map(move |row| &row[..cores]).copied()
    }
}
