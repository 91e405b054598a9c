//! Bounds-checked access to the program's memory.
//!
//! An address is a 32-bit offset and need not be aligned. A range that is not completely inside the
//! memory fails with [`Errno::FAULT`].

use crate::errno::Errno;

#[inline]
pub fn piece(memory: &mut [u8], at: u32, length: u32) -> Result<&mut [u8], Errno> {
    let at = at as usize;
    let end = at.checked_add(length as usize).ok_or(Errno::FAULT)?;
    memory.get_mut(at..end).ok_or(Errno::FAULT)
}

#[inline]
pub fn load<const N: usize>(memory: &[u8], at: u32) -> Result<[u8; N], Errno> {
    let rest = memory.get(at as usize..).ok_or(Errno::FAULT)?;
    rest.first_chunk().copied().ok_or(Errno::FAULT)
}

#[inline]
pub fn store(memory: &mut [u8], at: u32, bytes: &[u8]) -> Result<(), Errno> {
    let rest = memory.get_mut(at as usize..).ok_or(Errno::FAULT)?;
    rest.get_mut(..bytes.len()).ok_or(Errno::FAULT)?.copy_from_slice(bytes);
    Ok(())
}

#[inline]
pub fn store_u32(memory: &mut [u8], at: u32, value: u32) -> Result<(), Errno> {
    store(memory, at, &value.to_le_bytes())
}

#[inline]
pub fn store_u64(memory: &mut [u8], at: u32, value: u64) -> Result<(), Errno> {
    store(memory, at, &value.to_le_bytes())
}

/// Checks a range. Functions check the ranges of their results before they do anything that cannot
/// be undone.
#[inline]
pub fn check(memory: &mut [u8], at: u32, length: u32) -> Result<(), Errno> {
    piece(memory, at, length).map(|_| ())
}

/// Returns the address of entry `index` in a table of `size`-byte entries.
pub fn entry(table: u32, index: u32, size: u32) -> Result<u32, Errno> {
    let offset = index.checked_mul(size).ok_or(Errno::FAULT)?;
    table.checked_add(offset).ok_or(Errno::FAULT)
}
