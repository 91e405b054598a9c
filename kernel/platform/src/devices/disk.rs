//! Synchronous requests to the disk. A large one is divided, and its parts are in flight together.

use super::{Devices, bus};
use core::sync::atomic::Ordering;
use drivers::block::{BUFFER, Block, BlockError, Request, SECTOR, SLOTS, Token};
use kernel_node::Node;

/// A request: its sector, the operation, and the buffer for what is read.
type Asked<'a> = (u64, Request<'a>, &'a mut [u8]);

/// Returns the sector of piece `at` of a transfer that starts at `sector`.
fn piece(sector: u64, at: usize) -> u64 {
    sector + (at * BUFFER / SECTOR) as u64
}

impl Devices {
    /// Reads whole sectors, starting with `sector`; waits.
    pub fn disk_read(
        &self,
        node: &'static Node,
        sector: u64,
        into: &mut [u8],
    ) -> Result<(), BlockError> {
        let pieces = into.chunks_mut(BUFFER).enumerate();
        let asked = pieces.map(|(at, into)| (piece(sector, at), Request::Read(into.len()), into));
        self.transfer(node, asked)
    }

    /// Writes whole sectors, starting with `sector`; waits.
    pub fn disk_write(
        &self,
        node: &'static Node,
        sector: u64,
        data: &[u8],
    ) -> Result<(), BlockError> {
        let pieces = data.chunks(BUFFER).enumerate();
        let asked =
            pieces.map(|(at, data)| (piece(sector, at), Request::Write(data), Default::default()));
        self.transfer(node, asked)
    }

    /// Makes all earlier writes durable; waits.
    pub fn disk_flush(&self, node: &'static Node) -> Result<(), BlockError> {
        self.transfer(node, core::iter::once((0, Request::Flush, Default::default())))
    }

    /// Executes requests, as many at a time as the driver has slots. A thread waits for a slot only
    /// while it holds none: two threads that hold some and wait for more would deadlock.
    fn transfer<'a>(
        &self,
        node: &'static Node,
        asked: impl Iterator<Item = Asked<'a>>,
    ) -> Result<(), BlockError> {
        let mut asked = asked.peekable();
        while let Some((sector, request, into)) = asked.next() {
            let mut flying = [const { None }; SLOTS];
            flying[0] = Some((self.begin(node, sector, request)?, into));
            let mut ended = Ok(());
            for place in &mut flying[1..] {
                let Some((sector, request, _)) = asked.peek() else { break };
                match self.submit(node, *sector, *request) {
                    Ok(token) => *place = asked.next().map(|(.., into)| (token, into)),
                    Err(BlockError::Busy) => break,
                    Err(why) => {
                        ended = Err(why);
                        break;
                    }
                }
            }
            for (token, into) in flying.into_iter().flatten() {
                ended = self.finish(node, &token, into).and(ended);
            }
            // Threads that wait for a slot find one now.
            self.block.waiting.wake_all(&node.scheduler);
            ended?;
        }
        Ok(())
    }

    /// Submits a request as soon as there is a slot.
    fn begin(
        &self,
        node: &'static Node,
        sector: u64,
        request: Request,
    ) -> Result<Token, BlockError> {
        let mut token = Err(BlockError::Busy);
        node.scheduler.wait(&self.block.waiting, || {
            token = self.submit(node, sector, request);
            token != Err(BlockError::Busy)
        });
        token
    }

    /// Waits until a request has ended.
    fn finish(
        &self,
        node: &'static Node,
        token: &Token,
        into: &mut [u8],
    ) -> Result<(), BlockError> {
        let mut result = None;
        node.scheduler.wait(&self.block.waiting, || {
            if let Some(block) = &mut *self.block.driver.lock() {
                result = block.finish(&bus(node), token, into);
            }
            result.is_some()
        });
        result.unwrap_or(Err(BlockError::Device))
    }

    fn submit(
        &self,
        node: &'static Node,
        sector: u64,
        request: Request,
    ) -> Result<Token, BlockError> {
        match &mut *self.block.driver.lock() {
            Some(block) => block.submit(&bus(node), sector, request),
            None => Err(BlockError::Unsupported),
        }
    }

    /// Returns whether the disk is read-only, or `None` if this kernel has no disk.
    pub fn disk_is_read_only(&self) -> Option<bool> {
        self.block.driver.lock().as_ref().map(Block::is_read_only)
    }

    /// Returns the number of the disk's sectors, or `None` if this kernel has no disk.
    pub fn disk_sectors(&self) -> Option<u64> {
        self.block.driver.lock().as_ref().map(Block::sectors)
    }

    /// Tests the disk: writes, flushes and reads back the last sector, then restores it. Returns
    /// the number of sectors. The error is a text for the user.
    pub fn disk_check(&self, node: &'static Node) -> Result<u64, &'static str> {
        let sectors = self.disk_sectors().ok_or("this kernel drives no disk")?;
        if self.disk_is_taken.load(Ordering::Relaxed) {
            return Err("a file system has the disk; `fs df` shows it");
        }
        let last = sectors.checked_sub(1).ok_or("the disk is empty")?;
        let (mut before, mut after) = ([0; SECTOR], [0; SECTOR]);
        let mut pattern = [0; SECTOR];
        let mut prng = base::prng::Prng::new(arch::time::soc_time());
        pattern.iter_mut().for_each(|byte| *byte = prng.next() as u8);
        let explain = |why| match why {
            BlockError::ReadOnly => "the disk is read-only",
            BlockError::Busy => "all request slots of the driver are in use; try again",
            BlockError::Unsupported => "the device does not support it",
            BlockError::Range | BlockError::Device => "the device reports an error",
        };
        self.disk_read(node, last, &mut before).map_err(explain)?;
        self.disk_write(node, last, &pattern).map_err(explain)?;
        self.disk_flush(node).map_err(explain)?;
        self.disk_read(node, last, &mut after).map_err(explain)?;
        self.disk_write(node, last, &before).map_err(explain)?;
        if after == pattern { Ok(sectors) } else { Err("the data read differ from those written") }
    }
}
