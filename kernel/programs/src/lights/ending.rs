//! How the turn of a process ends: with its program, or because the other kernel has died.
//!
//! Contract: memory is retired here, after the end of all threads here, before the other kernel is
//! asked to end its part; frames are freed afterwards.

use super::side::{Memory, Role};
use super::turn::{Turn, wake_keeper};
use abi::soc::state;
use base::id::Epoch;
use kernel_platform::Platform;

impl Turn {
    /// Records the life of the other kernel, which is about to get the first light thread. Returns
    /// false if an earlier life had light threads.
    pub fn begin_with(&self, epoch: Epoch) -> bool {
        *self.side.lock().peer.get_or_insert(epoch) == epoch
    }

    /// Returns whether the other kernel has, or had, light threads of this process or its normal
    /// ones.
    pub fn has_peer(&self) -> bool {
        self.side.lock().peer.is_some()
    }

    /// Records that this process is over here: no thread enters any more.
    pub fn end(&self, platform: &Platform) {
        let mut side = self.side.lock();
        side.is_over = true;
        if let Role::Strong(gate) = &mut side.role {
            // The call that ends the light threads takes the place of this message.
            let _ = gate.end();
        }
        drop(side);
        self.changed.wake_all(&platform.scheduler);
    }

    /// Puts the memory away for good, after [`Turn::end`] and the end of all threads here.
    pub fn retire(&self, platform: &Platform) {
        let mut was_here = false;
        platform.scheduler.wait(&self.changed, || {
            let mut side = self.side.lock();
            was_here = side.memory == Memory::Here;
            side.go();
            was_here || side.memory == Memory::Away
        });
        if was_here {
            self.put_away(platform);
        }
    }

    /// Loads the descriptors as the other kernel has left them, which no longer uses the memory.
    pub fn load_last(&self) {
        if self.is_broken() || !self.memory.take() || !self.load_descriptors() {
            kernel_node::log!("process {}: its files are not known any more", self.pid);
        }
        self.memory.give();
    }

    /// Returns whether the life of the other kernel that shares the process is over.
    pub fn has_lost_peer(&self, platform: &Platform) -> bool {
        let (epoch, code) = platform.soc.state(self.peer);
        let is_over = |peer: Epoch| u64::from(peer.0) != epoch || state::is_over(code);
        self.side.lock().peer.is_some_and(is_over)
    }

    /// Records that the other kernel has died. No answer is awaited.
    pub fn lose_peer(&self, platform: &Platform) {
        self.change(|side| {
            side.is_over = true;
            match &mut side.role {
                Role::Strong(gate) => gate.peer_died(),
                Role::Weak(group) => group.peer_died(),
            }
        });
        self.changed.wake_all(&platform.scheduler);
    }

    /// Waits until no other thread of this kernel begins a light thread, and begins one. Outside.
    pub fn begin_alone<R>(&self, platform: &Platform, begin: impl FnOnce() -> R) -> R {
        let claim = || !core::mem::replace(&mut self.side.lock().begins, true);
        platform.scheduler.wait(&self.changed, claim);
        let begun = begin();
        self.side.lock().begins = false;
        self.changed.wake_all(&platform.scheduler);
        begun
    }

    /// Records whether a light thread was begun on the other kernel. If it has never had one, its
    /// death does not matter.
    pub fn has_begun(&self, is_begun: bool) {
        let mut side = self.side.lock();
        side.threads += u32::from(is_begun);
        if side.threads == 0 {
            side.peer = None;
        }
    }

    /// Returns whether the process must end because it could not be passed on.
    pub fn is_broken(&self) -> bool {
        self.side.lock().is_broken
    }

    /// Returns how a light thread has ended the program, once.
    pub fn take_end(&self) -> Option<(u32, u32)> {
        self.side.lock().ended.take()
    }

    /// Counts a light thread that begins here.
    pub fn thread_begins(&self) {
        self.side.lock().threads += 1;
    }

    /// Counts one that has ended.
    pub fn thread_ended(&self, platform: &Platform) {
        self.side.lock().threads -= 1;
        self.changed.wake_all(&platform.scheduler);
        wake_keeper(platform);
    }

    /// Returns whether the process is over here, and no thread of it is left.
    pub fn is_done(&self) -> bool {
        let side = self.side.lock();
        side.is_over && side.threads == 0
    }

    /// Waits until no light thread is left.
    pub fn await_end(&self, platform: &Platform) {
        platform.scheduler.wait(&self.changed, || self.side.lock().threads == 0);
    }
}
