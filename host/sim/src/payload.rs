//! Payloads that reveal corruption and mix-ups.

use base::id::Epoch;

/// Owned bytes.
pub type Bytes = Vec<u8>;

const fn filler(uid: u64, at: usize) -> u8 {
    (uid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8 ^ at as u8
}

/// Returns a request with id `uid` and `extra` more bytes.
pub fn request(uid: u64, extra: usize) -> Bytes {
    let mut bytes = uid.to_le_bytes().to_vec();
    bytes.extend((0..extra).map(|at| filler(uid, at)));
    bytes
}

/// Returns the id of an intact request.
pub fn uid(bytes: &[u8]) -> Option<u64> {
    let uid = u64::from_le_bytes(*bytes.first_chunk()?);
    let whole = bytes[8..].iter().enumerate().all(|(at, byte)| *byte == filler(uid, at));
    (whole && uid != 0).then_some(uid)
}

/// Returns the reply of kernel `id` in `epoch`: as long as the request, plus 8.
pub fn reply(request: &[u8], id: usize, epoch: Epoch) -> Bytes {
    let mut bytes = (u64::from(epoch.0) << 8 | id as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(request);
    bytes
}

/// Decodes a reply: uid, server, its epoch.
pub fn parse(bytes: &[u8]) -> Option<(u64, usize, Epoch)> {
    let server = u64::from_le_bytes(*bytes.first_chunk()?);
    Some((uid(&bytes[8..])?, (server & 0xff) as usize, Epoch((server >> 8) as u16)))
}
