//! Events that concern many lines: a domain's death, its boot, memory rewritten unseen.

use crate::layout::{Layout, USED};
use crate::line::Line;
use crate::model::Model;
use crate::party::Domain;

impl Model<'_> {
    /// The domain has lost its power: its cache is gone, with the changes it held. The answer is
    /// the lines whose newest value may have been there only, in order; a chip loses any of them,
    /// so the caller may overwrite them in RAM. What RAM then holds counts as the newest value. The
    /// whole cache is gone even if the answer is dropped half-way.
    pub fn death(&mut self, domain: Domain) -> Dirty<'_> {
        self.sweep(domain, |line, domain| line.without(domain.bit()))
    }

    /// The same of a domain that comes back and goes on: reading a line that it lost is reported,
    /// until somebody has written it. Lines of which the caller keeps a copy are not lost.
    pub fn power_off(&mut self, domain: Domain) -> Dirty<'_> {
        self.sweep(domain, Line::after_loss)
    }

    fn sweep(&mut self, domain: Domain, after: fn(Line, Domain) -> Line) -> Dirty<'_> {
        Dirty { layout: &self.layout, domain, after, next: 0, ended: false }
    }

    /// The domain makes all of its changes visible to its own instruction fetches (fence.i).
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

    /// The domain boots with an empty cache, and expects nothing of what it lost before.
    pub fn reset(&mut self, domain: Domain) {
        drop(self.sweep(domain, Line::after_boot));
    }

    /// The lines of this range hold something new that nobody reported (an emulator's loader wrote
    /// them), and no cache holds any of them.
    pub fn forget(&mut self, pa: u64, len: u64) {
        let Some((first, last)) = self.layout.span(pa, len) else { return };
        let mut line = first;
        while let Some(marked) = self.layout.next_marked(line, USED).filter(|l| *l <= last) {
            self.layout.set_line(marked, Default::default());
            line = marked + 1;
        }
    }
}

/// A line whose newest value may have gone with a domain's power; see [`Model::death`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its physical address.
    pub pa: u64,
    /// The caller keeps a copy of what memory holds of it.
    pub saved: bool,
}

/// The lines whose newest value a domain without power may have had, in order.
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
            // Where another has written since, RAM holds the other's bytes, not the lost ones.
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
