//! What the board says of the services: the mode of each, and where its arena is in the shared
//! block.

use abi::boot::{BLOCK, Blob};
use share::Mode;

/// Returns whether kernels share the driver of a kind of device.
pub fn is_driver_shared(blob: &Blob, device: u32) -> bool {
    let mut drivers = abi::service::ALL.into_iter().filter(|kind| kind.drives == Some(device));
    drivers.any(|kind| mode_of(blob, kind.name).1.is_shared())
}

/// The arenas of all services in the shared block: name, offset and size.
fn arenas_of(blob: &Blob) -> impl Iterator<Item = (&'static str, u64, u64)> {
    let mode = |kind: &abi::service::Kind| mode_of(blob, kind.name).1;
    abi::service::arenas(BLOCK, move |kind| mode(kind).is_shared())
}

/// The parts of the shared block that no service with shared state has: offset and size.
pub(super) fn unowned(blob: &Blob) -> impl Iterator<Item = (u64, u64)> {
    let unused = arenas_of(blob).filter(|arena| !mode_of(blob, arena.0).1.is_shared());
    let tests = (BLOCK - abi::service::SELF_TESTS, abi::service::SELF_TESTS);
    unused.map(|(_, offset, bytes)| (offset, bytes)).chain([tests])
}

/// Returns offset and size of a service's arena in the shared block.
pub(super) fn share_of(blob: &Blob, service: &str) -> Option<(u64, u64)> {
    arenas_of(blob).find(|arena| arena.0 == service).map(|(_, offset, bytes)| (offset, bytes))
}

/// Returns the name of the service whose arena contains byte `offset` of the shared block.
pub fn at(blob: &Blob, offset: u64) -> &'static str {
    let mut all = arenas_of(blob);
    let holds = |&(_, from, bytes): &(_, u64, u64)| (from..from + bytes).contains(&offset);
    all.find(holds).map_or("(self-tests)", |arena| arena.0)
}

/// Returns the mode that the board picks for a service.
pub fn mode(blob: &Blob, name: &str) -> Mode {
    mode_of(blob, name).1
}

/// Returns index and mode of a service in the board's list.
pub(super) fn mode_of(blob: &Blob, name: &str) -> (u32, Mode) {
    let place = blob.services().iter().position(|s| abi::boot::text(&s.name) == name);
    let mode = place.and_then(|at| Mode::from_blob(&blob.services()[at]));
    (place.map_or(u32::MAX, |at| at as u32), mode.unwrap_or(Mode::Independent))
}

#[cfg(test)]
mod tests {
    use super::super::tests::blob;
    use super::*;
    use abi::boot::mode;
    use abi::service::{ALL, Arena, FRAMES, FS, SELF_TESTS};

    #[test]
    fn an_offset_in_the_shared_block_names_its_service() {
        let blob = blob(&[("frames", mode::SHADOWED)]);
        for kind in ALL {
            let (offset, bytes) = share_of(&blob, kind.name).unwrap();
            assert_eq!(at(&blob, offset), kind.name);
            assert_eq!(at(&blob, offset + bytes - 1), kind.name);
        }
        assert_eq!(at(&blob, BLOCK - SELF_TESTS), "(self-tests)");
        assert_eq!(share_of(&blob, "no such service"), None);
    }

    #[test]
    fn frames_take_their_arena_from_the_files_and_only_where_they_are_shared() {
        let (without, with) = (blob(&[]), blob(&[("frames", mode::SHADOWED)]));
        let bytes = |blob: &Blob, name| share_of(blob, name).map(|share| share.1);
        assert_eq!(bytes(&without, FRAMES.name), None);
        let frames = bytes(&with, FRAMES.name).unwrap();
        assert_eq!(Arena::Bytes(frames), FRAMES.arena);
        let files = |blob| bytes(blob, FS.name).unwrap();
        assert_eq!(files(&without) - files(&with), frames);
    }

    #[test]
    fn a_service_that_the_board_does_not_name_is_independent() {
        let blob = blob(&[("net", mode::PRIVATE), ("frames", mode::SHADOWED)]);
        assert_eq!(mode_of(&blob, "frames"), (1, Mode::Shadowed));
        assert_eq!(mode_of(&blob, "fs"), (u32::MAX, Mode::Independent));
    }
}
