//! Validation of one descriptor, which may come from any domain. Pure.

use abi::boot::{Region, kind};
use abi::dma::{MAX_BYTES, Position, flag, status};
use std::ops::Range;

/// A descriptor as loaded, once, from the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Fields as in [`abi::dma::Descriptor`].
    pub source: u64,
    /// Destination address.
    pub destination: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Kind of transfer.
    pub flags: u64,
    /// Position that it claims.
    pub position: u64,
}

/// A valid transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Source, destination, bytes.
    Copy(u64, u64, u64),
    /// Pattern, destination, bytes.
    Fill(u64, u64, u64),
}

impl Transfer {
    /// Returns the number of bytes.
    pub fn bytes(self) -> u64 {
        let (Transfer::Copy(.., bytes) | Transfer::Fill(.., bytes)) = self;
        bytes
    }
}

/// The memory of a board that transfers may access.
#[derive(Clone, Debug)]
pub struct Limits {
    ram: Range<u64>,
    /// Local memory of all domains, and global memory: ascending, adjacent ranges merged.
    open: Vec<Range<u64>>,
    /// The same for each domain, with its own local memory only.
    own: Vec<Vec<Range<u64>>>,
}

/// Returns the memory of these regions: ascending, adjacent ranges merged.
fn merged<'a>(regions: impl Iterator<Item = &'a Region>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> =
        regions.map(|region| region.base..region.base.saturating_add(region.size)).collect();
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

impl Limits {
    /// Computes the limits of a board with `ram`, these regions, and `domains` domains.
    pub fn new(ram: Range<u64>, regions: &[Region], domains: usize) -> Limits {
        let is_open = |region: &&Region| matches!(region.kind, kind::LOCAL | kind::GLOBAL);
        let open = merged(regions.iter().filter(is_open));
        let own = (0..domains).map(|domain| {
            let is_foreign =
                |region: &Region| region.kind == kind::LOCAL && region.owner as usize != domain;
            merged(regions.iter().filter(is_open).filter(|region| !is_foreign(region)))
        });
        Limits { ram, open, own: own.collect() }
    }

    /// Returns the transfer of a descriptor submitted at `position` of a channel that `holder`
    /// holds, or the status that rejects it.
    pub fn check(&self, found: &Found, position: Position, holder: usize) -> Result<Transfer, u16> {
        let Found { source, destination, bytes, flags, .. } = *found;
        if found.position != position.pack() {
            return Err(status::QUEUE);
        }
        if flags != flag::COPY && flags != flag::FILL {
            return Err(status::FLAGS);
        }
        if bytes == 0 || bytes > MAX_BYTES {
            return Err(status::LENGTH);
        }
        self.may_touch(destination, bytes, holder)?;
        if flags == flag::FILL {
            return Ok(Transfer::Fill(source, destination, bytes));
        }
        self.may_touch(source, bytes, holder)?;
        if source.abs_diff(destination) < bytes {
            return Err(status::OVERLAP);
        }
        Ok(Transfer::Copy(source, destination, bytes))
    }

