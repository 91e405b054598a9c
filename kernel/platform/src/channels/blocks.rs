//! Blocks of messages: what [`kernel_channel::Blocks`] does not have.
//!
//! Contract: in the cells of a message, the name of its block comes before its fields, so it goes
//! wherever the message goes. A short block that goes to another kernel follows the fields itself,
//! and is kept nowhere. Memory for a block is allocated and filled before the lock is taken.
//! A message whose block is not here is received only with a copy of it or memory for it
//! ([`Brought`]), so a receive that cannot get that leaves the message where it is. A block of more
//! than [`LENT`] bytes is in bulk memory, where other kernels can read it, if there is room.
//!
//! ```text
//!   send:     Block --> Blocks (home)      name, fields --> cells --> table
//!             short, to a kernel elsewhere: name, fields, block --> cells --> table
//!   receive:  here: Blocks --> Block       there: Failure::Far(name), the caller fetches, again
//!             in the message: Failure::Far(name), the caller brings memory, again
//!   fetch:    it is written back, and its name says where it is, or LendBlock does both;
//!             read it there, into the receiver's room; FetchBlock of its end: it was there
//!             elsewhere, or without bulk memory: FetchBlock, part by part
//! ```

use super::cells::Payload;
use super::{Channels, ENDS, Failure, Rest, words};
use crate::peers::{Peers, with_room};
use abi::channel::{FetchBlock, LendBlock, LentAt};
use abi::msg::MAX_PAYLOAD;
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::addr::PAGE;
use base::id::{DomainId, Epoch};
use kernel_channel::{BlockLimits, BlockName, BlockNotice, Fate, Life};
use kernel_contract::exchange::{LONGEST_BLOCK, Room, Windows};
use kernel_contract::{Block, INLINE, Lent};
use kernel_msg::Refusal;
use kernel_node::Node;
use kernel_node::bulk::{Loan, Pages};

/// The most bytes of all blocks of a kernel.
const BYTES: usize = 2 * LONGEST_BLOCK;
/// Longer blocks are in bulk memory. Shorter ones may go in their messages.
pub const LENT: usize = INLINE;
/// Bytes of a name before the fields.
pub const NAME: usize = 8 * BlockName::WORDS;

pub type Blocks = kernel_channel::Blocks<Block>;

/// Returns the limits of a kernel's blocks.
pub fn limits(peers: usize) -> BlockLimits {
    BlockLimits {
        blocks: ENDS,
        blocks_of_tree: usize::from(ENDS) / 2,
        bytes: BYTES,
        of_tree: LONGEST_BLOCK,
        peers,
    }
}

/// Bytes in this kernel's bulk memory.
#[derive(Debug)]
struct InBulk {
    loan: Loan,
    is_clean: bool,
}

impl Lent for InBulk {
    fn bytes(&self) -> &[u8] {
        self.loan.bytes()
    }

    fn place(&self) -> u64 {
        self.loan.place()
    }

    fn is_clean(&self) -> bool {
        self.is_clean
    }
}

/// What a receiver brings for the next message: a copy of its block on another kernel, or memory
/// for a block that is in the message. Without a block: it is lost.
#[derive(Debug)]
pub struct Brought {
    pub name: BlockName,
    pub block: Option<Block>,
}

/// Returns the name of a block at the start of bytes, and the rest.
pub fn split_name(bytes: &[u8]) -> Option<(BlockName, &[u8])> {
    let (name, fields) = words::split(bytes)?;
    Some((BlockName::of_words(name), fields))
}

/// The words of a notice in a stream, after its kind.
pub fn notice_words(notice: &BlockNotice) -> [u64; 3] {
    let fate = match notice.fate {
        Fate::Release => 0,
        Fate::Moved(Life { kernel, epoch }) => {
            1 | u64::from(kernel.0) << 8 | u64::from(epoch.0) << 16
        }
    };
    [notice.id, notice.secret, fate]
}

/// Undoes [`notice_words`].
pub fn notice_of([id, secret, fate]: [u64; 3]) -> Option<BlockNotice> {
    let fate = match fate as u8 {
        0 => Fate::Release,
        1 => {
            let kernel = DomainId((fate >> 8) as u8);
            Fate::Moved(Life { kernel, epoch: Epoch((fate >> 16) as u16) })
        }
        _ => return None,
    };
    Some(BlockNotice { id, secret, fate })
}

