//! The beginning and the end of sessions with other kernels.

use crate::channels::{Channels, Effects};
use crate::end::Place;
use crate::name::Life;

impl<B> Channels<B> {
    /// A session with a kernel begins. All its earlier lives are over, also those of which this
    /// kernel never heard.
    pub fn kernel_started(&mut self, life: Life, effects: &mut dyn Effects<B>) {
        let before = base::id::Epoch(life.epoch.0.saturating_sub(1));
        self.kernel_died(Life { epoch: before, ..life }, effects);
        if self.peers.start(life) {
            (0..self.table.len()).for_each(|index| self.list(index));
            self.grant();
        }
    }

    /// This life of a kernel is over, or its session with this kernel. What it held is closed.
    pub fn kernel_died(&mut self, life: Life, effects: &mut dyn Effects<B>) {
        if life.kernel == self.peers.me.kernel || self.ready.len() <= life.kernel.index() {
            return;
        }
        self.peers.end(life);
        if self.peers.session(life.kernel).is_none() {
            self.ready[life.kernel.index()].clear();
            let unlist = !(1 << life.kernel.0);
            for index in 0..self.table.len() {
                if let Some(end) = self.table.get_mut(index) {
                    end.listed &= unlist;
                }
            }
        }
        (0..self.table.len()).for_each(|index| self.after_death(index, effects));
        self.grant();
    }

    /// Draws the conclusions for one end. A stand-in whose end is lost says so in its place.
    fn after_death(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        self.break_if_lost(index, effects);
        let Some(end) = self.table.get_mut(index) else { return };
        if let Place::Handed { to, .. } = end.place
            && self.peers.is_gone(to)
        {
            return self.close_end(index, effects);
        }
        if let Place::Away(to) = end.place
            && self.peers.is_gone(to)
        {
            (end.place, end.relay, end.record.is_broken) = (Place::Closed, None, true);
            self.announce_last_news(index);
            #[cfg(test)]
            self.silence(index);
            self.drop_queue(index, effects);
            self.drop_outgoing(index, effects);
        }
        self.settle(index, effects);
    }

    /// Grants free slots to other kernels.
    pub(crate) fn grant(&mut self) {
        let free = self.table.free();
        self.peers.grant(free);
    }
}
