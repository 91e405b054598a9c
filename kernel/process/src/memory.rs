//! The program's memory.
//!
//! Contract: an address is an offset, as 32 bits say it; what is not wholly inside is
//! [`Errno::FAULT`]. Nothing need be aligned.

use crate::errno::Errno;

/// A range of it.
#[inline]
pub fn piece(memory: &mut [u8], at: u32, length: u32) -> Result<&mut [u8], Errno> {
    let at = at as usize;
    let end = at.checked_add(length as usize).ok_or(Errno::FAULT)?;
    memory.get_mut(at..end).ok_or(Errno::FAULT)
}

/// Copies `N` bytes out.
#[inline]
pub fn load<const N: usize>(memory: &[u8], at: u32) -> Result<[u8; N], Errno> {
    let rest = memory.get(at as usize..).ok_or(Errno::FAULT)?;
    rest.first_chunk().copied().ok_or(Errno::FAULT)
}

/// Copies bytes in.
#[inline]
pub fn store(memory: &mut [u8], at: u32, bytes: &[u8]) -> Result<(), Errno> {
    let rest = memory.get_mut(at as usize..).ok_or(Errno::FAULT)?;
    rest.get_mut(..bytes.len()).ok_or(Errno::FAULT)?.copy_from_slice(bytes);
    Ok(())
}

/// Writes 32 bits.
#[inline]
pub fn store_u32(memory: &mut [u8], at: u32, value: u32) -> Result<(), Errno> {
    store(memory, at, &value.to_le_bytes())
}

/// Writes 64 bits.
#[inline]
pub fn store_u64(memory: &mut [u8], at: u32, value: u64) -> Result<(), Errno> {
    store(memory, at, &value.to_le_bytes())
}

/// Are these all inside? Asked before anything is done that cannot be undone.
#[inline]
pub fn check(memory: &mut [u8], at: u32, length: u32) -> Result<(), Errno> {
    piece(memory, at, length).map(|_| ())
}

/// The entry `index` of a table of entries of `size` bytes.
pub fn entry(table: u32, index: u32, size: u32) -> Result<u32, Errno> {
    let offset = index.checked_mul(size).ok_or(Errno::FAULT)?;
    table.checked_add(offset).ok_or(Errno::FAULT)
}
