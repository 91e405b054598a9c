//! Properties that hold whatever a program does.

use super::results::Ranges;
use super::world::{SECRET, World};
use super::{DESCRIPTORS, MEMORY};
use kernel_process::wasi::rights;
use kernel_process::{Bytes, GuestMemory, Process, Scratch};

/// A descriptor's rights and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rights {
    kind: u8,
    base: u64,
    inheriting: u64,
}

/// Memory is compared in pieces of this size: most pieces have not changed, or do not contain even
/// the first byte of the secret, and can be skipped quickly.
const PIECE: usize = 512;
const _: () = assert!(MEMORY.is_multiple_of(PIECE));
/// File types reachable through a preopened directory: directory, file, link.
const NAMED: [u8; 3] = [3, 4, 7];

/// File types of sockets.
const SOCKETS: [u8; 2] = [5, 6];

impl Rights {
    /// Returns whether a descriptor with rights `self` may be derived from one with these rights.
    fn within(self, base: u64, inheriting: u64) -> bool {
        self.base & !base == 0 && self.inheriting & !inheriting == 0
    }
}

/// The state at the last check.
pub struct Watch {
    rights: Vec<Option<Rights>>,
    outside: Vec<u64>,
}

impl Watch {
    /// Records the initial state.
    pub fn new(process: &Process, world: &mut World) -> Watch {
        Watch { rights: all(process, world), outside: world.outside() }
    }

    /// Checks the state after a call.
    pub fn look(
        &mut self,
        process: &Process,
        world: &mut World,
        name: &str,
        numbers: &[u64],
        what: &dyn Fn() -> String,
    ) {
        assert!(process.descriptors() <= DESCRIPTORS as usize, "{}: too many", what());
        let now = all(process, world);
        assert_eq!(now.iter().flatten().count(), process.descriptors(), "{}", what());
        for (number, (before, now)) in self.rights.iter().zip(&now).enumerate() {
            let (Some(now), false) = (now, now == before) else { continue };
            let good = self.may_have(number, *now, name, numbers);
            assert!(good, "{}: {number} has {now:x?} now, and had {before:x?}", what());
        }
        assert_eq!(world.outside(), self.outside, "{}: what lies outside changed", what());
        self.rights = now;
    }

    /// Returns whether a descriptor may have these rights after the call.
    fn may_have(&self, number: usize, now: Rights, name: &str, numbers: &[u64]) -> bool {
        let first = numbers.first().and_then(|fd| self.rights.get(*fd as usize).copied().flatten());
        match (name, self.rights[number]) {
            ("path_open", None) => {
                first.is_some_and(|from| now.within(from.inheriting, from.inheriting))
            }
            ("dup", None) => first == Some(now),
            ("accept" | "sock_accept", None) => {
                first.is_some_and(|from| now.kind == from.kind && now.within(from.base, 0))
            }
            ("socket", None) => SOCKETS.contains(&now.kind) && now.within(rights::SOCKET, 0),
            ("fd_renumber", _) => first == Some(now) && numbers[1] == number as u64,
            ("pipe", None) => !NAMED.contains(&now.kind) && now.inheriting == 0,
            ("fd_fdstat_set_rights", Some(before)) => {
                now.kind == before.kind && now.within(before.base, before.inheriting)
            }
            _ => false,
        }
    }

    /// Checks that memory does not contain the secret.
    pub fn nothing_was_read(&self, memory: &[u8]) {
        let piece = |at: usize| &memory[at..memory.len().min(at + PIECE + SECRET.len() - 1)];
        let found = (0..memory.len())
            .step_by(PIECE)
            .filter(|&at| piece(at).contains(&SECRET[0]))
            .find(|&at| piece(at).windows(SECRET.len()).any(|bytes| bytes == SECRET));
        assert_eq!(found, None, "what lies outside was read");
    }
}

/// Returns the rights of all descriptors.
fn all(process: &Process, world: &mut World) -> Vec<Option<Rights>> {
    let mut scratch = Scratch::default();
    let one = |number: u32| {
        let mut stat = [0; 24];
        let mut memory = GuestMemory::new(Bytes::Own(&mut stat), &mut scratch);
        let answer = process.fd_fdstat_get(&mut memory, world, number, 0);
        let word = |at: usize| u64::from_le_bytes(stat[at..at + 8].try_into().unwrap());
        let rights = Rights { kind: stat[0], base: word(8), inheriting: word(16) };
        answer.is_ok().then_some(rights)
    };
    (0..DESCRIPTORS).map(one).collect()
}

/// Returns the first changed byte outside the allowed ranges.
pub fn changed(before: &[u8], after: &[u8], allowed: &Ranges) -> Option<usize> {
    (0..MEMORY)
        .step_by(PIECE)
        .filter(|&at| before[at..][..PIECE] != after[at..][..PIECE])
        .flat_map(|at| at..at + PIECE)
        .find(|at| before[*at] != after[*at] && !allowed.iter().any(|range| range.contains(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_found_wherever_it_is() {
        let watch = Watch { rights: vec![], outside: vec![] };
        watch.nothing_was_read(&[SECRET[0]; 3 * PIECE]);
        for at in [0, 1, PIECE - 19, PIECE - 1, PIECE, 3 * PIECE - SECRET.len()] {
            let mut memory = vec![0; 3 * PIECE];
            memory[at..][..SECRET.len()].copy_from_slice(SECRET);
            let seen = std::panic::catch_unwind(|| watch.nothing_was_read(&memory));
            assert!(seen.is_err(), "at {at}");
        }
    }
}
