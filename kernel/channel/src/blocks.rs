//! Blocks of messages, which stay in the kernel of their sender until they are received.
//!
//! Contract: a message has the [`BlockName`] of its block, and the block stays at its *home*, the
//! kernel on which it was sent, wherever the message goes. The kernel on which a program receives
//! the message copies the block from there, then releases it. So no kernel reserves memory for what
//! may arrive, and no kernel waits for another one's memory: what is not received fills the home of
//! the sender, which gets an error.
//!
//! ```text
//!   home                        kernel that has the message
//!   put ------ name, in Data -----> arrives
//!   read <---- calls -------------- a program receives it
//!   hear <---- Release ------------ take: received, or dropped
//!   hear <---- Moved -------------- leaves: the message went on to a third kernel
//! ```
//! - Home knows the kernels to which the message has gone, and frees the block when one of them
//!   dies. That may be one that the message has left; its receiver finds no block then.
//! - A kernel that passes a message on is one of them until it has told home, so none is missed.
//! - Of the notices about a block only the newest waits to be sent, so their number is bounded.
//! - No kernel that never had an end of a channel can name its blocks: they have its secret.
//!
//! A *window* is a block that its sender still has, and that its receiver takes when it ends the
//! window, not when it receives the message. For this protocol that message is received late.

use crate::name::{Life, Lives};
use abi::boot::MAX_DOMAINS;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};

/// The name of a block, on all kernels. Each block has one, in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockName {
    pub home: Life,
    /// Epoch, generation and slot at home, so no other block of any life has it.
    pub id: u64,
    /// That of its channel.
    pub secret: u64,
    pub length: u32,
    /// Where home says that other kernels can read it, in the driver's words; 0: it has not said.
    pub place: u32,
    /// The sender shares it with its receiver, for as long as the receiver likes.
    pub is_window: bool,
}

/// The bit of a name's first word that says so.
const WINDOW: u64 = 1 << 32;

impl BlockName {
    pub const WORDS: usize = 4;

    pub fn words(&self) -> [u64; BlockName::WORDS] {
        let Life { kernel, epoch } = self.home;
        let last = u64::from(self.length) | u64::from(self.place) << 32;
        let window = if self.is_window { WINDOW } else { 0 };
        [u64::from(kernel.0) | u64::from(epoch.0) << 16 | window, self.id, self.secret, last]
    }

    /// Returns whether this is of [`Blocks::in_message`]: there is nothing to keep, to fetch or to
    /// release. No block that is kept has this id.
    pub const fn is_in_message(&self) -> bool {
        self.id == 0
    }

    /// Undoes [`BlockName::words`]. Words that are none name no block.
    pub fn of_words([home, id, secret, last]: [u64; BlockName::WORDS]) -> BlockName {
        let life = Life { kernel: DomainId(home as u8), epoch: Epoch((home >> 16) as u16) };
        let (length, place, is_window) = (last as u32, (last >> 32) as u32, home & WINDOW != 0);
        BlockName { home: life, id, secret, length, place, is_window }
    }
}

/// What home hears of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its message was received or dropped.
    Release,
    /// The message has left for this kernel.
    Moved(Life),
}

/// A message to the home of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNotice {
    pub id: u64,
    pub secret: u64,
    pub fate: Fate,
}

/// A block at home.
struct Stored<M> {
    memory: M,
    bytes: usize,
    tree: u32,
    secret: u64,
    /// The kernels to which the message has gone since it was last here.
    to: Lives,
}

struct Slot<M> {
    generation: u32,
    block: Option<Stored<M>>,
    /// Its place in the order of slots.
    place: u16,
}

/// The slots with a block, and after them those without.
struct Order {
    slots: Vec<u16>,
    used: usize,
}

/// How much blocks may take.
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    /// Blocks at home, at most 65,535, and those of one process tree.
    pub blocks: u16,
    pub blocks_of_tree: usize,
    /// Their bytes, and those of one process tree.
    pub bytes: usize,
    pub of_tree: usize,
    /// The number of other kernels.
    pub peers: usize,
}

impl BlockLimits {
    /// The most notices for one kernel. For a while, there may be names of two of its lives.
    fn notices_to_one(&self) -> usize {
        2 * usize::from(self.blocks)
    }
}

