//! A disk in memory (`ram=NAME` on the kernels' command line): the last blocks of the global region
//! become a region of their own, to which the soc copies the disk's image.

use crate::block::Block;
use crate::types::{Board, DeviceKind, Kind, Region};
use abi::boot::BLOCK;

/// Returns the name of the disk that `arguments`, a command line of kernels, wants in memory.
pub fn ram_disk(arguments: &str) -> Option<&str> {
    abi::boot::options(arguments).find_map(|word| word.strip_prefix("ram="))
}

impl Board {
    /// Returns the memory of the disk `name`, if it is one in memory.
    pub fn disk_memory(&self, name: &str) -> Option<Block> {
        let is_it = ram_disk(&self.arguments) == Some(name);
        let region = self.regions.iter().find(|region| region.kind == Kind::Disk);
        region.filter(|_| is_it).map(|region| region.block)
    }

    /// Returns whether the board has a disk called `name`.
    pub fn has_disk(&self, name: &str) -> bool {
        self.devices.iter().any(|device| device.kind == DeviceKind::Block && device.name == name)
    }

    /// Sets memory for a disk of `bytes` bytes aside. Returns how much there could be, if that is
    /// less: at most half of the global region.
    pub fn set_disk_aside(&mut self, bytes: u64) -> Result<(), u64> {
        let global = self.regions.iter_mut().find(|region| region.kind == Kind::Global);
        let most = global.as_ref().map_or(0, |global| global.block.size / 2 / BLOCK * BLOCK);
        let size = bytes.max(1).checked_next_multiple_of(BLOCK).filter(|&size| size <= most);
        let (Some(size), Some(global)) = (size, global) else { return Err(most) };
        global.block.size -= size;
        let block = Block { base: global.block.end(), size };
        self.regions.push(Region { kind: Kind::Disk, block, owner: None });
        self.regions.sort_by_key(|region| region.block.base);
        Ok(())
    }
}
