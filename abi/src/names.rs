//! Requests to the name service, and its replies: which kernel serves a channel, by its name.
//!
//! A request has 112 bytes, a reply 48. Lists are in the *bulk*, a buffer of the caller. The kernel
//! and the life that a request is from are not in it: they are those of its token. Error numbers
//! are those of WASI preview 1.
//!
//! | op | fields | bulk | reply |
//! | --- | --- | --- | --- |
//! | Register | name, contract, door, tree, pid | | |
//! | Remove | name, door | | |
//! | Find | name | | kernel, epoch, door, contract |
//! | Close | door | | `count` of names removed |
//! | List | name: only those above it; empty: all | room | [`Listed`]s in bulk |
//! | Watch | edition, tree | | |
//! | WatchLife | edition | | |
//!
//! Each reply of the service, errors included, has the table's *edition*, which is a higher one
//! after each change. The n-th life of the table begins with n in its upper half ([`lives`]).
//!
//! Names below [`KERNEL`] and [`SERVICE`] are the system's: tree 0 registers them, and they have no
//! door ([`NO_DOOR`]).

use crate::boot::MAX_DOMAINS;
use crate::codes::codes;
use crate::service;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// Operations. The table above has their fields.
    Op {
        /// Adds a name for a door of the calling kernel. Repeating it has no effect.
        Register = 1,
        /// Removes a name of a door of the calling kernel.
        Remove = 2,
        /// Returns where the name leads.
        Find = 3,
        /// Removes all names of a door of the calling kernel.
        Close = 4,
        /// Lists names in ascending order.
        List = 5,
        /// Waits until the table's edition is not the given one.
        Watch = 6,
        /// Waits until the table is in another life than that of the given edition. No change in
        /// this life wakes the caller.
        WatchLife = 7,
    }
}

codes! {
    /// Results: WASI's numbers, and one of ours.
    Errno {
        Success = 0,
        /// Too many callers of Watch.
        Again = 6,
        /// The process tree has as many names as a tree may have, or as many callers of Watch.
        Dquot = 19,
        /// The name is taken.
        Exist = 20,
        /// The kernel that serves the table does not answer, or the request is from an earlier life
        /// of its kernel.
        Hostunreach = 23,
        /// The wait was interrupted.
        Intr = 27,
        /// The name is not valid, or the request is malformed.
        Inval = 28,
        Io = 29,
        /// There are names below it.
        Isdir = 31,
        /// There is no such name, or it is of another door.
        Noent = 44,
        /// The table is full.
        Nospc = 51,
        /// The operation is not supported.
        Nosys = 52,
        /// The beginning of it is a name itself.
        Notdir = 54,
        /// It is the system's.
        Perm = 63,
        /// The table was restarted meanwhile. Programs see WASI's `stale`.
        Restarted = 256,
    }
}

impl Errno {
    /// Returns the number that a program gets.
    pub const fn wasi(self) -> u16 {
        match self {
            Errno::Restarted => 72,
            other => other as u16,
        }
    }
}

/// Maximum number of names of all process trees.
pub const NAMES: usize = 128;
/// Maximum number of names of the system: each kernel has one, and one for each service. Names of
/// process trees do not take their places.
pub const SYSTEM_NAMES: usize = MAX_DOMAINS * (1 + service::ALL.len());
/// Maximum number of names of one process tree.
pub const TREE_NAMES: usize = 32;
/// Maximum number of callers of Watch.
pub const WATCHES: usize = 128;
/// Maximum number of callers of Watch in one process tree.
pub const TREE_WATCHES: usize = 16;
/// Maximum bytes of a name.
pub const NAME: usize = 63;
/// Maximum parts of a name.
pub const PARTS: usize = 4;
/// Maximum bytes of a part of a name.
pub const PART: usize = 31;

/// First part of the names of kernels: `kernel/main`.
pub const KERNEL: &str = "kernel";
/// First part of the names of services, each with a kernel that executes it: `service/fs/main`.
pub const SERVICE: &str = "service";
/// The door of a name that none leads to.
pub const NO_DOOR: u64 = 0;

