//! Events that concern many lines: a domain's death, its boot, memory rewritten unseen.

use crate::layout::{Layout, USED};
use crate::model::Model;
use crate::party::Domain;

impl Model<'_> {
    /// The domain has lost its power: its cache is gone, with the changes it held. The answer is
    /// the lines that may have been changed there only, in order; a chip loses any of them, so the
    /// caller may overwrite them in RAM. What RAM then holds counts as the newest value. The whole
    /// cache is gone even if the answer is dropped half-way.
    pub fn death(&mut self, domain: Domain) -> Dirty<'_> {
        Dirty { layout: &self.layout, domain, next: 0, ended: false }
    }

    /// The domain boots with an empty cache.
    pub fn reset(&mut self, domain: Domain) {
        drop(self.death(domain));
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

/// Physical addresses of the lines that a dead domain may have changed; see [`Model::death`].
pub struct Dirty<'m> {
    layout: &'m Layout<'m>,
    domain: Domain,
    next: usize,
    ended: bool,
}

impl Iterator for Dirty<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let set = self.domain.bit();
        while let Some(line) = self.layout.next_marked(self.next, set).filter(|_| !self.ended) {
            self.next = line + 1;
            let before = self.layout.line(line);
            let after = before.without(set);
            if after != before {
                self.layout.set_line(line, after);
            }
            if before.dirty() & set != 0 {
                return Some(self.layout.address(line));
            }
        }
        if !self.ended {
            self.layout.unmark(set);
            self.ended = true;
        }
        None
    }
}

impl Drop for Dirty<'_> {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}
