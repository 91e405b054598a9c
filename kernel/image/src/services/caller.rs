//! On whose behalf services are asked, and other kernels called.

use super::Services;
use crate::peers::{Ask, CallFailure, Terms};
use crate::platform::Platform;
use base::id::DomainId;
use kernel_msg::Level;

/// A kernel without a sign of life for this long is given up.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A thread of this kernel, or a request of another one that it serves.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Where it runs.
    pub platform: &'static Platform,
    /// What it may ask.
    pub services: &'static Services,
    /// Level of its calls, and of those of the threads that it makes and waits for.
    pub level: Level,
}

impl Caller {
    /// Calls another kernel.
    pub fn call(
        &self,
        peer: DomainId,
        ask: Ask,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        let terms = Terms { level: self.level, patience: Some(PATIENCE_NS) };
        self.platform.peers.call(self.platform, terms, peer, ask, payload, buffer)
    }

    /// A call of one number for another.
    pub fn call_value(&self, peer: DomainId, ask: Ask, value: u64) -> Result<u64, CallFailure> {
        let mut answer = [0; 8];
        let bytes = self.call(peer, ask, &value.to_le_bytes(), &mut answer)?;
        if bytes == 8 { Ok(u64::from_le_bytes(answer)) } else { Err(CallFailure::Limits) }
    }
}
