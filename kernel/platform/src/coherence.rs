//! Connects the driver of the shared block, `kernel_coherence`, to this kernel.

use abi::boot::Blob;
use arch::shared::Window;
use base::addr::VirtAddr;
use base::id::{DomainId, Epoch};
pub use kernel_coherence::FaultOutcome;
pub use kernel_coherence::Trip;
use kernel_coherence::{Ports, Thrashing};
use kernel_mem::blocks::{Blocks, Kind};
use kernel_node::memory::{FRAMES, TABLE};
use kernel_node::ranks;
use kernel_node::shootdown::{self, Flushed};
use kernel_node::soc::Soc;

/// The driver's access to this kernel.
#[derive(Clone, Copy)]
pub struct Here(&'static Soc);

impl Ports for Here {
    type Flushed = Flushed;

    #[inline]
    fn state_word(self, domain: DomainId) -> u64 {
        self.0.state_word(domain)
    }

    #[inline]
    fn flush(self, start: VirtAddr, bytes: u64) -> Flushed {
        shootdown::flush_shared(start, bytes)
    }

    #[inline]
    fn is_flushed(self, flushed: Flushed) -> bool {
        shootdown::is_flushed(flushed)
    }

    #[inline]
    fn is_alone(self) -> bool {
        shootdown::is_alone()
    }
}

/// The driver of the shared block.
pub type Coherence = kernel_coherence::Coherence<Here>;

/// Sets up the shared block; see [`kernel_coherence::new`].
pub fn new(blob: &Blob, kernel: (DomainId, Epoch), soc: &'static Soc) -> Option<Coherence> {
    let table = &mut *TABLE.get()?.lock();
    kernel_coherence::new(blob, kernel, Here(soc), ranks::COHERENCE, (table, &FRAMES))
}

/// Marks the shared block as coherent in the block table. The kernel of domain 0 does so for all.
pub fn claim(coherence: &Coherence, me: DomainId, blocks: Option<&Blocks<Window>>) {
    if me.0 == 0
        && let Some(blocks) = blocks
        && let Err(why) = blocks.claim(coherence.index(), Kind::Coherent)
    {
        kernel_node::log!("the shared block is not marked coherent in the block table: {why:?}");
    }
}

/// Logs that kernels take a page of the service `owner` from each other too often.
pub fn complain(owner: &str, Thrashing { page, moves, window }: Thrashing) {
    let ms = window / 1_000_000;
    kernel_node::log!(
        "{owner}: page {page} of the shared block moved {moves} times within {ms} ms"
    );
}
