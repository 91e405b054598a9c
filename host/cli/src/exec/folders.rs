//! Folders of the host that a program on a board sees: `pen exec --dir`. The board sends jobs
//! (`abi::served`), here they are done.
//!
//! Contract: nothing leads out of a folder. A node is a path of plain names within it, which the
//! kernel of this host resolves beneath it, without links and other file systems; links are texts to
//! us, and the board follows them. Whatever the board sends ends in an error at worst. Nodes are
//! numbered as the host numbers files.

use abi::fs::{Dirent, Errno, FIRST_COOKIE, Stat, kind};
use abi::host::{FOLDERS, FolderJob, FolderSaid};
use abi::served::{DATA, Job, ROOM, ROOT, Task, given};
use anyhow::{Context, ensure};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno as HostErrno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, IntoBytes};

/// Most nodes that are known at a time.
const NODES: usize = 1 << 20;
/// The host's numbers are moved by so much: the board's begin with the root.
const FIRST: u64 = ROOT + 1;

/// What becomes of a job: a number and bytes.
pub type Said = Result<(u64, Vec<u8>), Errno>;

/// All folders of a program, and jobs that came.
#[derive(Debug, Default)]
pub struct Folders {
    all: Vec<(String, Folder)>,
    came: Vec<u8>,
}

impl Folders {
    /// Each `HOST:GUEST`.
    pub fn open(lines: &[String]) -> anyhow::Result<Folders> {
        ensure!(lines.len() <= FOLDERS, "at most {FOLDERS} folders");
        let mut all = vec![];
        for line in lines {
            let (host, guest) =
                line.rsplit_once(':').with_context(|| format!("--dir {line}: write HOST:GUEST"))?;
            ensure!(!guest.is_empty(), "--dir {line}: no name for the program");
            let folder = Folder::open(Path::new(host)).with_context(|| host.to_string())?;
            all.push((guest.to_string(), folder));
        }
        Ok(Folders { all, came: vec![] })
    }

    /// What the program knows them by.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(name, _)| name.as_str())
    }

    /// Takes what came, does what is there as a whole, and gives the answers.
    pub fn perform(&mut self, data: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
        self.came.extend_from_slice(data);
        let (mut answers, mut from) = (vec![], 0);
        while let Ok((head, rest)) = FolderJob::read_from_prefix(&self.came[from..]) {
            let bytes = head.bytes.get() as usize;
            ensure!(bytes <= ROOM, "the board sends a job without sense");
            let Some(job) = rest.get(..bytes) else { break };
            let folder = self.all.get_mut(head.folder.get() as usize);
            let said = match (Job::read_from_prefix(job), folder) {
                (Ok((job, bulk)), Some((_, folder))) => folder.perform(&job, bulk),
                _ => Err(Errno::Inval),
            };
            answers.push(answer(head.number.get(), said));
            from += size_of::<FolderJob>() + bytes;
        }
        self.came.drain(..from);
        Ok(answers)
    }
}

fn answer(number: u64, said: Said) -> Vec<u8> {
    let (error, value, data) = match said {
        Ok((value, data)) => (Errno::Success, value, data),
        Err(why) => (why, 0, vec![]),
    };
    let head =
        FolderSaid { number: number.into(), value: value.into(), error: (error as u32).into() };
    [head.as_bytes(), &data].concat()
}

/// A folder.
#[derive(Debug)]
pub struct Folder {
    top: OwnedFd,
    nodes: HashMap<u64, PathBuf>,
}

/// What the board is told.
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
        HostErrno::FBIG => Errno::Overflow,
        HostErrno::ACCESS | HostErrno::PERM => Errno::Perm,
        HostErrno::BUSY => Errno::Busy,
        _ => Errno::Io,
    }
}

/// A plain name.
fn name(bytes: &[u8]) -> Result<&OsStr, Errno> {
    let plain = !bytes.is_empty() && bytes != b"." && bytes != b"..";
    if !plain || bytes.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(Errno::Inval);
    }
    Ok(OsStr::from_bytes(bytes))
}

fn nothing<T>(_: T) -> (u64, Vec<u8>) {
    (0, Vec::new())
}

