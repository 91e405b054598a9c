//! Mounting: reads the superblock, then its whole block and the descriptors of the groups; then
//! replays the journal ([`super::replay`]).
//!
//! ```text
//!   Super --> Tables --+--> Journal --> Orphans --> Ready
//!     ^                |       | replayed             ^
//!     '----------------|-------'                      |
//!                      '---------- read-only ---------'
//! ```
//!
//! Contract: until all of that is done, every call waits for [`key::MOUNT`]. If something is
//! invalid, every call fails and [`Ext2::unfit`] tells why. A mount writes only what the journal
//! contains, and nothing if it is read-only.

use super::device::{Flight, Io, What, key};
use super::layout::{
    Geometry, Group, HAS_JOURNAL, RECOVER, RO_COMPAT, ReadOnly, SUPER, SUPER_AT, Unfit, VALID,
    get16, get32, sb,
};
use super::replay::{Replay, Stage};
use super::{Ext2, Result};
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::vec;

impl Ext2 {
    /// Waits for the mount; fails if it cannot be mounted.
    pub(super) fn mounted(&self) -> Result<()> {
        match self.stage {
            Stage::Ready => Ok(()),
            Stage::Unfit(_) => Err(Errno::Io.into()),
            _ => Self::wait(key::MOUNT),
        }
    }

    /// Returns why it cannot be mounted.
    pub fn unfit(&self) -> Option<Unfit> {
        if let Stage::Unfit(why) = &self.stage { Some(*why) } else { None }
    }

    /// Returns why it is read-only.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.read_only
    }

    pub(super) fn next_mount_io(&mut self) -> Option<Io> {
        match self.stage {
            Stage::Super(false) => {
                self.stage = Stage::Super(true);
                let id = self.device.start(Flight::Mount(0));
                Some(Io { id, at: SUPER_AT as u64, what: What::Read(SUPER) })
            }
            Stage::Tables(next, come) if next <= self.geometry.tables() => {
                self.stage = Stage::Tables(next + 1, come);
                let id = self.device.start(Flight::Mount(1 + next));
                let block = self.geometry.block;
                let at = u64::from(self.super_at + next) * block as u64;
                Some(Io { id, at, what: What::Read(block) })
            }
            _ => None,
        }
    }

    /// A read of the mount has completed.
    pub(super) fn mount_read(&mut self, piece: u32, data: Option<&[u8]>) {
        let stage = match (data, &self.stage) {
            (None, _) => Err(Unfit::Device),
            (Some(data), Stage::Super(_)) if data.len() == SUPER => self.found_super(data),
            (Some(data), &Stage::Tables(next, come)) if data.len() == self.geometry.block => {
                self.found_table(piece, data);
                let come = come + 1;
                if come > self.geometry.tables() {
                    self.found_groups()
                } else {
                    Ok(Stage::Tables(next, come))
                }
            }
            (Some(_), Stage::Super(_) | Stage::Tables(..)) => Err(Unfit::Device),
            (Some(_), _) => return,
        };
        if !matches!(self.stage, Stage::Unfit(_)) {
            self.go_to(stage.unwrap_or_else(Stage::Unfit));
        }
    }

    /// Enters a stage of the mount.
    pub(super) fn go_to(&mut self, stage: Stage) {
        self.stage = stage;
        if matches!(self.stage, Stage::Ready | Stage::Unfit(_)) {
            self.device.wake(key::MOUNT);
        }
    }

    fn found_super(&mut self, data: &[u8]) -> core::result::Result<Stage, Unfit> {
        let geometry = Geometry::read(data)?;
        if geometry.memory() > self.budget {
            return Err(Unfit::Memory);
        }
        if self.journal.is_some() && geometry != self.geometry {
            return Err(Unfit::Geometry);
        }
        self.super_at = geometry.first_block;
        self.super_offset = if geometry.block == SUPER { 0 } else { SUPER_AT };
        self.tables = vec![0; geometry.tables() as usize * geometry.block];
        self.geometry = geometry;
        Ok(Stage::Tables(0, 0))
    }

    fn found_table(&mut self, piece: u32, data: &[u8]) {
        if piece == 1 {
            self.super_block = data.into();
            return;
        }
        let from = (piece as usize).saturating_sub(2) * self.geometry.block;
        if let Some(place) = self.tables.get_mut(from..from + data.len()) {
            place.copy_from_slice(data);
        }
    }

    fn found_groups(&mut self) -> core::result::Result<Stage, Unfit> {
        let bytes = self.super_block.get(self.super_offset..).unwrap_or_default();
        if Geometry::read(bytes)? != self.geometry {
            return Err(Unfit::Geometry);
        }
        self.groups = Group::read_all(&self.tables, &self.geometry)?;
        self.free_blocks = get32(bytes, sb::FREE_BLOCKS);
        self.free_inodes = get32(bytes, sb::FREE_INODES);
        self.written = get32(bytes, sb::WRITTEN);
        self.ro_compat = get32(bytes, sb::RO_COMPAT);
        let old = get32(bytes, sb::REVISION) == 0;
        let unknown = if old { 0 } else { self.ro_compat & !RO_COMPAT };
        let needs_replay = get32(bytes, sb::INCOMPAT) & RECOVER != 0;
        let journal = if old { 0 } else { get32(bytes, sb::COMPAT) & HAS_JOURNAL };
        let unclean = get16(bytes, sb::STATE) != VALID;
        let (inode, orphan) = (get32(bytes, sb::JOURNAL), get32(bytes, sb::LAST_ORPHAN));
        self.valid = !needs_replay;
        self.read_only = match self.read_only {
            None if unknown != 0 => Some(ReadOnly::Features(unknown)),
            None if unclean => Some(ReadOnly::Unclean),
            None if journal == 0 => Some(ReadOnly::NoJournal),
            asked => asked,
        };
        Ok(match &self.journal {
            _ if self.read_only.is_some() => Stage::Ready,
            Some(_) => Stage::Orphans(orphan),
            None => Stage::Journal(Box::new(Replay::new(inode, needs_replay, orphan))),
        })
    }
}