impl Rest {
    /// Keeps the block of a message that a process of this tree sends. One that can go in the
    /// message stays `Some` until it is sent. `room`: the bytes that are left beside its fields.
    pub(super) fn keep(
        &mut self,
        block: &mut Option<Block>,
        (tree, secret): (u32, u64),
        room: usize,
    ) -> Result<Option<BlockName>, Failure> {
        let Some(bytes) = block.as_ref().map(Block::len) else { return Ok(None) };
        if block.as_ref().is_some_and(Block::is_placed) {
            // It was received, and its bytes are not here.
            return Err(Failure::Blocks);
        }
        // A contract allows less than 4 GiB.
        let length = bytes as u32;
        let is_window = block.as_ref().is_some_and(|block| block.window().is_some());
        if !is_window && (bytes == 0 || NAME + bytes <= room) {
            return Ok(Some(self.blocks.in_message(secret, length)));
        }
        let Some(taken) = block.take() else { return Ok(None) };
        let place = named_place(&taken);
        match self.blocks.put((taken, length), tree, secret) {
            Ok(name) => Ok(Some(BlockName { place, is_window, ..name })),
            Err(back) => {
                *block = Some(back);
                Err(Failure::Blocks)
            }
        }
    }

    /// Undoes [`Rest::keep`].
    pub(super) fn take_back(&mut self, name: Option<BlockName>, block: &mut Option<Block>) {
        if let Some(name) = name.filter(|name| !name.is_in_message()) {
            *block = self.blocks.take(&name);
        }
    }

    /// Copies a message to cells, and the block that goes in it. Returns `None` if there are too
    /// few.
    pub(super) fn put(
        &mut self,
        name: Option<&BlockName>,
        fields: &[u8],
        block: Option<&Block>,
    ) -> Option<Payload> {
        let Some(name) = name else { return self.cells.put(fields, None) };
        let block = block.filter(|_| name.is_in_message());
        let in_message = block.map_or(0, Block::len);
        let bytes = self.buffers.bytes.get_mut(..NAME + fields.len() + in_message)?;
        let (head, rest) = bytes.split_at_mut(NAME);
        words::put(&name.words(), head)?;
        let (to, rest) = rest.split_at_mut(fields.len());
        to.copy_from_slice(fields);
        for (at, piece) in block.into_iter().flat_map(Block::pieces) {
            rest.get_mut(at..at + piece.len())?.copy_from_slice(piece);
        }
        self.cells.put(bytes, Some(u16::try_from(in_message).ok()?))
    }

    /// Copies a block out of its message, to memory that the receiver has brought. One without
    /// bytes needs none.
    pub(super) fn fill(&mut self, payload: &Payload, brought: Option<Brought>) -> Option<Block> {
        let Some(length @ 1..) = payload.block else { return Block::of(&[]) };
        let bytes = self.buffers.bytes.get_mut(..length.into())?;
        self.cells.get_from(payload, payload.length() - bytes.len(), bytes)?;
        let mut block = brought?.block?;
        block.write(0, bytes).then_some(block)
    }

    /// Returns the name of a message's block.
    pub(super) fn block_of(&self, payload: &Payload) -> Option<BlockName> {
        let mut bytes = [0; NAME];
        payload.block.and_then(|_| self.cells.get_from(payload, 0, &mut bytes))?;
        Some(split_name(&bytes)?.0)
    }

    /// Copies the fields of a message. Returns how many bytes, or `None` if there is no room.
    pub(super) fn fields(&self, payload: &Payload, into: &mut [u8]) -> Option<usize> {
        let length = fields_of(payload);
        let from = payload.block.map_or(0, |_| NAME);
        self.cells.get_from(payload, from, into.get_mut(..length)?)?;
        Some(length)
    }

    /// Returns whether a block is a window. For one that is here, its name does not count: it may
    /// come from another kernel.
    pub(super) fn is_window(&self, name: &BlockName) -> bool {
        if name.is_in_message() {
            return false;
        }
        if self.blocks.is_here(name) {
            return self.window(name).is_some();
        }
        let length = u64::from(name.length);
        name.is_window && length > 0 && length.is_multiple_of(PAGE)
    }

    /// Returns a window that is here: it stays.
    pub(super) fn window(&self, name: &BlockName) -> Option<Block> {
        let is_here = self.blocks.is_here(name);
        let memory = self.blocks.read(name.id, name.secret).filter(|_| is_here)?.window()?;
        Some(Block::shared(memory.clone()))
    }

    /// Frees the memory of a message that no program receives.
    pub(super) fn free(&mut self, payload: Payload) {
        if let Some(name) = self.block_of(&payload) {
            drop(self.blocks.take(&name));
        }
        self.cells.free(payload);
    }

