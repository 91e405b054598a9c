//! Payloads that show whether they are whole and whose they are.

use base::id::Epoch;

/// Owned bytes.
pub type Bytes = Vec<u8>;

const fn filler(uid: u64, at: usize) -> u8 {
    (uid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8 ^ at as u8
}

/// A request named `uid` with `extra` bytes more.
pub fn request(uid: u64, extra: usize) -> Bytes {
    let mut bytes = uid.to_le_bytes().to_vec();
    bytes.extend((0..extra).map(|at| filler(uid, at)));
    bytes
}

/// The name of a request that is whole.
pub fn uid(bytes: &[u8]) -> Option<u64> {
    let uid = u64::from_le_bytes(*bytes.first_chunk()?);
    let whole = bytes[8..].iter().enumerate().all(|(at, byte)| *byte == filler(uid, at));
    (whole && uid != 0).then_some(uid)
}

/// The reply of kernel `id` in `epoch` to that request: as long as it, plus 8.
pub fn reply(request: &[u8], id: usize, epoch: Epoch) -> Bytes {
    let mut bytes = (u64::from(epoch.0) << 8 | id as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(request);
    bytes
}

/// Takes a reply apart: uid, server, its epoch.
pub fn parse(bytes: &[u8]) -> Option<(u64, usize, Epoch)> {
    let server = u64::from_le_bytes(*bytes.first_chunk()?);
    Some((uid(&bytes[8..])?, (server & 0xff) as usize, Epoch((server >> 8) as u16)))
}
