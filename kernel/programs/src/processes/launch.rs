//! Processes that the system starts, without a parent: for the host, and on the console. They get
//! input, output and standard error, the root directory, and the right to signal any process; their
//! manifests may restrict root and signals.

use super::place::{Placed, place};
use super::reports::REPORTING_NS;
use super::{start, with_table};
use ::processes::client::{Ended, Spawn};
use abi::process::{End, Errno, flag};
use alloc::vec::Vec;
use base::id::DomainId;
use kernel_process::Object;
use kernel_process::begin::{Folders, Limits, PassedFile, Plan, encode};
use kernel_process::table::Preopen;
use kernel_process::wasi::rights;
use kernel_services::services::Patience;
use kernel_services::session::Session;

/// Name of the root directory in a process.
const ROOT: &[u8] = b"/";

/// A process to start.
pub struct Launch<'a> {
    /// The requested kernel, or `ANY_KERNEL`.
    pub kernel: u32,
    /// Path of the program from the root.
    pub path: &'a [u8],
    /// Each ends with a NUL; the first one is its name.
    pub arguments: &'a [u8],
    /// `NAME=VALUE`, each ends with a NUL.
    pub environment: &'a [u8],
    /// Handles of its input, output and standard error.
    pub streams: [u64; 3],
    /// A handle of the root directory.
    pub root: u64,
    /// Handles of more directories, with their names in the process. One named `/` replaces the
    /// root.
    pub folders: &'a [(u64, &'a [u8])],
}

impl Launch<'_> {
    /// Starts the process in a group of its own. Returns its number.
    pub fn begin(&self, session: &Session) -> Result<u32, Errno> {
        let beginning = self.encoded()?;
        let Placed { kernel, program } = place(session, self.kernel, None, self.path)?;
        let flags = flag::NEW_GROUP | flag::WATCHED;
        let spawn = Spawn { kernel, parent: 0, group: 0, flags, beginning: &beginning };
        if DomainId(kernel as u8) == session.kernel.me {
            let processes = super::get().ok_or(Errno::Nosys)?;
            return start::here(session, processes, spawn, program, &|| false);
        }
        with_table(session, &Patience::ENDLESS, |table| table.spawn(spawn))
    }

    fn encoded(&self) -> Result<Vec<u8>, Errno> {
        let [input, out, err] = self.streams;
        let stream = |descriptor, handle| PassedFile {
            object: Object::File(handle),
            rights: rights::STREAM,
            inheriting: 0,
            descriptor,
            preopen: None,
        };
        let directory = |descriptor, handle, name| PassedFile {
            object: Object::File(handle),
            rights: rights::DIRECTORY,
            inheriting: rights::INHERITING,
            descriptor,
            preopen: Some(Preopen { name, is_path: handle == self.root }),
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
            net: None,
            folders: if has_root { Folders::WantedWithRoot } else { Folders::Wanted },
            files: &files,
        };
        encode(&plan).map_err(|why| match why {
            kernel_process::Errno::TOOBIG => Errno::Toobig,
            _ => Errno::Inval,
        })
    }
}

/// Waits until such a process ends. Returns how it ended. After a restart of the table, the kernels
/// report to it which processes still run; a process that none of them reports was lost with its
/// kernel.
pub fn end_of(session: &Session, pid: u32) -> (End, u32) {
    let mut deadline = None;
    loop {
        match with_table(session, &Patience::ENDLESS, |table| table.wait(0, pid as i32)) {
            Ok(Ended { end, status, .. }) => return (end, status),
            Err(_) => {
                let now = arch::time::soc_time();
                if now > *deadline.get_or_insert(now + REPORTING_NS) {
                    return (End::Lost, 0);
                }
                session.kernel.scheduler.sleep_until(now + REPORTING_NS / 20);
            }
        }
    }
}

/// Sends a signal to the group of process `pid`.
pub fn signal_group(session: &Session, pid: u32, signal: u16) {
    // Fails if the group has ended.
    let group = -(pid as i32);
    let _ = with_table(session, &Patience::ENDLESS, |table| table.kill(0, group, signal));
}
