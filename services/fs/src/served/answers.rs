//! Checks of a server's answers. An answer that fails them becomes [`Errno::Io`] for the caller.

use super::Found;
use crate::filesystem::Kind;
use abi::fs::{Dirent, Errno, FIRST_COOKIE, NAME, PATH, Stat};
use abi::served::{DATA, Job, Task};
use zerocopy::FromBytes;

/// Returns the metadata of a node, if the answer holds such.
pub fn stat_in(found: &Found) -> Option<Stat> {
    Stat::read_from_bytes(&found.data).ok().filter(|stat| Kind::from_code(stat.kind).is_some())
}

/// Checks that the answer has the form that the job requires.
pub fn is_sound(job: &Job, found: &Found) -> Result<(), Errno> {
    let Some(task) = Task::from_code(job.task) else { return Err(Errno::Io) };
    let is_sound = match task {
        Task::Lookup => stat_in(found).is_some(),
        Task::Stat => stat_in(found).is_some_and(|stat| stat.node == job.node),
        Task::Make => stat_in(found).is_some_and(|stat| u16::from(stat.kind) == job.flags),
        Task::ReadLink => (1..=PATH).contains(&found.data.len()) && !found.data.contains(&0),
        Task::List => is_list(job.offset, &found.data, found.value != 0),
        Task::Read => found.data.len() as u64 <= job.length.min(DATA as u64),
        Task::Write | Task::Allocate => found.value <= job.length && found.data.is_empty(),
        Task::Space => found.data.len() == 8,
        _ => found.data.is_empty(),
    };
    if is_sound { Ok(()) } else { Err(Errno::Io) }
}

/// Checks for whole entries with valid names and ascending cookies; at least one, unless the
/// directory ends here.
fn is_list(from: u64, mut data: &[u8], is_end: bool) -> bool {
    let mut cookie = from.max(FIRST_COOKIE);
    if (data.is_empty() && !is_end) || data.len() > DATA {
        return false;
    }
    while !data.is_empty() {
        let Ok((head, rest)) = Dirent::read_from_prefix(data) else { return false };
        let Some((name, rest)) = rest.split_at_checked(head.name as usize) else { return false };
        let dots = name == b"." || name == b"..";
        let is_name =
            (1..=NAME).contains(&name.len()) && !name.iter().any(|b| matches!(b, 0 | b'/'));
        if !is_name || dots || head.next <= cookie || Kind::from_code(head.kind).is_none() {
            return false;
        }
        (cookie, data) = (head.next, rest);
    }
    true
}
