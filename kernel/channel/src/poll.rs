//! Programs that wait for an end.
//!
//! Contract: an end that is watched reports once, by [`Effects::wake`], that there is something to
//! receive, or nothing any more.

use crate::channels::{BadEnd, Channels, Effects};
use crate::name::EndId;

impl<B> Channels<B> {
    /// Returns whether `receive` would give a message or report that the peer is closed. If not,
    /// the end is watched: [`Effects::wake`] comes once, when that changes.
    pub fn begin_poll(&mut self, end: EndId) -> Result<bool, BadEnd> {
        let index = self.table.held(end).ok_or(BadEnd)?;
        let end = self.table.get_mut(index).ok_or(BadEnd)?;
        let is_ready = end.has_news();
        end.is_watched |= !is_ready;
        Ok(is_ready)
    }

    /// Returns whether a receive would return something else than that the end is empty.
    pub fn has_news(&self, end: EndId) -> bool {
        let held = self.table.held(end).and_then(|index| self.table.get(index));
        held.is_none_or(|end| end.has_news())
    }

    /// Ends a wait. If other programs still wait for the end, the caller does not call this.
    pub fn finish_poll(&mut self, end: EndId) -> Result<(), BadEnd> {
        let index = self.table.held(end).ok_or(BadEnd)?;
        self.table.get_mut(index).ok_or(BadEnd)?.is_watched = false;
        Ok(())
    }

    pub(crate) fn wake(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        let id = self.table.id(index);
        let Some(end) = self.table.get_mut(index) else { return };
        if let (true, Some(id)) = (core::mem::take(&mut end.is_watched), id) {
            effects.wake(id);
        }
    }
}
