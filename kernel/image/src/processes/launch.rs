//! Processes without a parent: what the host asks for, and what the console runs. They get an
//! input, an output, a place for errors, the root directory, and signals for anybody; their
//! manifests may say that root and signals are not for them.

use super::{place, with_table};
use crate::services::Patience;
use crate::session::Session;
use ::processes::client::{Ended, Spawn};
use abi::process::{End, Errno, flag};
use alloc::vec::Vec;
use kernel_process::begin::{Folders, Limits, PassedFile, Plan, encode};
use kernel_process::wasi::rights;

/// How long a process table that began anew may take to hear of what runs.
const HEARSAY_NS: u64 = 2_000_000_000;

/// What a process calls its root directory.
const ROOT: &[u8] = b"/";

/// What is to run.
pub struct Launch<'a> {
    /// Which kernel, or `ANY_KERNEL`.
    pub kernel: u32,
    /// Where the program is, from the root.
    pub path: &'a [u8],
    /// Its name first; each with a NUL.
    pub arguments: &'a [u8],
    /// `NAME=VALUE`, each with a NUL.
    pub environment: &'a [u8],
    /// Handles of its input, output and errors.
    pub streams: [u64; 3],
    /// A handle of the root directory.
    pub root: u64,
    /// Handles of more directories, and what it calls each. One that is called `/` is its root.
    pub folders: &'a [(u64, &'a [u8])],
}

impl Launch<'_> {
    /// Begins it in a group of its own; its number.
    pub fn begin(&self, session: &Session) -> Result<u32, Errno> {
        let beginning = self.encoded()?;
        let kernel = place(session, self.kernel, None, self.path)?;
        let flags = flag::NEW_GROUP | flag::WATCHED;
        let spawn = Spawn { kernel, parent: 0, group: 0, flags, beginning: &beginning };
        with_table(session, &Patience::ENDLESS, |table| table.spawn(spawn))
    }

    fn encoded(&self) -> Result<Vec<u8>, Errno> {
        let [input, out, err] = self.streams;
        let stream = |descriptor, handle| PassedFile {
            handle,
            rights: rights::STREAM,
            inheriting: 0,
            descriptor,
            name: None,
        };
        let directory = |descriptor, handle, name| PassedFile {
            handle,
            rights: rights::DIRECTORY,
            inheriting: rights::INHERITING,
            descriptor,
            name: Some(name),
        };
        let mut files = Vec::from([stream(0, input), stream(1, out), stream(2, err)]);
        let usual = (self.root, ROOT);
        let has_root = self.folders.iter().any(|&(_, name)| name == ROOT);
        let all = (!has_root).then_some(&usual).into_iter().chain(self.folders);
        files.extend((3..).zip(all).map(|(at, &(it, name))| directory(at, it, name)));
        let plan = Plan {
            path: self.path,
            arguments: self.arguments,
            environment: self.environment,
            limits: Limits::default(),
            signals: true,
            folders: if has_root { Folders::WantedWithRoot } else { Folders::Wanted },
            files: &files,
        };
        encode(&plan).map_err(|why| match why {
            kernel_process::Errno::TOOBIG => Errno::Toobig,
            _ => Errno::Inval,
        })
    }
}

/// How such a process ended. A table that began anew hears of what still runs a moment later; what
/// it does not hear of was lost with its kernel.
pub fn end_of(session: &Session, pid: u32) -> (End, u32) {
    let mut deadline = None;
    loop {
        match with_table(session, &Patience::ENDLESS, |table| table.wait(0, pid as i32)) {
            Ok(Ended { end, status, .. }) => return (end, status),
            Err(_) => {
                let now = arch::time::soc_time();
                if now > *deadline.get_or_insert(now + HEARSAY_NS) {
                    return (End::Lost, 0);
                }
                session.kernel.scheduler.sleep_until(now + HEARSAY_NS / 20);
            }
        }
    }
}

/// A signal for the group that process `pid` began.
pub fn signal_group(session: &Session, pid: u32, signal: u16) {
    // A group that has ended needs none.
    let group = -(pid as i32);
    let _ = with_table(session, &Patience::ENDLESS, |table| table.kill(0, group, signal));
}