/// Returns the edition with which a life of the table begins.
pub const fn first_edition(lives: u32) -> u64 {
    (lives as u64) << 32
}

/// Returns the life of the table that an edition is from. After another life began, a kernel
/// registers its names again.
pub const fn lives(edition: u64) -> u32 {
    (edition >> 32) as u32
}

/// A name: 1 to [`PARTS`] parts, joined by `/`. A part has 1 to [`PART`] of `a-z 0-9 _ - .`, and is
/// neither `.` nor `..`. The order of names is that of their bytes.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct Name {
    /// Zeroes after the name.
    bytes: [u8; NAME],
    length: u8,
}

impl Default for Name {
    fn default() -> Name {
        Name::EMPTY
    }
}

impl Name {
    /// No name.
    pub const EMPTY: Name = Name { bytes: [0; NAME], length: 0 };

    /// Returns the name with these bytes; `None` if it is not valid.
    pub fn new(bytes: &[u8]) -> Option<Name> {
        let length = u8::try_from(bytes.len()).ok()?;
        let mut name = Name { length, ..Name::EMPTY };
        name.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        name.is_valid().then_some(name)
    }

    /// Returns the bytes of the name: none if its length is beyond the maximum.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// Returns the name as text; `?` if it is not valid text.
    pub fn text(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("?")
    }

    pub fn is_empty(&self) -> bool {
        *self == Name::EMPTY
    }

    /// Returns whether this name has all parts of `other`, and more.
    pub fn is_below(&self, other: &Name) -> bool {
        self.rest_below(other.as_bytes()).is_some()
    }

    /// Returns the parts after those of `path`, if there are more.
    pub fn rest_below(&self, path: &[u8]) -> Option<&[u8]> {
        self.as_bytes().strip_prefix(path)?.strip_prefix(b"/")
    }

    /// Returns whether only the system may register it.
    pub fn is_of_system(&self) -> bool {
        let first = self.as_bytes().split(|&byte| byte == b'/').next();
        [KERNEL, SERVICE].iter().any(|part| first == Some(part.as_bytes()))
    }

    /// Returns whether this is a name. It may come from elsewhere, so its bytes can be anything.
    pub fn is_valid(&self) -> bool {
        let Some((used, rest)) = self.bytes.split_at_checked(usize::from(self.length)) else {
            return false;
        };
        let parts = || used.split(|&byte| byte == b'/');
        rest.iter().all(|&byte| byte == 0) && parts().count() <= PARTS && parts().all(is_part)
    }
}

fn is_part(part: &[u8]) -> bool {
    let is_in_names = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.');
    (1..=PART).contains(&part.len())
        && part.iter().all(is_in_names)
        && !matches!(part, b"." | b"..")
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// [`Op`].
    pub op: u16,
    /// Must be 0.
    pub reserved: [u16; 3],
    /// The process tree of the caller; 0: the system.
    pub tree: u32,
    /// The process that serves the name; 0: the system.
    pub pid: u32,
    /// Chosen by the kernel: where it delivers the ends of new channels.
    pub door: u64,
    /// Of the table, as the caller knows it.
    pub edition: u64,
    /// Hash of the contract.
    pub contract: [u8; 16],
    pub name: Name,
}

impl Request {
    /// Leaves the other fields 0.
    pub fn new(op: Op) -> Request {
        Request { op: op as u16, ..Request::default() }
    }
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// [`Errno`].
    pub error: u16,
    /// The kernel that has the door.
    pub kernel: u16,
    /// The life of that kernel.
    pub epoch: u16,
    pub reserved: u16,
    /// Bytes written at the start of the bulk.
    pub filled: u32,
    /// Number of names removed.
    pub count: u32,
    pub door: u64,
    pub edition: u64,
    /// Hash of the contract.
    pub contract: [u8; 16],
}

