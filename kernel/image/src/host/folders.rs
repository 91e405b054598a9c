//! Folders of the host that a program sees (`pen exec --dir`): served file systems, whose jobs go to
//! the host, and whose answers come from there.
//!
//! ```text
//!   program --> fs --NextJob--> this thread, one a folder --pipe--> relay --Job--> host
//!                ^--JobDone-- feeder <-------------------------------------Said---/
//! ```
//! Contract: a folder is there as long as its program's streams, and belongs to nobody else: it has
//! no name in the file system. The host is asked about nothing behind that.

use super::exec::{Handles, file};
use super::{NONSENSE, Stream, Trouble};
use crate::monitor::Session;
use crate::monitor::files::with_files;
use crate::procfs::post::Post;
use crate::services::ServiceFailure;
use abi::fs::Errno;
use abi::host::{FOLDERS, FolderJob, FolderSaid, Kind};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use arch::lock::Lock;
use kernel_msg::Level;
use zerocopy::{FromBytes, IntoBytes};

/// Numbers of servers that are folders': kernels have those before.
const NUMBERS: core::ops::RangeInclusive<u64> = 32..=63;

/// What a folder's thread has to know: its place among the program's, and where jobs are written.
static CARRIED: Lock<BTreeMap<u64, (u32, u64)>> = Lock::new(crate::ranks::FEEDS, BTreeMap::new());

/// Folders of one program; with it they end.
pub(super) struct Folders<'a> {
    session: &'a Session,
    numbers: Vec<u64>,
    /// A handle of each.
    pub(super) roots: Vec<u64>,
}

impl Drop for Folders<'_> {
    fn drop(&mut self) {
        for &number in &self.numbers {
            // If the service began anew it is gone anyway.
            let _ = with_files(self.session, |client| client.unmount(number));
        }
    }
}

impl Stream {
    /// A program with folders: their names come first.
    pub(super) fn exec_with_folders(&self, bytes: &mut Vec<u8>) -> Result<(), Trouble> {
        let mut names = Vec::from([bytes.clone()]);
        loop {
            match self.receive(bytes)? {
                Kind::Folder if names.len() < FOLDERS => names.push(bytes.clone()),
                Kind::Exec => return self.exec(bytes, &names),
                _ => return Err(NONSENSE),
            }
        }
    }

    /// Makes them; and where jobs for the host can be read, if there are any.
    pub(super) fn folders<'a>(
        &'a self,
        names: &[Vec<u8>],
        handles: &mut Handles<'a>,
    ) -> Result<(Option<u64>, Folders<'a>), Trouble> {
        let session = &self.session;
        let mut folders = Folders { session, numbers: Vec::new(), roots: Vec::new() };
        if names.is_empty() {
            return Ok((None, folders));
        }
        let (jobs, write) = handles.pipe()?;
        for at in 0..names.len() as u32 {
            let (number, root) = mount(session)?;
            folders.numbers.push(number);
            folders.roots.push(handles.keep(root));
            let own = with_files(session, |client| client.dup(write)).map_err(file)?;
            let before = CARRIED.lock().insert(number, (at, own));
            drop(before);
            if self.kernel.spawn("folder", None, thread, number as usize).is_err() {
                let taken = CARRIED.lock().remove(&number);
                drop(taken);
                let _ = with_files(session, |client| client.close(own));
                return Err(file(Errno::Nomem));
            }
        }
        handles.close(write);
        Ok((Some(jobs), folders))
    }
}

/// One more served file system: its number, and a handle of its root.
fn mount(session: &Session) -> Result<(u64, u64), Trouble> {
    let made = with_files(session, |client| {
        let root = client.root()?;
        let mut made = Err(Errno::Nfile);
        for number in NUMBERS {
            match client.mount_held(root, number, fs::served::MEMORY) {
                Err(Errno::Busy) => {}
                Ok(held) => {
                    made = Ok((number, held));
                    break;
                }
                Err(why) => {
                    made = Err(why);
                    break;
                }
            }
        }
        client.close(root).and(made)
    });
    made.map_err(file)
}

/// Takes jobs until there is no such file system.
fn thread(number: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let number = number as u64;
    let taken = CARRIED.lock().remove(&number);
    let Some((folder, pipe)) = taken else { return };
    let session = Session::at(kernel, Level(0));
    let post = Post::new(session, number);
    loop {
        match post.next(0) {
            Ok(Ok(taken)) => {
                let bytes = size_of_val(&taken.job) + taken.bulk.len();
                let head = FolderJob {
                    bytes: (bytes as u32).into(),
                    folder: folder.into(),
                    number: taken.number.into(),
                };
                let record = [head.as_bytes(), taken.job.as_bytes(), &taken.bulk].concat();
                if with_files(&session, |client| client.write_all(pipe, &record)).is_err() {
                    break;
                }
            }
            Err(ServiceFailure::Home(_)) => {
                kernel.scheduler.sleep_until(arch::time::soc_time() + 100_000_000);
            }
            Ok(Err(_)) | Err(_) => break,
        }
    }
    let _ = with_files(&session, |client| client.close(pipe));
}

/// The host has done a job.
pub(super) fn said(session: &Session, bytes: &[u8]) {
    let Ok((head, data)) = FolderSaid::read_from_prefix(bytes) else { return };
    let code = u16::try_from(head.error.get()).ok().and_then(Errno::from_code);
    let said = match code.unwrap_or(Errno::Io) {
        Errno::Success => Ok((head.value.get(), data.to_vec())),
        why => Err(why),
    };
    // The number says whose it is.
    Post::new(*session, 0).tell(head.number.get(), said);
}
