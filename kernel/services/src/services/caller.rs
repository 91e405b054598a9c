//! The caller of services and of other kernels.

use super::Services;
use base::id::DomainId;
use kernel_msg::Level;
use kernel_platform::Platform;
use kernel_platform::peers::{CallFailure, Procedure, Terms};

/// A call fails after the peer has shown no sign of life for this long.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A thread of this kernel, which acts for itself or for another kernel's request.
#[derive(Clone, Copy)]
pub struct Caller {
    pub platform: &'static Platform,
    pub services: &'static Services,
    /// Level of its calls to other kernels, and of those of threads that it waits for.
    pub level: Level,
}

impl Caller {
    /// Calls another kernel; see `peers::Peers::call`.
    pub fn call(
        &self,
        peer: DomainId,
        ask: Procedure,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        let terms = Terms { level: self.level, patience: Some(PATIENCE_NS) };
        self.platform.peers.call(self.platform, terms, peer, ask, payload, buffer)
    }

    /// Makes a call whose payload and reply are one number each.
    pub fn call_value(
        &self,
        peer: DomainId,
        ask: Procedure,
        value: u64,
    ) -> Result<u64, CallFailure> {
        let mut answer = [0; 8];
        let bytes = self.call(peer, ask, &value.to_le_bytes(), &mut answer)?;
        if bytes == 8 { Ok(u64::from_le_bytes(answer)) } else { Err(CallFailure::Limits) }
    }
}
