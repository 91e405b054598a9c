//! What a manifest's directories are opened with: the authority of the program's parent.
//!
//! Contract: a process gets a directory that its manifest names only if its parent could have
//! passed it on, with these rights. The parent's authority is the directories in the start data:
//! those that it passes, and its own preopened ones. The manifest's path starts at the root, which
//! the parent may not have. So each directory along the path is compared with those of the parent,
//! by identity. From the first one that the parent has, the rest of the path is opened beneath the
//! *parent's handle*; a link that leaves it leads nowhere.

use crate::begin::StartData;
use crate::errno::{Errno, Halt};
use crate::system::{System, ask};
use crate::wasi::filetype;
use abi::fs::{Op, Request, flag};
use alloc::vec::Vec;

/// A directory of the parent.
struct Held {
    handle: u64,
    rights: u64,
    inheriting: u64,
    /// File system and number, its identity.
    node: (u64, u64),
}

/// The directories that a process's parent may use.
pub struct Authority(Vec<Held>);

/// Rights of a descriptor, and of files opened through it.
pub type Rights = (u64, u64);

impl Authority {
    /// Returns the authority of the parent that made the start data. Handles that are no
    /// directories, or not open, have none.
    pub fn of(system: &mut dyn System, start_data: &StartData<'_>) -> Result<Authority, Halt> {
        let mut all = Vec::new();
        for file in start_data.files() {
            let Ok(handle) = file.object.file() else { continue };
            let stat = match ask(system, Request::new(Op::Stat, handle), &mut []) {
                Ok(reply) => reply.stat,
                Err(Halt::Failed(_)) => continue,
                Err(stop) => return Err(stop),
            };
            if stat.kind == filetype::DIRECTORY {
                let (rights, inheriting) = (file.rights, file.inheriting);
                all.try_reserve(1).map_err(|_| Errno::NOMEM)?;
                all.push(Held { handle, rights, inheriting, node: (stat.device, stat.node) });
            }
        }
        Ok(Authority(all))
    }

    /// Opens the directory at `path`, which starts at `root`, for a process that gets `rights` on
    /// it. Fails with `NOTCAPABLE` if the parent may not use it so, or it does not exist.
    pub fn open(
        &self,
        system: &mut dyn System,
        root: u64,
        path: &[u8],
        rights: Rights,
    ) -> Result<u64, Halt> {
        let mut from = 0;
        loop {
            let (above, rest) = path.split_at(from);
            let node = node_at(system, root, above)?;
            for held in self.0.iter().filter(|held| held.node == node && held.covers(rights)) {
                match open_directory(system, held.handle, rest) {
                    Err(Halt::Failed(_)) => {}
                    done => return done,
                }
            }
            from = match next_end(path, from) {
                Some(end) => end,
                None => return Err(Errno::NOTCAPABLE.into()),
            };
        }
    }
}

impl Held {
    fn covers(&self, (base, inheriting): Rights) -> bool {
        base & !self.rights == 0 && inheriting & !self.inheriting == 0
    }
}

/// Returns the end of the name in `path` that begins at `from` or after slashes; `None` if there is
/// none.
fn next_end(path: &[u8], from: usize) -> Option<usize> {
    let rest = path.get(from..)?;
    let start = from + rest.iter().position(|&byte| byte != b'/')?;
    let name = path.get(start..)?;
    Some(start + name.iter().position(|&byte| byte == b'/').unwrap_or(name.len()))
}

/// Opens a directory; `path` may begin with slashes, or be empty for `from` itself.
pub fn open_directory(system: &mut dyn System, from: u64, path: &[u8]) -> Result<u64, Halt> {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let name = path.get(start..).filter(|name| !name.is_empty()).unwrap_or(b".");
    let mut bulk = crate::table::copied(name)?;
    let request = Request {
        flags: flag::READ | flag::DIRECTORY | flag::FOLLOW,
        name: u16::try_from(bulk.len()).map_err(|_| Errno::NAMETOOLONG)?,
        ..Request::new(Op::Open, from)
    };
    ask(system, request, &mut bulk).map(|reply| reply.handle)
}

/// Returns the identity of the directory at `path`. Fails with `NOTCAPABLE` if there is none.
fn node_at(system: &mut dyn System, root: u64, path: &[u8]) -> Result<(u64, u64), Halt> {
    let handle = open_directory(system, root, path).map_err(|halt| match halt {
        Halt::Failed(Errno::STALE) => halt,
        Halt::Failed(_) => Errno::NOTCAPABLE.into(),
        stop => stop,
    })?;
    let stat = ask(system, Request::new(Op::Stat, handle), &mut []);
    // Fails only if the service has restarted; then there is no such handle.
    let _ = system.files(Request::new(Op::Close, handle), &mut []);
    let stat = stat?.stat;
    Ok((stat.device, stat.node))
}
