//! A folder of the host for a program on a board (`pen exec --dir`): the board sends jobs
//! (`abi::served`), which are done here.
//!
//! Contract: no access leaves the folder. A node is a path of plain names within it; this host's
//! kernel resolves the path beneath the folder, without following links or entering other file
//! systems, and the result must be the file that was found before. Links are only texts here; the
//! board follows them. A link that would lead out is not made, and none is moved so that it would
//! ([`links`]). Only files, directories and links are opened. Whatever the board sends causes an
//! error at worst.

use abi::fs::{Dirent, Errno, FIRST_COOKIE, Stat, kind};
use abi::served::{DATA, Job, ROOT, Task, given};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno as HostErrno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

mod links;
#[cfg(test)]
mod tests;

/// Maximum number of cached lists.
const LISTS: usize = 16;
/// Maximum number of known nodes.
const NODES: usize = 1 << 20;
/// Offset added to the host's inode numbers, because the board's begin with the root.
const FIRST: u64 = ROOT + 1;

/// The result of a job: a number and bytes.
pub type Said = Result<(u64, Vec<u8>), Errno>;

/// A folder, and the paths of the nodes that the board knows.
#[derive(Debug)]
pub struct Folder {
    top: OwnedFd,
    nodes: HashMap<u64, PathBuf>,
    /// Contents of directories at the time when the board began to list them.
    lists: HashMap<u64, Vec<Entry>>,
}

/// An entry: its name, its node, its type.
type Entry = (Vec<u8>, u64, u8);

/// A file that was found (as an `O_PATH` descriptor), and its type.
struct Found {
    file: OwnedFd,
    kind: u8,
    stat: rustix::fs::Stat,
}

/// Converts an error of the host for the board.
fn told(why: HostErrno) -> Errno {
    match why {
        HostErrno::NOENT => Errno::Noent,
        HostErrno::EXIST => Errno::Exist,
        HostErrno::NOTDIR => Errno::Notdir,
        HostErrno::ISDIR => Errno::Isdir,
        HostErrno::NOTEMPTY => Errno::Notempty,
        HostErrno::NOSPC | HostErrno::DQUOT => Errno::Nospc,
        HostErrno::NAMETOOLONG => Errno::Nametoolong,
        HostErrno::INVAL => Errno::Inval,
        HostErrno::LOOP => Errno::Loop,
        HostErrno::XDEV => Errno::Xdev,
        HostErrno::MLINK => Errno::Mlink,
        HostErrno::ROFS => Errno::Rofs,
        HostErrno::FBIG => Errno::Fbig,
        HostErrno::ACCESS | HostErrno::PERM => Errno::Perm,
        HostErrno::BUSY => Errno::Busy,
        _ => Errno::Io,
    }
}

/// Checks that it is a plain name.
fn name(bytes: &[u8]) -> Result<&OsStr, Errno> {
    let plain = !bytes.is_empty() && bytes != b"." && bytes != b"..";
    if !plain || bytes.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(Errno::Inval);
    }
    Ok(OsStr::from_bytes(bytes))
}

fn changes(task: Task) -> bool {
    use Task::{Link, Make, Rename, Rmdir, SetSize, SetTimes, Unlink, Write};
    matches!(task, Write | SetSize | SetTimes | Make | Link | Unlink | Rmdir | Rename)
}

fn nothing<T>(_: T) -> (u64, Vec<u8>) {
    (0, Vec::new())
}

fn number(inode: u64) -> u64 {
    inode.saturating_add(FIRST)
}

impl Found {
    /// Returns a path that opens exactly this file.
    fn itself(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.kind == kind::LINK {
            return Err(Errno::Inval);
        }
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::open(self.itself(), flags, Mode::empty()).map_err(told)
    }
}

