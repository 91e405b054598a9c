//! The other kernels: which of their lives are over, and how many ends may be sent to each.
//!
//! Room: each kernel grants the others places for ends that arrive, out of its free ones. An end is
//! sent only into a granted place, so an arrival never lacks one.

use abi::boot::MAX_DOMAINS;
use base::id::{DomainId, Epoch};

use crate::name::{Life, Lives};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Kernel {
    /// The life with which messages are exchanged.
    session: Option<Epoch>,
    /// The newest life that is over.
    gone: Epoch,
    /// Ends that may be sent there.
    pub room: u16,
    /// Ends that may arrive from there.
    pub granted: u16,
    /// The part of `granted` that has not been reported to it.
    pub unreported: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peers {
    pub me: Life,
    /// Places that each kernel is granted if there are enough.
    share: u16,
    kernels: [Kernel; MAX_DOMAINS],
    /// A mutant: lives of a kernel are not told apart.
    #[cfg(test)]
    pub any_epoch: bool,
}

impl Peers {
    pub fn new(me: Life, share: u16) -> Peers {
        Peers {
            me,
            share,
            kernels: [Kernel::default(); MAX_DOMAINS],
            #[cfg(test)]
            any_epoch: false,
        }
    }

    /// Begins a session, unless this life is over, or is this kernel.
    pub fn start(&mut self, life: Life) -> bool {
        let Some(kernel) = self.kernels.get_mut(life.kernel.index()) else { return false };
        let is_new = life.epoch > kernel.gone && kernel.session.is_none();
        if life.kernel == self.me.kernel || !is_new {
            return false;
        }
        *kernel = Kernel { session: Some(life.epoch), gone: kernel.gone, ..Kernel::default() };
        true
    }

    /// Ends the session with this life.
    pub fn end(&mut self, life: Life) {
        let Some(kernel) = self.kernels.get_mut(life.kernel.index()) else { return };
        kernel.gone = kernel.gone.max(life.epoch);
        if kernel.session.is_some_and(|epoch| epoch <= life.epoch) {
            *kernel = Kernel { gone: kernel.gone, ..Kernel::default() };
        }
    }

    pub fn session(&self, kernel: DomainId) -> Option<Life> {
        let epoch = self.kernels.get(kernel.index())?.session?;
        Some(Life { kernel, epoch })
    }

    /// Returns whether this life is over. One that has not begun yet, as far as this kernel knows,
    /// is not.
    pub fn is_gone(&self, life: Life) -> bool {
        let gone = |it: &Kernel| life.epoch <= it.gone;
        #[cfg(test)]
        let gone = |it: &Kernel| gone(it) && !(self.any_epoch && it.session.is_some());
        match life.kernel == self.me.kernel {
            true => life.epoch != self.me.epoch,
            false => self.kernels.get(life.kernel.index()).is_none_or(gone),
        }
    }

    pub fn has_gone(&self, lives: &Lives) -> bool {
        lives.iter().any(|life| self.is_gone(life))
    }

    pub fn kernel(&mut self, life: Life) -> Option<&mut Kernel> {
        let kernel = self.kernels.get_mut(life.kernel.index())?;
        (kernel.session == Some(life.epoch)).then_some(kernel)
    }

    /// Returns whether a kernel is to hear of room.
    pub fn owes(&self, life: Life) -> bool {
        self.kernels.get(life.kernel.index()).is_some_and(|kernel| kernel.unreported > 0)
    }

    /// Takes room for ends on a kernel.
    pub fn take_room(&mut self, life: Life, ends: u16) -> bool {
        let Some(kernel) = self.kernel(life) else { return false };
        let left = kernel.room.checked_sub(ends);
        kernel.room = left.unwrap_or(kernel.room);
        left.is_some()
    }

    pub fn return_room(&mut self, life: Life, ends: u16) {
        if let Some(kernel) = self.kernel(life) {
            kernel.room = kernel.room.saturating_add(ends);
        }
    }

    /// An end arrives from there.
    pub fn use_grant(&mut self, life: Life) -> bool {
        let Some(kernel) = self.kernel(life) else { return false };
        // It cannot use what has not been reported to it.
        let may = kernel.granted > kernel.unreported;
        kernel.granted -= u16::from(may);
        may
    }

    /// Free places that are promised to others.
    pub fn promised(&self) -> usize {
        self.kernels.iter().map(|it| usize::from(it.granted)).sum()
    }

    /// Grants free places, one each in turn, as far as they go.
    pub fn grant(&mut self, free: usize) {
        let mut left = free.saturating_sub(self.promised());
        let mut is_satisfied = false;
        while left > 0 && !is_satisfied {
            is_satisfied = true;
            for kernel in &mut self.kernels {
                let wants_more = kernel.session.is_some() && kernel.granted < self.share;
                if wants_more && left > 0 {
                    kernel.granted += 1;
                    kernel.unreported += 1;
                    (left, is_satisfied) = (left - 1, false);
                }
            }
        }
    }
}