/// The blocks at home on this kernel, and what other kernels are to hear of theirs.
pub struct Blocks<M> {
    me: Life,
    limits: BlockLimits,
    slots: Vec<Slot<M>>,
    order: Order,
    /// Bytes of all blocks.
    bytes: usize,
    notices: VecDeque<(Life, BlockNotice)>,
    /// The last epoch of each kernel that is over.
    over: [u16; MAX_DOMAINS],
}

impl<M> Blocks<M> {
    /// Takes all memory that this will ever use, without the blocks.
    pub fn new(me: Life, limits: BlockLimits) -> Blocks<M> {
        let slot = |place| Slot { generation: 0, block: None, place };
        let slots = (0..limits.blocks).map(slot).collect();
        let order = Order { slots: (0..limits.blocks).collect(), used: 0 };
        let notices = VecDeque::with_capacity(limits.notices_to_one() * limits.peers);
        Blocks { me, limits, slots, order, bytes: 0, notices, over: [0; MAX_DOMAINS] }
    }

    fn stored(&self) -> impl Iterator<Item = &Stored<M>> {
        let used = self.order.slots.iter().take(self.order.used);
        used.filter_map(|at| self.slots.get(usize::from(*at))?.block.as_ref())
    }

    /// Returns the number of blocks, and of their bytes.
    pub fn used(&self) -> (usize, usize) {
        (self.order.used, self.bytes)
    }

    /// Returns the name of a block of so many bytes that are in its message: it is kept nowhere.
    pub fn in_message(&self, secret: u64, length: u32) -> BlockName {
        BlockName { home: self.me, id: 0, secret, length, place: 0, is_window: false }
    }

    /// Keeps a block for a message that a process of this tree sends. At a limit, returns the
    /// memory.
    pub fn put(
        &mut self,
        (memory, length): (M, u32),
        tree: u32,
        secret: u64,
    ) -> Result<BlockName, M> {
        let bytes = length as usize;
        let all = self.stored().filter(|it| it.tree == tree);
        let (count, of_tree) = all.fold((0, 0), |(count, all), it| (count + 1, all + it.bytes));
        let fits = self.bytes + bytes <= self.limits.bytes
            && of_tree + bytes <= self.limits.of_tree
            && count < self.limits.blocks_of_tree;
        let free = self.order.slots.get(self.order.used).copied().filter(|_| fits);
        let slot = free.and_then(|at| Some((at, self.slots.get_mut(usize::from(at))?)));
        let Some((at, slot)) = slot else { return Err(memory) };
        slot.block = Some(Stored { memory, bytes, tree, secret, to: Lives::NONE });
        (self.order.used, self.bytes) = (self.order.used + 1, self.bytes + bytes);
        let epoch = u64::from(self.me.epoch.0) << 48;
        let id = epoch | u64::from(slot.generation) << 16 | u64::from(at);
        Ok(BlockName { home: self.me, id, secret, length, place: 0, is_window: false })
    }

    fn slot(&mut self, id: u64, secret: u64) -> Option<&mut Slot<M>> {
        self.find(id, secret)?;
        self.slots.get_mut(usize::from(id as u16))
    }

    fn find(&self, id: u64, secret: u64) -> Option<&Stored<M>> {
        let slot = self.slots.get(usize::from(id as u16))?;
        let is_it = id >> 48 == u64::from(self.me.epoch.0) && (id >> 16) as u32 == slot.generation;
        slot.block.as_ref().filter(|it| is_it && it.secret == secret)
    }

    fn free(&mut self, id: u64, secret: u64) -> Option<M> {
        self.find(id, secret)?;
        self.vacate(id as u16)
    }

    /// Empties a slot. Returns what was there.
    fn vacate(&mut self, at: u16) -> Option<M> {
        let slot = self.slots.get_mut(usize::from(at))?;
        let Stored { memory, bytes, .. } = slot.block.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.bytes -= bytes;
        // The last one in use takes its place in the order.
        let (place, last) = (slot.place, self.order.used - 1);
        self.order.used = last;
        self.order.slots.swap(usize::from(place), last);
        if let Some(other) = self.order.slots.get(usize::from(place)) {
            self.slots.get_mut(usize::from(*other))?.place = place;
        }
        self.slots.get_mut(usize::from(at))?.place = last as u16;
        Some(memory)
    }

    /// Returns a block at home.
    pub fn read(&self, id: u64, secret: u64) -> Option<&M> {
        Some(&self.find(id, secret)?.memory)
    }

