//! Sets up the shared block from the board's description: its address, its mappings, and the links
//! to the other kernels.

use crate::machine::{Link, Outboxes};
use crate::{Coherence, HOLD_NS, LIMIT_NS, PAGES, Ports, THRASH};
use abi::boot::{BLOCK, Blob, MAINTENANCE_OFFSET, MAX_DOMAINS};
use alloc::vec::Vec;
use arch::lock::Rank;
use arch::mmu::{PageTable, Pages};
use arch::shared::Window;
use arch::types::{Memory, Rights};
use base::addr::{PhysAddr, VirtAddr};
use base::id::{DomainId, Epoch};
use base::port::Frames;
use kernel_dsm::wire::{Inbox, Outbox};
use kernel_dsm::{Config, Protocol};
use kernel_mem::mapping;

/// The shared block: its address, its index in the global region, and its page table entries.
pub struct Block {
    pub base: PhysAddr,
    pub index: usize,
    pub pages: Pages,
}

/// Links to and from the other kernels, and the vector of the doorbell that announces messages.
pub struct Links {
    pub outboxes: Outboxes,
    pub links: Vec<Link>,
    pub vector: u32,
}

/// Returns the shared block's address and its index in the global region. It is in the middle,
/// because balloons grow from both ends.
pub fn place(blob: &Blob) -> Option<(PhysAddr, usize)> {
    let global = mapping::global(blob)?;
    let index = (global.size / BLOCK / 2) as usize;
    Some((PhysAddr(global.base + index as u64 * BLOCK), index))
}

/// Returns the protocol that the board's command line selects; `dsm=two-state` selects the
/// two-state one.
fn protocol(blob: &Blob) -> Protocol {
    match blob.has_argument("dsm=two-state") {
        true => Protocol::TwoState,
        false => Protocol::ThreeState,
    }
}

/// Returns the protocol's settings for domain `me` of `domains` domains with up to `cores` cores.
pub fn config(protocol: Protocol, me: DomainId, domains: u8, cores: u8) -> Config {
    let (pages, hold, limit, thrash) = (PAGES, HOLD_NS, LIMIT_NS, THRASH);
    Config { protocol, me, domains, cores, pages, hold, limit, thrash }
}

/// Sets up the shared block in domain `me`: creates its page tables in `table`, with no page
/// mapped, and the maintenance mapping. `rank` is the rank of the driver's lock. Returns `None` if
/// the board has no shadowed service, or if memory is short.
pub fn new<P: Ports>(
    blob: &Blob,
    (me, epoch): (DomainId, Epoch),
    ports: P,
    rank: Rank,
    (table, frames): (&mut PageTable, &dyn Frames),
) -> Option<Coherence<P>> {
    let shadowed = |service: &abi::boot::Service| service.mode == abi::boot::mode::SHADOWED;
    let (base, index) = place(blob)?;
    if !blob.services().iter().any(shadowed) {
        return None;
    }
    let alias = VirtAddr(base.to_virt().0.wrapping_add(MAINTENANCE_OFFSET));
    let pages = table.pages(frames, base.to_virt(), base, BLOCK, Memory::Cached).ok()?;
    table.map(frames, alias, base, BLOCK, Memory::Uncached, Rights::ReadWrite).ok()?;
    let domains = blob.domains();
    let cores = domains.iter().map(|domain| domain.cores as usize).max().unwrap_or(1);
    let config = config(protocol(blob), me, domains.len() as u8, cores as u8);
    let slots = abi::dsm::slots(domains.len(), cores) as u32;
    let link = |from: DomainId, to: DomainId| {
        let bytes = blob.window.dsm_link_size;
        let at = blob.window.dsm + blob.link_index(from.0, to.0) * bytes;
        Window::uncached(blob, PhysAddr(at), bytes)
    };
    let slot = |id: DomainId| domains[id.index()].slot;
    let links = links(&config, epoch, slots, link, slot, blob.vector_dsm)?;
    Coherence::over(config, epoch, (ports, rank), Block { base, index, pages }, links)
}

/// Creates the links between this domain and all others. `link` returns the memory of the link from
/// one domain to another, `slot` the doorbell slot of a domain.
pub fn links(
    config: &Config,
    epoch: Epoch,
    slots: u32,
    link: impl Fn(DomainId, DomainId) -> Option<Window>,
    slot: impl Fn(DomainId) -> u32,
    vector: u32,
) -> Option<Links> {
    let me = config.me;
    let (mut outboxes, mut links) = ([const { None }; MAX_DOMAINS], Vec::new());
    for id in (0..config.domains).map(DomainId).filter(|&id| id != me) {
        outboxes[id.index()] = Some((Outbox::new(epoch, slots), link(me, id)?, slot(id)));
        links.push(Link { id, inbox: Inbox::new(epoch, slots), theirs: link(id, me)? });
    }
    Some(Links { outboxes, links, vector })
}