impl Folder {
    /// Opens the folder at `path`.
    pub fn open(path: &Path) -> std::io::Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Folder { top, nodes: HashMap::new(), lists: HashMap::new() })
    }

    /// Does a job; `bulk` is what follows its header. A file that we may not write counts as
    /// read-only.
    pub fn perform(&mut self, job: &Job, bulk: &[u8]) -> Said {
        let (first, rest) = bulk.split_at_checked(job.name.into()).ok_or(Errno::Inval)?;
        let task = Task::from_code(job.task).ok_or(Errno::Nosys)?;
        self.check_links(task, job, first, rest)?;
        self.done(task, job, first, rest).map_err(|why| match why {
            Errno::Perm if changes(task) => Errno::Rofs,
            other => other,
        })
    }

    /// Checks that the job makes no link that leads out of the folder (`Perm`).
    fn check_links(&self, task: Task, job: &Job, first: &[u8], rest: &[u8]) -> Result<(), Errno> {
        match task {
            Task::Make if job.flags == u16::from(kind::LINK) => {
                let is_out = links::leads_out(rest, links::depth(&self.path(job.node)?));
                if is_out { Err(Errno::Perm) } else { Ok(()) }
            }
            Task::Link => {
                let to = links::depth(&self.path(job.node)?);
                self.may_link(&self.path(job.second)?, to)
            }
            Task::Rename => {
                let to = links::depth(&self.path(job.second)?);
                self.may_move(&self.path(job.node)?.join(name(first)?), to)
            }
            _ => Ok(()),
        }
    }

    fn done(&mut self, task: Task, job: &Job, first: &[u8], rest: &[u8]) -> Said {
        match task {
            Task::Lookup => {
                let path = self.path(job.node)?.join(name(first)?);
                self.node(job.node).and_then(|_| self.known(path))
            }
            Task::Stat => {
                let path = self.path(job.node)?;
                self.node(job.node).and_then(|_| self.known(path))
            }
            Task::Parent => self.parent(job.node),
            Task::ReadLink => {
                let text = rustix::fs::readlinkat(self.node(job.node)?.file, "", Vec::new());
                text.map(|text| (0, text.into_bytes())).map_err(told)
            }
            Task::List => self.list(job),
            Task::Read => self.read(job),
            Task::Write => {
                let file = self.node(job.node)?.open(OFlags::WRONLY)?;
                let bytes = rustix::io::pwrite(file, rest, job.offset).map_err(told)?;
                Ok((bytes as u64, Vec::new()))
            }
            Task::SetSize => {
                let file = self.node(job.node)?.open(OFlags::WRONLY)?;
                rustix::fs::ftruncate(file, job.length).map(nothing).map_err(told)
            }
            Task::Allocate => Err(Errno::Notsup),
            Task::SetTimes => self.set_times(job),
            Task::Make => self.make(job, first, rest),
            Task::Link => self.link(job, first),
            Task::Unlink => self.remove(job, first, AtFlags::empty()),
            Task::Rmdir => self.remove(job, first, AtFlags::REMOVEDIR),
            Task::Rename => self.rename(job, first, rest),
            Task::Sync => {
                let file = self.node(job.node)?.open(OFlags::RDONLY)?;
                rustix::fs::fsync(file).map(nothing).map_err(told)
            }
            Task::Space => {
                let space = rustix::fs::fstatvfs(&self.top).map_err(told)?;
                let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
                Ok((bytes(space.f_blocks), bytes(space.f_bavail).to_le_bytes().to_vec()))
            }
        }
    }

    /// Returns the last known path of a node.
    fn path(&self, node: u64) -> Result<PathBuf, Errno> {
        match node {
            ROOT => Ok(PathBuf::new()),
            _ => self.nodes.get(&node).cloned().ok_or(Errno::Noent),
        }
    }

    /// Finds a node, if it is still the same file.
    fn node(&self, node: u64) -> Result<Found, Errno> {
        let found = self.at(&self.path(node)?)?;
        let is_it = node == ROOT || number(found.stat.st_ino) == node;
        if is_it { Ok(found) } else { Err(Errno::Noent) }
    }

    /// Finds the file at a path; links are not followed.
    fn at(&self, path: &Path) -> Result<Found, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(&self.top, path, flags, Mode::empty(), resolve);
        let file = file.map_err(told)?;
        let stat = rustix::fs::fstat(&file).map_err(told)?;
        let kind = kind_of(FileType::from_raw_mode(stat.st_mode)).ok_or(Errno::Perm)?;
        Ok(Found { file, kind, stat })
    }

    /// Returns the metadata of a file, and remembers its node.
    #[allow(clippy::unnecessary_cast, reason = "other hosts have other widths")]
    fn known(&mut self, path: PathBuf) -> Said {
        let Found { kind, stat: found, .. } = self.at(&path)?;
        let node = if path.as_os_str().is_empty() { ROOT } else { number(found.st_ino) };
        if node != ROOT {
            if self.nodes.len() >= NODES && !self.nodes.contains_key(&node) {
                return Err(Errno::Nfile);
            }
            self.nodes.insert(node, path);
        }
        let time = |seconds: i64, ns: u64| {
            u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(ns)
        };
        let stat = Stat {
            node,
            kind,
            links: found.st_nlink as u64,
            size: u64::try_from(found.st_size).unwrap_or(0),
            accessed: time(found.st_atime, found.st_atime_nsec as u64),
            modified: time(found.st_mtime, found.st_mtime_nsec as u64),
            changed: time(found.st_ctime, found.st_ctime_nsec as u64),
            ..Stat::default()
        };
        Ok((0, stat.as_bytes().to_vec()))
    }

    fn parent(&mut self, node: u64) -> Said {
        let path = self.path(node)?;
        let above = path.parent().unwrap_or(Path::new(""));
        if above.as_os_str().is_empty() {
            return Ok((ROOT, Vec::new()));
        }
        let node = number(self.at(above)?.stat.st_ino);
        self.nodes.insert(node, above.to_path_buf());
        Ok((node, Vec::new()))
    }

    /// Lists entries by name. A cookie is an index into the entries at the time when the list
    /// began, so a program that removes what it lists misses nothing.
    fn list(&mut self, job: &Job) -> Said {
        if job.offset <= FIRST_COOKIE || !self.lists.contains_key(&job.node) {
            let entries = self.entries(job.node)?;
            if self.lists.len() >= LISTS {
                self.lists.clear();
            }
            self.lists.insert(job.node, entries);
        }
        let all = self.lists.get(&job.node).map_or(&[][..], Vec::as_slice);
        let mut data = Vec::new();
        for (cookie, (name, node, kind)) in (FIRST_COOKIE..).zip(all) {
            if cookie < job.offset {
                continue;
            }
            if data.len() + size_of::<Dirent>() + name.len() > DATA {
                return Ok((0, data));
            }
            let (node, kind, length) = (*node, *kind, name.len() as u32);
            let head = Dirent { next: cookie + 1, node, name: length, kind, reserved: [0; 3] };
            data.extend_from_slice(head.as_bytes());
            data.extend_from_slice(name);
        }
        Ok((1, data))
    }

    /// Returns the current entries of a directory, in order.
    fn entries(&self, node: u64) -> Result<Vec<Entry>, Errno> {
        let directory = self.node(node)?.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut all = Vec::new();
        for entry in Dir::read_from(&directory).map_err(told)? {
            let entry = entry.map_err(told)?;
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let found =
                    rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                kind = found.map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
            }
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..")
                && let Some(kind) = kind_of(kind)
            {
                all.push((name.to_vec(), number(entry.ino()), kind));
            }
        }
        all.sort();
        Ok(all)
    }

    fn read(&self, job: &Job) -> Said {
        let file = self.node(job.node)?.open(OFlags::RDONLY)?;
        let mut data = vec![0; usize::try_from(job.length).unwrap_or(DATA).min(DATA)];
        let bytes = rustix::io::pread(file, &mut data, job.offset).map_err(told)?;
        data.truncate(bytes);
        Ok((0, data))
    }

    fn set_times(&self, job: &Job) -> Said {
        let time = |flag: u16, ns: u64| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: if job.flags & flag == 0 { UTIME_OMIT } else { (ns % 1_000_000_000) as i64 },
        };
        let times = Timestamps {
            last_access: time(given::ACCESSED, job.accessed),
            last_modification: time(given::MODIFIED, job.modified),
        };
        let file = self.node(job.node)?.file;
        rustix::fs::utimensat(file, "", &times, AtFlags::EMPTY_PATH).map(nothing).map_err(told)
    }

    fn make(&mut self, job: &Job, first: &[u8], text: &[u8]) -> Said {
        let (above, new) = (self.node(job.node)?.file, name(first)?);
        match u8::try_from(job.flags) {
            Ok(kind::DIRECTORY) => {
                rustix::fs::mkdirat(above, new, Mode::from_raw_mode(0o777)).map_err(told)?;
            }
            Ok(kind::FILE) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(above, new, flags, Mode::from_raw_mode(0o666)).map_err(told)?;
            }
            Ok(kind::LINK) => {
                rustix::fs::symlinkat(OsStr::from_bytes(text), above, new).map_err(told)?;
            }
            _ => return Err(Errno::Inval),
        }
        let path = self.path(job.node)?.join(new);
        self.known(path)
    }

    fn link(&self, job: &Job, first: &[u8]) -> Said {
        let (from, to) = (self.node(job.second)?, self.node(job.node)?.file);
        let (new, flags) = (name(first)?, AtFlags::SYMLINK_FOLLOW);
        let done = rustix::fs::linkat(rustix::fs::CWD, from.itself(), to, new, flags);
        done.map(nothing).map_err(told)
    }

    fn remove(&self, job: &Job, first: &[u8], flags: AtFlags) -> Said {
        let above = self.node(job.node)?.file;
        rustix::fs::unlinkat(above, name(first)?, flags).map(nothing).map_err(told)
    }

    fn rename(&mut self, job: &Job, first: &[u8], second: &[u8]) -> Said {
        let (from, to) = (self.node(job.node)?.file, self.node(job.second)?.file);
        let (old, new) = (name(first)?, name(second)?);
        rustix::fs::renameat(from, old, to, new).map_err(told)?;
        let (old, new) = (self.path(job.node)?.join(old), self.path(job.second)?.join(new));
        for known in self.nodes.values_mut() {
            if let Ok(rest) = known.strip_prefix(&old) {
                *known = if rest.as_os_str().is_empty() { new.clone() } else { new.join(rest) };
            }
        }
        Ok((0, Vec::new()))
    }
}

/// Returns the board's type code; `None` for types that are hidden from the board.
fn kind_of(found: FileType) -> Option<u8> {
    match found {
        FileType::Directory => Some(kind::DIRECTORY),
        FileType::RegularFile => Some(kind::FILE),
        FileType::Symlink => Some(kind::LINK),
        _ => None,
    }
}