    /// Fails unless the block of the next message can be received: it is here, or the receiver has
    /// brought a copy of it, or memory for one that is in the message; and there is memory for it,
    /// or it brings its own.
    pub(super) fn can_receive(
        &self,
        name: &BlockName,
        room: &Room<'_>,
        brought: Option<&Brought>,
    ) -> Result<(), Failure> {
        let is_in_message = name.is_in_message();
        if is_in_message && name.length == 0 {
            return Ok(());
        }
        if room.windows == Windows::Unprepared && self.is_window(name) {
            return Err(Failure::Window);
        }
        let is_here = !is_in_message && self.blocks.is_here(name);
        let here = self.blocks.read(name.id, name.secret).filter(|_| is_here);
        let pages = (name.length as usize).next_multiple_of(PAGE as usize);
        let brings_memory = here.is_some_and(Block::passes) && pages <= room.block;
        if !room.has_memory && !brings_memory {
            return Err(Failure::Copies);
        }
        if is_here {
            // The name may come from another kernel.
            let is_it = here.is_some_and(|block| block.len() == name.length as usize);
            return if is_it { Ok(()) } else { Err(Failure::Broken) };
        }
        match brought.filter(|brought| brought.name == *name) {
            None => Err(Failure::Far(*name)),
            Some(Brought { block: None, .. }) => Err(Failure::Broken),
            Some(_) => Ok(()),
        }
    }
}

/// Returns what the name of a block says of where it is: nothing, unless it can be read there.
fn named_place(block: &Block) -> u32 {
    let page = block.clean_place().map_or(0, |place| place / PAGE + 1);
    u32::try_from(page).unwrap_or(0)
}

/// Returns where a block is, if its name says so.
pub fn place_in(name: &BlockName) -> Option<LentAt> {
    let page = u64::from(name.place).checked_sub(1)?;
    Some(LentAt { place: page * PAGE, length: name.length.into() })
}

/// Returns the number of bytes of a message's fields.
pub fn fields_of(payload: &Payload) -> usize {
    let beside = payload.block.map_or(0, |bytes| NAME + usize::from(bytes));
    payload.length().saturating_sub(beside)
}

impl Channels {
    /// Executes a [`FetchBlock`] of another kernel. Returns a part of the block; at its end, none.
    pub fn part_of_block(&self, fetch: &FetchBlock) -> Result<Vec<u8>, Refusal> {
        let mut part = with_room(MAX_PAYLOAD)?;
        let state = self.state.lock();
        let block = state.rest.blocks.read(fetch.id, fetch.secret).ok_or(Refusal::Refused)?;
        let at = usize::try_from(fetch.at).map_err(|_| Refusal::Refused)?;
        block.append_part(at, MAX_PAYLOAD, &mut part);
        Ok(part)
    }

    /// Copies the block of a message that is to be sent at an end. Returns `None` without memory.
    ///
    /// If the peer is on another kernel, it is written back, so that its reader need not ask for
    /// that. If the peer's end moves later, that is done when the block is read.
    pub fn block(&self, end: u64, bytes: &[u8]) -> Option<Block> {
        let bulk = self.bulk.as_ref().filter(|_| bytes.len() > LENT);
        let Some((loan, bulk)) = bulk.and_then(|bulk| Some((bulk.lend(bytes)?, bulk))) else {
            return Block::of(bytes);
        };
        let is_clean = !self.is_near(end);
        if is_clean {
            bulk.clean(loan.place(), bytes.len());
        }
        Some(Block::lent(Box::new(InBulk { loan, is_clean })))
    }

    /// Executes a [`LendBlock`] of another kernel: writes the block back, and returns where it is.
    /// `None`: not in bulk memory.
    pub fn lend_block(&self, lend: &LendBlock) -> Result<Option<LentAt>, Refusal> {
        let found = self.place_of(lend)?;
        // Without the lock, as it takes long. If the block is freed meanwhile, what is written back
        // is of no use, and the reader finds out.
        if let Some((at, bulk)) = found.zip(self.bulk.as_ref()) {
            bulk.clean(at.place, at.length as usize);
        }
        Ok(found)
    }

    fn place_of(&self, lend: &LendBlock) -> Result<Option<LentAt>, Refusal> {
        let state = self.state.lock();
        let block = state.rest.blocks.read(lend.id, lend.secret).ok_or(Refusal::Refused)?;
        Ok(block.place().map(|place| LentAt { place, length: block.len() as u64 }))
    }

    /// Returns pages of bulk memory for a window, if there are so many.
    pub fn window_room(&self, pages: usize) -> Option<Pages> {
        self.bulk.as_ref()?.pages(pages)
    }

