//! Events that concern many lines: a domain's death, its boot, unreported writes.

use crate::layout::{Layout, USED};
use crate::line::Line;
use crate::model::Model;
use crate::party::Domain;

impl Model<'_> {
    /// The domain has lost its power, and its cache with the changes it held. Returns, in order,
    /// the lines whose newest value may have been only there. A chip may lose any of them, so the
    /// caller may overwrite them in RAM; what RAM then holds counts as the newest value. The whole
    /// cache is gone even if the iterator is dropped early.
    pub fn death(&mut self, domain: Domain) -> Dirty<'_> {
        self.sweep(domain, |line, domain| line.without(domain.bit()))
    }

    /// The same for a domain that comes back and continues: reading a line that it lost is reported
    /// until the line is written. Lines of which the caller keeps a copy are not lost.
    pub fn power_off(&mut self, domain: Domain) -> Dirty<'_> {
        self.sweep(domain, Line::after_loss)
    }

    fn sweep(&mut self, domain: Domain, after: fn(Line, Domain) -> Line) -> Dirty<'_> {
        Dirty { layout: &self.layout, domain, after, next: 0, ended: false }
    }

    /// The domain makes all its changes visible to its own instruction fetches (fence.i).
    pub fn unify_all(&mut self, domain: Domain) {
        let mut line = 0;
        while let Some(marked) = self.layout.next_marked(line, domain.bit()) {
            let before = self.layout.line(marked);
            let after = before.after_unify(domain);
            if after != before {
                self.layout.set_line(marked, after);
            }
            line = marked + 1;
        }
    }

    /// The domain boots with an empty cache, and no longer expects the values that it lost before.
    pub fn reset(&mut self, domain: Domain) {
        drop(self.sweep(domain, Line::after_boot));
    }

    /// The lines of this range were written without a report (by an emulator's loader), and no
    /// cache holds any of them.
    pub fn forget(&mut self, pa: u64, len: u64) {
        let Some((first, last)) = self.layout.span(pa, len) else { return };
        let mut line = first;
        while let Some(marked) = self.layout.next_marked(line, USED).filter(|l| *l <= last) {
            self.layout.set_line(marked, Default::default());
            line = marked + 1;
        }
    }
}

/// A line whose newest value may have been lost with a domain's power; see [`Model::death`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its physical address.
    pub pa: u64,
    /// Whether the caller keeps a copy of its contents in memory.
    pub saved: bool,
}

/// The lines whose newest value only a domain without power may have had, in order.
pub struct Dirty<'m> {
    layout: &'m Layout<'m>,
    domain: Domain,
    after: fn(Line, Domain) -> Line,
    next: usize,
    ended: bool,
}

impl Iterator for Dirty<'_> {
    type Item = Lost;

    fn next(&mut self) -> Option<Lost> {
        let set = self.domain.bit();
        while let Some(line) = self.layout.next_marked(self.next, set).filter(|_| !self.ended) {
            self.next = line + 1;
            let before = self.layout.line(line);
            let after = (self.after)(before, self.domain);
            if after != before {
                self.layout.set_line(line, after);
            }
            // If another domain has written since, RAM holds that domain's bytes, not the lost
            // ones.
            if before.dirty() & !before.stale() & set != 0 {
                return Some(Lost { pa: self.layout.address(line), saved: before.is_saved() });
            }
        }
        self.ended = true;
        None
    }
}

impl Drop for Dirty<'_> {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}
