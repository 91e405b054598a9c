//! Readdir: the entries of a directory, packed one after another.
//!
//! Contract: only whole entries are returned. `.` has cookie 0, `..` has 1. Each entry carries the
//! cookie from which to continue after it. Without room for one entry the result is
//! [`Errno::Inval`].

use super::{Call, Result, Vfs};
use crate::filesystem::{FileSystem, Kind, Node};
use abi::fs::{Dirent, Errno, FIRST_COOKIE, Reply, reply_flag};
use zerocopy::IntoBytes;

/// First cookie of the file systems shown in the root directory.
const SHOWN_COOKIE: u64 = 1 << 62;

/// The part of the bulk filled so far.
struct Packed<'a> {
    into: &'a mut [u8],
    at: usize,
}

impl Packed<'_> {
    /// Adds an entry. Returns false if it does not fit.
    fn push(&mut self, next: u64, node: Node, kind: Kind, name: &[u8]) -> bool {
        let head =
            Dirent { next, node, name: name.len() as u32, kind: kind.code(), reserved: [0; 3] };
        let (head, room) = (head.as_bytes(), &mut self.into[self.at..]);
        if room.len() < head.len() + name.len() {
            return false;
        }
        room[..head.len()].copy_from_slice(head);
        room[head.len()..][..name.len()].copy_from_slice(name);
        self.at += head.len() + name.len();
        true
    }
}

impl Vfs {
    pub(super) fn do_readdir(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let place = self.directory(call.request.handle)?;
        let (from, length) = (call.request.offset, call.length());
        let mut packed = Packed { into: &mut call.bulk[..length], at: 0 };
        let (stat, parent) = self.on(place, |fs, node| Ok((fs.stat(node)?, fs.parent(node)?)))?;
        // A removed directory has no entries at all.
        let dots: &[(Node, &[u8])] =
            if stat.links == 0 { &[] } else { &[(place.node, b"."), (parent, b"..")] };
        let mut all = true;
        for (cookie, (node, name)) in (0u64..).zip(dots) {
            all = all && (cookie < from || packed.push(cookie + 1, *node, Kind::Directory, name));
        }
        let shown = self.all_shown(place);
        if all && from < SHOWN_COOKIE {
            all = self.on(place, |fs, node| {
                fs.list(node, from.max(FIRST_COOKIE), &mut |entry| {
                    shown.iter().any(|(name, _)| name == entry.name)
                        || packed.push(entry.cookie + 1, entry.node, entry.kind, entry.name)
                })
            })?;
        }
        for (cookie, (name, node)) in (SHOWN_COOKIE..).zip(&shown) {
            let push =
                |packed: &mut Packed<'_>| packed.push(cookie + 1, *node, Kind::Directory, name);
            all = all && (cookie < from || push(&mut packed));
        }
        let filled = packed.at as u32;
        if filled == 0 && !all {
            return Err(Errno::Inval.into());
        }
        let flags = if all { reply_flag::END } else { 0 };
        Ok(Reply { filled, flags, value: u64::from(filled), ..Reply::default() })
    }
}