    /// Writes back a range of this kernel's bulk memory.
    pub fn flush_window(&self, place: u64, bytes: usize) {
        if let Some(bulk) = &self.bulk {
            bulk.clean(place, bytes);
        }
    }

    /// Ends what a process has received as a window.
    pub fn release_window(&self, (node, peers): (&Node, &Peers), name: &BlockName) {
        let mut state = self.state.lock();
        let block = state.rest.blocks.take(name);
        self.leave(node, peers, state);
        drop(block);
    }

    /// Returns whether this kernel can read blocks where other kernels lend them.
    pub fn has_bulk(&self) -> bool {
        self.bulk.is_some()
    }

    /// Copies a block from the bulk memory of another kernel: into the receiver's room, if it gives
    /// that away. It is worth something if that kernel says afterwards that the block is still
    /// there. Returns `None` without memory, or if there is no such place.
    pub fn read_lent(&self, home: DomainId, at: LentAt, room: Option<&mut [u8]>) -> Option<Block> {
        let bulk = self.bulk.as_ref()?;
        let length = usize::try_from(at.length).ok()?;
        if let Some(room) = room.and_then(|room| room.get_mut(..length)) {
            return bulk.read(home, at.place, room).then(|| Block::placed(length));
        }
        Block::filled(length, |piece, range| {
            if let Some(place) = at.place.checked_add(range.start as u64) {
                bulk.append(home, place, range.len(), piece);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::cells::Cells;
    use crate::channels::doors::Doors;
    use crate::channels::ended::Log;
    use crate::channels::links::Links;
    use crate::channels::seats::Seats;
    use crate::channels::stream::Buffers;
    use std::vec;

    #[test]
    fn a_name_says_where_its_block_is_or_not() {
        let home = Life { kernel: DomainId(1), epoch: Epoch(2) };
        let name = BlockName { home, id: 3, secret: 4, length: 5000, place: 0, is_window: false };
        assert_eq!(place_in(&name), None);
        for page in [0, 7, u32::MAX - 1] {
            let at = LentAt { place: u64::from(page) * PAGE, length: 5000 };
            assert_eq!(place_in(&BlockName { place: page + 1, ..name }), Some(at));
        }
    }

    #[test]
    fn a_block_in_its_message_is_there_after_any_fields() {
        let me = Life { kernel: DomainId(0), epoch: Epoch(1) };
        let mut rest = Rest {
            cells: Cells::new(100),
            blocks: Blocks::new(me, limits(1)),
            seats: Seats::new(1),
            links: Links::new(1),
            doors: Doors::new(),
            buffers: Buffers::new(),
            ended: Log::new(),
            sent: 0,
        };
        let bytes: Vec<u8> = (0..2048).map(|at| (at * 7) as u8).collect();
        for fields in [0, 31, 32, 33, 64, 100, 1900] {
            for length in [0, 1, 63, 64, 65, 140] {
                let (fields, content) = (&bytes[..fields], &bytes[1000..1000 + length]);
                let mut block = Block::of(content);
                let name = rest.keep(&mut block, (1, 5), NAME + length).unwrap().unwrap();
                assert!(name.is_in_message() && block.is_some());
                let payload = rest.put(Some(&name), fields, block.as_ref()).unwrap();
                assert_eq!(rest.block_of(&payload), Some(name));
                let mut found = vec![0; fields.len()];
                assert_eq!(rest.fields(&payload, &mut found), Some(fields.len()));
                assert_eq!((found.as_slice(), fields_of(&payload)), (fields, fields.len()));
                let brought = Brought { name, block: Block::zeroed(length) };
                assert_eq!(rest.fill(&payload, Some(brought)), block);
                rest.free(payload);
            }
        }
        assert_eq!((rest.cells.left(), rest.blocks.used()), (100, (0, 0)));
        let mut long = Block::of(&bytes);
        let name = rest.keep(&mut long, (1, 5), NAME + 2047).unwrap().unwrap();
        assert!(!name.is_in_message() && long.is_none());
        rest.take_back(Some(name), &mut long);
        assert_eq!(long, Block::of(&bytes));
    }

    #[test]
    fn a_notice_is_its_words() {
        let life = Life { kernel: DomainId(7), epoch: Epoch(0xfffe) };
        for fate in [Fate::Release, Fate::Moved(life)] {
            let notice = BlockNotice { id: 5 << 16 | 3, secret: u64::MAX, fate };
            assert_eq!(notice_of(notice_words(&notice)), Some(notice));
        }
        assert_eq!(notice_of([0, 0, 2]), None);
    }
}
