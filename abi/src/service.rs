//! The services of all kernels, declared once: a kernel's arenas, the checks of a board file, the
//! monitor's `services` and the documentation derive from this list.
//! `kernel/services/src/services.rs` declares beside each one its type and device
//! (docs/tutorial/first-service.md).

use crate::boot::device;

/// A service as boards and kernels see it.
#[derive(Debug)]
pub struct Kind {
    /// The name in board files.
    pub name: &'static str,
    /// What it serves, for people.
    pub about: &'static str,
    /// Size of the arena for its state, in the shared block or in a kernel's own memory; whole
    /// pages.
    pub arena: Arena,
    /// Why its requests cannot be sent to another kernel; `None` if they can.
    pub stays: Option<&'static str>,
    /// Whether it exists only where it is shared. Otherwise each kernel has something simpler.
    pub only_shared: bool,
    /// The kind of device that its steps drive.
    pub drives: Option<u32>,
    /// Whether a kernel without that device starts it as well.
    pub works_without: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arena {
    Bytes(u64),
    /// What the others leave of the shared block.
    Rest,
}

const PAGE: u64 = 4096;

pub const FS: Kind = Kind {
    name: "fs",
    about: "files, directories and pipes",
    arena: Arena::Rest,
    stays: None,
    only_shared: false,
    drives: None,
    works_without: false,
};
pub const PROCESSES: Kind = Kind {
    name: "processes",
    about: "the table of processes",
    arena: Arena::Bytes(1 << 20),
    stays: None,
    only_shared: false,
    drives: None,
    works_without: false,
};
pub const NAMES: Kind = Kind {
    name: "names",
    about: "the names of channels",
    arena: Arena::Bytes(20 * PAGE),
    stays: None,
    only_shared: false,
    drives: None,
    works_without: false,
};
pub const NET: Kind = Kind {
    name: "net",
    about: "sockets",
    arena: Arena::Bytes((4 << 20) - SELF_TESTS),
    stays: None,
    only_shared: false,
    drives: Some(device::NET),
    works_without: true,
};
pub const DMA: Kind = Kind {
    name: "dma",
    about: "the driver of the DMA engine",
    arena: Arena::Bytes(4 * PAGE),
    stays: None,
    only_shared: false,
    drives: Some(device::DMA),
    works_without: false,
};
pub const CONSOLE: Kind = Kind {
    name: "console",
    about: "the driver of the console",
    arena: Arena::Bytes(4 * PAGE),
    stays: None,
    only_shared: false,
    drives: Some(device::CONSOLE),
    works_without: false,
};
pub const DISK: Kind = Kind {
    name: "disk",
    about: "the driver of the disk",
    arena: Arena::Bytes(4 * PAGE),
    stays: None,
    only_shared: false,
    drives: Some(device::BLOCK),
    works_without: false,
};
pub const HOST: Kind = Kind {
    name: "host",
    about: "the driver of the streams with the host",
    // 16 streams, each with 32 KiB of input and a packet of output.
    arena: Arena::Bytes(768 << 10),
    stays: None,
    only_shared: false,
    drives: Some(device::VSOCK),
    works_without: false,
};
pub const RANDOM: Kind = Kind {
    name: "random",
    about: "the driver of the random number generator",
    arena: Arena::Bytes(4 * PAGE),
    stays: None,
    only_shared: false,
    drives: Some(device::RNG),
    works_without: false,
};
pub const FRAMES: Kind = Kind {
    name: "frames",
    about: "frames that both kernels allocate",
    // 1,024 frames, their alignment, and rounding by the arena's allocator.
    arena: Arena::Bytes((1024 * PAGE) + (2 << 20)),
    stays: Some("a kernel needs frames to receive the answer that would bring it some"),
    only_shared: true,
    drives: None,
    works_without: false,
};

/// Every service, in the order of their arenas in the shared block.
pub const ALL: [&Kind; 10] =
    [&FS, &PROCESSES, &NAMES, &NET, &DMA, &CONSOLE, &DISK, &HOST, &RANDOM, &FRAMES];

/// Returns a service's place in [`ALL`].
pub fn place(name: &str) -> Option<usize> {
    ALL.iter().position(|kind| kind.name == name)
}

/// Bytes at the end of the shared block for self-tests and measurements.
pub const SELF_TESTS: u64 = 9 * PAGE;

/// The arenas in a block of `block` bytes: name, offset and size. A service that exists only where
/// it is shared has one if `is_shared` returns true for it.
pub fn arenas(
    block: u64,
    is_shared: impl Fn(&Kind) -> bool + Copy,
) -> impl Iterator<Item = (&'static str, u64, u64)> {
    let fixed = |kind: &Kind| match kind.arena {
        Arena::Bytes(bytes) => bytes,
        Arena::Rest => 0,
    };
    let existing = ALL.into_iter().filter(move |kind| !kind.only_shared || is_shared(kind));
    let others: u64 = existing.clone().map(fixed).sum();
    let rest = block.saturating_sub(SELF_TESTS + others);
    let mut end = 0;
    existing.map(move |kind| {
        let bytes = if kind.arena == Arena::Rest { rest } else { fixed(kind) };
        end += bytes;
        (kind.name, end - bytes, bytes)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::boot::BLOCK;
    use std::vec::Vec;

    #[test]
    fn arenas_are_whole_pages_that_follow_each_other_and_leave_room_for_self_tests() {
        for shares_frames in [false, true] {
            let all: Vec<_> = arenas(BLOCK, |_| shares_frames).collect();
            assert_eq!(all.len(), if shares_frames { ALL.len() } else { ALL.len() - 1 });
            let mut at = 0;
            for (name, offset, bytes) in all {
                assert_eq!((offset, bytes % PAGE), (at, 0), "{name}");
                assert!(bytes > 0, "{name}");
                at += bytes;
            }
            assert_eq!(at, BLOCK - SELF_TESTS);
        }
    }

    #[test]
    fn names_are_unique_and_one_arena_takes_the_rest() {
        for kind in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == kind.name).count(), 1);
        }
        assert_eq!(ALL.iter().filter(|kind| kind.arena == Arena::Rest).count(), 1);
        assert!(ALL.len() < crate::boot::MAX_SERVICES);
    }
}
