//! Connects the driver of the shared block, `kernel_coherence`, to this kernel.

use crate::balloon::Balloons;
use abi::boot::Blob;
use base::addr::VirtAddr;
use base::id::{DomainId, Epoch};
pub use kernel_coherence::FaultOutcome;
pub use kernel_coherence::Trip;
use kernel_coherence::{Ports, Thrashing};
use kernel_mem::blocks::{Kind, State};
use kernel_node::Node;
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

    fn loss(self, domain: DomainId) -> u64 {
        self.0.loss(domain)
    }

    fn settled(self) -> u64 {
        self.0.settled()
    }

    fn settle(self, settled: u64) {
        self.0.settle(settled);
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

/// Marks the shared block as coherent in the block table. The kernel of domain 0 does so for all,
/// unless one of its earlier lives has done it.
pub fn claim(node: &Node, coherence: &Coherence, balloons: &Balloons) {
    if node.me.0 != 0 {
        return;
    }
    let index = coherence.index();
    let is_marked = || {
        let found = balloons.state(node, index);
        matches!(found, State::Held(_, Kind::Coherent) | State::Orphan(_, Kind::Coherent))
    };
    if let Err(why) = balloons.pure().blocks().claim(index, Kind::Coherent)
        && !is_marked()
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