impl Reply {
    /// Leaves the other fields 0.
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// An unknown number counts as [`Errno::Io`].
    pub fn errno(&self) -> Errno {
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

/// A record of the list of names.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Listed {
    pub name: Name,
    /// Hash of the contract.
    pub contract: [u8; 16],
    /// The process that serves it; 0: the system.
    pub pid: u32,
    /// The kernel on which it is served.
    pub kernel: u16,
    /// The life of that kernel.
    pub epoch: u16,
}

const _: () = assert!(size_of::<Name>() == 64 && align_of::<Name>() == 1);
const _: () = assert!(size_of::<Request>() == 112 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Reply>() == 48 && align_of::<Reply>() == 8);
const _: () = assert!(size_of::<Listed>() == 88 && align_of::<Listed>() == 4);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    #[test]
    fn names_have_one_to_four_parts_of_few_characters() {
        let (part, long) = ("a".repeat(PART), "a".repeat(PART + 1));
        for good in ["storage", "mail/virus", "a/b/c/d", "x.v1", "...", "a-b_9", "-", "0", &part] {
            let name = Name::new(good.as_bytes()).map(|name| name.text().len());
            assert_eq!(name, Some(good.len()), "{good}");
        }
        for bad in
            ["", "/", "a/", "/a", "a//b", "a/b/c/d/e", ".", "..", "a/..", "A", "a b", "é", &long]
        {
            assert_eq!(Name::new(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Name::new(b"a\0"), None);
    }

    #[test]
    fn a_name_has_at_most_63_bytes() {
        let longest = format!("{}/{}", "a".repeat(PART), "b".repeat(PART));
        assert_eq!(longest.len(), NAME);
        assert!(Name::new(longest.as_bytes()).is_some());
        let longer = format!("{}/{}/c", "a".repeat(PART), "b".repeat(PART - 1));
        assert_eq!(longer.len(), NAME + 1);
        assert_eq!(Name::new(longer.as_bytes()), None);
        assert_eq!(Name::new(&[b'a'; 256 + 3]), None);
    }

    #[test]
    fn names_from_elsewhere_are_valid_only_in_the_one_form() {
        let name = Name::new(b"mail").unwrap_or_default();
        assert!(name.is_valid() && !name.is_empty());
        let mut dirty = name;
        dirty.bytes[9] = b'x';
        assert!(!dirty.is_valid());
        let beyond = Name { length: 64, ..name };
        assert!(!beyond.is_valid() && beyond.as_bytes().is_empty());
        assert!(!Name::EMPTY.is_valid() && Name::EMPTY.is_empty());
    }

    #[test]
    fn the_order_of_names_is_that_of_their_bytes() {
        let texts = ["a", "a-b", "a/b", "aa", "b", "b/a"];
        let names = texts.map(|text| Name::new(text.as_bytes()));
        assert!(names.is_sorted() && texts.is_sorted());
    }

    #[test]
    fn a_name_is_below_its_first_parts() {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap_or_default();
        let below = |low: &str, high: &str| name(low).is_below(&name(high));
        assert!(below("a/b", "a") && below("a/b/c", "a") && below("a/b/c", "a/b"));
        for (low, high) in [("a", "a"), ("a", "a/b"), ("ab", "a"), ("a-b", "a"), ("b/a", "a")] {
            assert!(!below(low, high), "{low} {high}");
        }
        assert_eq!(name("a/b/c").rest_below(b"a"), Some(&b"b/c"[..]));
    }

    #[test]
    fn the_system_has_the_names_of_kernels_and_services() {
        let is_of_system =
            |text: &str| Name::new(text.as_bytes()).unwrap_or_default().is_of_system();
        assert!(["kernel", "kernel/main", "service/fs/main"].into_iter().all(is_of_system));
        assert!(
            !["kernels", "kernel-x/a", "a/kernel", "services/fs"].into_iter().any(is_of_system)
        );
    }

    #[test]
    fn an_edition_says_the_life_of_its_table() {
        assert_eq!(lives(first_edition(7) + 3), 7);
        assert!(first_edition(8) > first_edition(7) + u64::from(u32::MAX));
    }
}