    fn may_touch(&self, at: u64, bytes: u64, holder: usize) -> Result<(), u16> {
        let inside =
            |range: &Range<u64>| at >= range.start && at < range.end && bytes <= range.end - at;
        if !inside(&self.ram) {
            return Err(status::ADDRESS);
        }
        if self.own.get(holder).is_some_and(|own| own.iter().any(inside)) {
            return Ok(());
        }
        Err(if self.open.iter().any(inside) { status::FOREIGN } else { status::PROTECTED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::boot::NOBODY;
    use base::prng::Prng;

    const MIB: u64 = 1 << 20;
    const HERE: Position = Position { epoch: 3, generation: 1, index: 9 };

    fn limits() -> Limits {
        let region = |base, size, kind, owner| Region { base, size, kind, owner };
        let regions = [
            region(0, 16 * MIB, kind::RESERVED, NOBODY),
            region(16 * MIB, 2 * MIB, kind::UNCACHED, NOBODY),
            region(18 * MIB, 2 * MIB, kind::STAGING, 0),
            region(48 * MIB, 16 * MIB, kind::GLOBAL, NOBODY),
            region(32 * MIB, 16 * MIB, kind::LOCAL, 0),
            region(70 * MIB, 2 * MIB, kind::LOCAL, 1),
        ];
        Limits::new(0..96 * MIB, &regions, 2)
    }

    fn copy(source: u64, destination: u64, bytes: u64) -> Found {
        Found { source, destination, bytes, flags: flag::COPY, position: HERE.pack() }
    }

    #[test]
    fn good_transfers_pass_across_neighbours_too() {
        let limits = limits();
        for (from, to, bytes) in [
            (32 * MIB, 33 * MIB, MIB),
            (33 * MIB, 32 * MIB, MIB),
            (47 * MIB, 49 * MIB, 2 * MIB),
            (32 * MIB, 64 * MIB - 1, 1),
            (32 * MIB + 3, 40 * MIB + 5, MAX_BYTES),
        ] {
            let transfer = limits.check(&copy(from, to, bytes), HERE, 0);
            assert_eq!(transfer, Ok(Transfer::Copy(from, to, bytes)));
        }
        let fill = Found { flags: flag::FILL, source: u64::MAX, ..copy(0, 32 * MIB, 9) };
        assert_eq!(limits.check(&fill, HERE, 0), Ok(Transfer::Fill(u64::MAX, 32 * MIB, 9)));
    }

    #[test]
    fn each_mistake_has_its_status() {
        let (limits, good) = (limits(), 32 * MIB);
        let table = [
            (copy(good, 96 * MIB, 8), status::ADDRESS),
            (copy(good, 96 * MIB - 4, 8), status::ADDRESS),
            (copy(u64::MAX - 3, good, 8), status::ADDRESS),
            (copy(good, u64::MAX, MAX_BYTES), status::ADDRESS),
            (copy(good, 15 * MIB, 8), status::PROTECTED),
            (copy(17 * MIB, good, 8), status::PROTECTED),
            (copy(good, 18 * MIB, 8), status::PROTECTED),
            (copy(good, 64 * MIB - 4, 8), status::PROTECTED),
            (copy(good, 32 * MIB - 4, 8), status::PROTECTED),
            (copy(good, 80 * MIB, 8), status::PROTECTED),
            (copy(good, 70 * MIB, 8), status::FOREIGN),
            (copy(71 * MIB, good, 8), status::FOREIGN),
            (Found { flags: flag::FILL, ..copy(7, 70 * MIB, 8) }, status::FOREIGN),
            (copy(good, 72 * MIB - 4, 8), status::PROTECTED),
            (copy(good, good + 64, 0), status::LENGTH),
            (copy(good, good + 64, MAX_BYTES + 1), status::LENGTH),
            (copy(good, good + 64, u64::MAX), status::LENGTH),
            (copy(good, good, 1), status::OVERLAP),
            (copy(good, good + 7, 8), status::OVERLAP),
            (copy(good + 7, good, 8), status::OVERLAP),
            (Found { flags: 0, ..copy(good, good + 64, 8) }, status::FLAGS),
            (Found { flags: 3, ..copy(good, good + 64, 8) }, status::FLAGS),
            (Found { flags: 1 << 40 | 1, ..copy(good, good + 64, 8) }, status::FLAGS),
            (Found { position: 0, ..copy(good, good + 64, 8) }, status::QUEUE),
        ];
        for (i, (found, why)) in table.iter().enumerate() {
            assert_eq!(limits.check(found, HERE, 0), Err(*why), "row {i}");
        }
    }

    #[test]
    fn each_domain_reaches_its_own_local_memory_and_global_memory() {
        let (limits, local, global) = (limits(), [33 * MIB, 70 * MIB], 50 * MIB);
        for (holder, other) in [(0, 1), (1, 0)] {
            for (from, to) in [(local[holder], global), (global, local[holder])] {
                assert!(limits.check(&copy(from, to, 8), HERE, holder).is_ok());
                assert_eq!(limits.check(&copy(from, to, 8), HERE, other), Err(status::FOREIGN));
                assert_eq!(limits.check(&copy(from, to, 8), HERE, 2), Err(status::FOREIGN));
            }
        }
        // Half of it is global.
        let across = copy(33 * MIB, 48 * MIB - 4, 8);
        assert!(limits.check(&across, HERE, 0).is_ok());
        assert_eq!(limits.check(&across, HERE, 1), Err(status::FOREIGN));
    }

    #[test]
    fn whatever_is_written_there_passes_only_inside_open_memory() {
        let limits = limits();
        for seed in 0..200_000 {
            let mut prng = Prng::new(seed);
            let mut address = || match prng.below(3) {
                0 => prng.next(),
                1 => prng.below(100 * MIB),
                _ => (32 + prng.below(33)) * MIB - prng.below(16),
            };
            let mut found = copy(address(), address(), 0);
            found.bytes =
                [prng.next(), prng.below(32), prng.below(2 * MAX_BYTES)][prng.below(3) as usize];
            found.flags = prng.below(4);
            let Ok(transfer) = limits.check(&found, HERE, 0) else { continue };
            let inside = |at: u64| at >= 32 * MIB && at + found.bytes <= 64 * MIB;
            assert!(inside(found.destination) && found.bytes <= MAX_BYTES, "seed {seed}");
            let copied = found.flags == flag::COPY;
            assert_eq!(copied, matches!(transfer, Transfer::Copy(..)));
            assert!(!copied || inside(found.source), "seed {seed}");
        }
    }
}