impl Folder {
    /// The folder at `path`.
    pub fn open(path: &Path) -> std::io::Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Folder { top, nodes: HashMap::new() })
    }

    /// Does a job; `bulk` is what is behind its head.
    pub fn perform(&mut self, job: &Job, bulk: &[u8]) -> Said {
        let (first, rest) = bulk.split_at_checked(job.name.into()).ok_or(Errno::Inval)?;
        let path = self.path(job.node)?;
        match Task::from_code(job.task).ok_or(Errno::Nosys)? {
            Task::Lookup => self.found(&path.join(name(first)?)),
            Task::Stat => self.found(&path),
            Task::Parent => self.parent(&path),
            Task::ReadLink => self.read_link(&path),
            Task::List => self.list(&path, job),
            Task::Read => self.read(&path, job),
            Task::Write => self.write(&path, job, rest),
            Task::SetSize => {
                let file = self.at(&path, OFlags::WRONLY)?;
                rustix::fs::ftruncate(file, job.length).map(nothing).map_err(told)
            }
            Task::Allocate => Err(Errno::Notsup),
            Task::SetTimes => self.set_times(&path, job),
            Task::Make => self.make(&path, job, first, rest),
            Task::Link => self.link(&path, job, first),
            Task::Unlink | Task::Rmdir => {
                let is_directory = job.task == Task::Rmdir as u16;
                let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                let above = self.at(&path, OFlags::PATH)?;
                rustix::fs::unlinkat(above, name(first)?, flags).map(nothing).map_err(told)
            }
            Task::Rename => self.rename(&path, job, first, rest),
            Task::Sync => {
                let file = self.at(&path, OFlags::RDONLY)?;
                rustix::fs::fsync(file).map(nothing).map_err(told)
            }
            Task::Space => {
                let space = rustix::fs::fstatvfs(&self.top).map_err(told)?;
                let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
                Ok((bytes(space.f_blocks), bytes(space.f_bavail).to_le_bytes().to_vec()))
            }
        }
    }

    /// Where a node is, as far as is known.
    fn path(&self, node: u64) -> Result<PathBuf, Errno> {
        if node == ROOT {
            return Ok(PathBuf::new());
        }
        self.nodes.get(&node).cloned().ok_or(Errno::Noent)
    }

    /// Opens what is there; a link is not followed.
    fn at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        // What is a link itself is opened as such, for its text and its times.
        let resolve = match flags.contains(OFlags::PATH) {
            true => resolve.difference(ResolveFlags::NO_SYMLINKS),
            false => resolve,
        };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let flags = match flags.contains(OFlags::PATH) {
            true => flags.difference(OFlags::NONBLOCK),
            false => flags,
        };
        rustix::fs::openat2(&self.top, here, flags, Mode::empty(), resolve).map_err(told)
    }

    /// All about what is there; from now on its node is known.
    fn found(&mut self, path: &Path) -> Said {
        let file = self.at(path, OFlags::PATH)?;
        let found = rustix::fs::fstat(file).map_err(told)?;
        let node =
            if path.as_os_str().is_empty() { ROOT } else { found.st_ino.saturating_add(FIRST) };
        if node != ROOT {
            if self.nodes.len() >= NODES && !self.nodes.contains_key(&node) {
                return Err(Errno::Nfile);
            }
            self.nodes.insert(node, path.to_path_buf());
        }
        let time = |seconds: i64, ns: u64| {
            u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(ns)
        };
        let stat = Stat {
            node,
            kind: kind_of(FileType::from_raw_mode(found.st_mode)).ok_or(Errno::Perm)?,
            links: found.st_nlink as u64,
            size: u64::try_from(found.st_size).unwrap_or(0),
            accessed: time(found.st_atime, found.st_atime_nsec as u64),
            modified: time(found.st_mtime, found.st_mtime_nsec as u64),
            changed: time(found.st_ctime, found.st_ctime_nsec as u64),
            ..Stat::default()
        };
        Ok((0, stat.as_bytes().to_vec()))
    }

    fn parent(&mut self, path: &Path) -> Said {
        let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) else {
            return Ok((ROOT, Vec::new()));
        };
        let file = self.at(above, OFlags::PATH)?;
        let found = rustix::fs::fstat(file).map_err(told)?;
        Ok((found.st_ino.saturating_add(FIRST), Vec::new()))
    }

    fn read_link(&self, path: &Path) -> Said {
        let link = self.at(path, OFlags::PATH)?;
        let text = rustix::fs::readlinkat(link, "", Vec::new()).map_err(told)?;
        Ok((0, text.into_bytes()))
    }

    /// Entries by their names' order: a cookie is a place in it.
    fn list(&self, path: &Path, job: &Job) -> Said {
        let directory = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut all = Vec::new();
        for entry in Dir::read_from(directory).map_err(told)? {
            let entry = entry.map_err(told)?;
            let name = entry.file_name().to_bytes().to_vec();
            if name != b"."
                && name != b".."
                && let Some(kind) = kind_of(entry.file_type())
            {
                all.push((name, entry.ino().saturating_add(FIRST), kind));
            }
        }
        all.sort();
        let mut data = Vec::new();
        for (cookie, (name, node, kind)) in (FIRST_COOKIE..).zip(all) {
            if cookie < job.offset {
                continue;
            }
            if data.len() + size_of::<Dirent>() + name.len() > DATA {
                return Ok((0, data));
            }
            let length = name.len() as u32;
            let head = Dirent { next: cookie + 1, node, name: length, kind, reserved: [0; 3] };
            data.extend_from_slice(head.as_bytes());
            data.extend_from_slice(&name);
        }
        Ok((1, data))
    }

    fn read(&self, path: &Path, job: &Job) -> Said {
        let file = self.at(path, OFlags::RDONLY)?;
        let mut data = vec![0; DATA.min(usize::try_from(job.length).unwrap_or(DATA))];
        let bytes = rustix::io::pread(file, &mut data, job.offset).map_err(told)?;
        data.truncate(bytes);
        Ok((0, data))
    }

    fn write(&self, path: &Path, job: &Job, data: &[u8]) -> Said {
        let file = self.at(path, OFlags::WRONLY)?;
        let bytes = rustix::io::pwrite(file, data, job.offset).map_err(told)?;
        Ok((bytes as u64, Vec::new()))
    }

    fn set_times(&self, path: &Path, job: &Job) -> Said {
        let time = |flag: u16, ns: u64| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: if job.flags & flag == 0 { UTIME_OMIT } else { (ns % 1_000_000_000) as i64 },
        };
        let times = Timestamps {
            last_access: time(given::ACCESSED, job.accessed),
            last_modification: time(given::MODIFIED, job.modified),
        };
        let (above, name) = self.above(path)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(above, &name, &times, flags).map(nothing).map_err(told)
    }

    /// The directory of what is there, and its name in it.
    fn above(&self, path: &Path) -> Result<(OwnedFd, PathBuf), Errno> {
        let name = path.file_name().map_or(PathBuf::from("."), PathBuf::from);
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((self.at(above, OFlags::PATH)?, name))
    }

    fn make(&mut self, path: &Path, job: &Job, first: &[u8], text: &[u8]) -> Said {
        let (above, new) = (self.at(path, OFlags::PATH)?, name(first)?);
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
        self.found(&path.join(new))
    }

    fn link(&self, path: &Path, job: &Job, first: &[u8]) -> Said {
        let (from, old) = self.above(&self.path(job.second)?)?;
        let to = self.at(path, OFlags::PATH)?;
        let flags = AtFlags::empty();
        rustix::fs::linkat(from, &old, to, name(first)?, flags).map(nothing).map_err(told)
    }

    fn rename(&mut self, path: &Path, job: &Job, first: &[u8], second: &[u8]) -> Said {
        let target = self.path(job.second)?;
        let (from, to) = (self.at(path, OFlags::PATH)?, self.at(&target, OFlags::PATH)?);
        let (old, new) = (name(first)?, name(second)?);
        rustix::fs::renameat(from, old, to, new).map_err(told)?;
        let (old, new) = (path.join(old), target.join(new));
        for known in self.nodes.values_mut() {
            if let Ok(rest) = known.strip_prefix(&old) {
                *known = if rest.as_os_str().is_empty() { new.clone() } else { new.join(rest) };
            }
        }
        Ok((0, Vec::new()))
    }
}

/// What the board knows; other things of the host are not there.
fn kind_of(found: FileType) -> Option<u8> {
    match found {
        FileType::Directory => Some(kind::DIRECTORY),
        FileType::RegularFile => Some(kind::FILE),
        FileType::Symlink => Some(kind::LINK),
        _ => None,
    }
}
