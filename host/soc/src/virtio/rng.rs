//! virtio-rng: random bytes from the host.

use super::{Chain, Fault, Model, Moved};
use crate::memory::Ram;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io::Write;

/// Maximum bytes per buffer; a driver that needs more requests again.
const MOST: usize = 4096;

/// The device, without state.
#[derive(Debug, Default)]
pub struct Rng;

impl Model for Rng {
    fn id(&self) -> u64 {
        4
    }

    fn serve(&mut self, _queue: usize, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault> {
        let mut writer = chain.writer(ram.guest())?;
        let mut bytes = [0u8; MOST];
        let wanted = writer.available_bytes().min(MOST);
        let got = getrandom(&mut bytes[..wanted], GetRandomFlags::empty())
            .map_err(std::io::Error::from)?;
        writer.write_all(&bytes[..got])?;
        Ok(Moved { written: got, ..Moved::default() })
    }
}