    /// Returns whether a message of another kernel can have this name.
    pub fn may_arrive(&self, name: &BlockName) -> bool {
        name.home.kernel.index() <= self.limits.peers
    }

    /// Returns whether a block is at home on this kernel.
    pub fn is_here(&self, name: &BlockName) -> bool {
        name.home == self.me
    }

    /// Notices that the message leaves for another kernel.
    pub fn leaves(&mut self, name: &BlockName, to: Life) {
        if name.is_in_message() {
            return;
        }
        if name.home == self.me {
            if let Some(block) = self.block(name) {
                block.to.add(to);
            }
        } else if name.home.kernel != to.kernel {
            self.notify(name.home, BlockNotice { fate: Fate::Moved(to), ..notice(name) });
        }
    }

    /// Notices that a message has arrived.
    pub fn arrives(&mut self, name: &BlockName) {
        if name.home == self.me
            && let Some(block) = self.block(name)
        {
            block.to = Lives::NONE;
        }
    }

    fn block(&mut self, name: &BlockName) -> Option<&mut Stored<M>> {
        self.slot(name.id, name.secret)?.block.as_mut()
    }

    /// Ends a name: its message was received or dropped. Returns the block, if it is at home here.
    pub fn take(&mut self, name: &BlockName) -> Option<M> {
        if name.is_in_message() {
            return None;
        }
        if name.home == self.me {
            return self.free(name.id, name.secret);
        }
        self.notify(name.home, notice(name));
        None
    }

    fn is_over(&self, life: Life) -> bool {
        self.over.get(life.kernel.index()).is_none_or(|over| life.epoch.0 <= *over)
    }

    fn notify(&mut self, home: Life, notice: BlockNotice) {
        // This kernel's own former lives need not hear anything.
        if self.is_over(home) || home.kernel == self.me.kernel {
            return;
        }
        let is_of = |it: &&mut (Life, BlockNotice)| it.0 == home && it.1.id == notice.id;
        // There is room for all, unless a kernel has named blocks that do not exist.
        let waiting = self.notices.iter().filter(|it| it.0.kernel == home.kernel).count();
        let has_room = waiting < self.limits.notices_to_one();
        match self.notices.iter_mut().find(is_of) {
            Some(waiting) => waiting.1 = notice,
            None if has_room => self.notices.push_back((home, notice)),
            None => {}
        }
    }

    /// Returns whether a kernel is to hear of a block.
    pub fn has_notice(&self, to: DomainId) -> bool {
        self.notices.iter().any(|(home, _)| home.kernel == to)
    }

    /// Removes the next notice for a kernel.
    pub fn next_notice(&mut self, to: DomainId) -> Option<BlockNotice> {
        let at = self.notices.iter().position(|(home, _)| home.kernel == to)?;
        Some(self.notices.remove(at)?.1)
    }

    /// Hears a notice. Returns the block if it is needed no longer.
    pub fn hear(&mut self, notice: BlockNotice) -> Option<M> {
        let BlockNotice { id, secret, fate } = notice;
        match fate {
            Fate::Release => self.free(id, secret),
            Fate::Moved(to) => {
                let block = self.slot(id, secret)?.block.as_mut()?;
                // Another life of that kernel, to which it had gone before, is over.
                let is_lost = block.to.iter().any(|it| it.kernel == to.kernel && it != to);
                block.to.add(to);
                if is_lost || self.is_over(to) { self.free(id, secret) } else { None }
            }
        }
    }

    /// A kernel has died: frees the blocks of the messages that it had.
    pub fn died(&mut self, dead: Life) {
        if let Some(over) = self.over.get_mut(dead.kernel.index()) {
            *over = dead.epoch.0.max(*over);
        }
        let is_dead = |life: Life| life.kernel == dead.kernel && life.epoch.0 <= dead.epoch.0;
        self.notices.retain(|(home, _)| !is_dead(*home));
        for at in 0..self.limits.blocks {
            let block = self.slots.get(usize::from(at)).and_then(|slot| slot.block.as_ref());
            if block.is_some_and(|it| it.to.iter().any(is_dead)) {
                self.vacate(at);
            }
        }
    }
}

fn notice(name: &BlockName) -> BlockNotice {
    BlockNotice { id: name.id, secret: name.secret, fate: Fate::Release }
}

#[cfg(test)]
mod tests;
