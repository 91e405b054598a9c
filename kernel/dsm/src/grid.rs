//! A table with one cell per core of each domain. Nearly always all cells are idle, so a count of
//! busy cells makes that case fast.

use crate::config::Config;
use crate::types::RequestId;

/// The content of a cell.
pub trait Cell: Copy + PartialEq {
    /// The value of a cell with nothing in progress.
    const IDLE: Self;
}

/// One cell per core of each domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grid<V, const D: usize, const C: usize> {
    cells: [[V; C]; D],
    domains: u8,
    cores: u8,
    /// Number of cells that are not idle.
    busy: u16,
}

impl<V: Cell, const D: usize, const C: usize> Grid<V, D, C> {
    /// Creates a grid of idle cells.
    pub fn new(config: &Config) -> Self {
        let (domains, cores) = (config.domains, config.cores);
        Grid { cells: [[V::IDLE; C]; D], domains, cores, busy: 0 }
    }

    pub fn is_idle(&self) -> bool {
        self.busy == 0
    }

    /// Returns whether exactly one cell is busy.
    pub fn is_single(&self) -> bool {
        self.busy == 1
    }

    /// Returns a cell, or [`Cell::IDLE`] if the board has no such core.
    pub fn get(&self, id: RequestId) -> V {
        let cell = self.cells.get(id.domain.index()).and_then(|row| row.get(id.core.index()));
        cell.copied().unwrap_or(V::IDLE)
    }

    /// Sets a cell; does nothing if the board has no such core.
    pub fn set(&mut self, id: RequestId, value: V) {
        let row = self.cells.get_mut(id.domain.index());
        let Some(cell) = row.and_then(|row| row.get_mut(id.core.index())) else { return };
        let before = core::mem::replace(cell, value);
        self.busy += u16::from(value != V::IDLE);
        self.busy -= u16::from(before != V::IDLE);
    }

    /// Applies `change` to every busy cell.
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

    /// Returns whether `what` holds for any cell. Returns false without a check if all cells are
    /// idle.
    pub fn any(&self, what: impl Fn(V) -> bool) -> bool {
        !self.is_idle() && self.cells().any(what)
    }

    /// Iterates over all cells, including idle ones.
    pub fn cells(&self) -> impl Iterator<Item = V> {
        let cores = usize::from(self.cores);
        self.cells[..usize::from(self.domains)].iter().flat_map(move |row| &row[..cores]).copied()
    }
}
