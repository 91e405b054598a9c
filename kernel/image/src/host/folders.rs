//! Folders of the host for programs (`pen exec --dir`): served file systems, whose jobs are sent to
//! the host, over one stream for each folder.
//!
//! ```text
//!   program --> fs --NextJob--> carrier --Job--> host
//!                ^---JobDone-- the stream's thread <--JobReply-- host
//! ```
//! Contract: a folder exists as long as its stream. It has no name in the file system, so a program
//! can reach it only through a handle that it was given. When the stream ends, the file system is
//! unmounted, and callers that wait for the host get an error. A folder's number can be used again
//! after its carrier has ended.

use super::images::Images;
use super::{NONSENSE, Stream, Trouble, file};
use abi::fs::{Errno, PATH, flag};
use abi::host::{FOLDERS, FolderJob, FolderReply, Kind};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use arch::lock::Lock;
use core::ops::RangeInclusive;
use kernel_monitor::procfs::post::{Post, Taken};
use kernel_msg::Level;
use kernel_services::files::with_files;
use kernel_services::services::ServiceFailure;
use kernel_services::session::{Failure, Session};
use zerocopy::{FromBytes, IntoBytes};

/// Numbers of servers for folders. Those of kernels (`procfs`) are smaller.
const NUMBERS: RangeInclusive<u64> = 32..=63;
/// Backoff while the service does not answer, in ns.
const PAUSE: u64 = 100_000_000;
/// Error of a program that names a folder whose stream has ended.
const OVER: Trouble = Trouble::Failed(Failure::Failed("a folder is no longer served by the host"));

struct Folder {
    /// The number of its stream.
    stream: u64,
    /// Its path in the program.
    name: Vec<u8>,
    /// A handle of its root, while it is mounted.
    root: Option<u64>,
}

/// All folders, by their numbers.
static ALL: Lock<BTreeMap<u64, Folder>> = Lock::new(kernel_node::ranks::FEEDS, BTreeMap::new());

/// A handle of a folder's root, for one program.
pub(super) struct Held {
    pub(super) handle: u64,
    pub(super) name: Vec<u8>,
}

impl Stream {
    /// Serves a request to run a program. The numbers of its folders, and its images, precede the
    /// [`Kind::Exec`].
    pub(super) fn program(&self, kind: Kind, bytes: &mut Vec<u8>) -> Result<(), Trouble> {
        let (mut held, mut images) = (Vec::new(), Images::new(self));
        let collected = self.collect(kind, bytes, &mut held, &mut images);
        let done = collected.and_then(|()| self.exec(bytes, &held, &mut images));
        // Those that a program got are closed already; closing again does no harm.
        for folder in held {
            let _ = with_files(&self.session, |client| client.close(folder.handle));
        }
        done
    }

    fn collect(
        &self,
        mut kind: Kind,
        bytes: &mut Vec<u8>,
        held: &mut Vec<Held>,
        images: &mut Images<'_>,
    ) -> Result<(), Trouble> {
        loop {
            match kind {
                Kind::UseFolder if held.len() < FOLDERS => {
                    let number = <[u8; 4]>::try_from(&bytes[..]).map_err(|_| NONSENSE)?;
                    held.push(self.held(u32::from_le_bytes(number).into())?);
                }
                Kind::Image => images.receive(bytes)?,
                Kind::Exec => return self.rest(bytes),
                _ => return Err(NONSENSE),
            }
            kind = self.receive(bytes)?;
        }
    }

    /// Opens a handle of the folder `number`.
    fn held(&self, number: u64) -> Result<Held, Trouble> {
        let found = ALL.lock().get(&number).and_then(|it| Some((it.root?, it.name.clone())));
        let (root, name) = found.ok_or(OVER)?;
        let handle = with_files(&self.session, |client| client.dup(root)).map_err(file)?;
        Ok(Held { handle, name })
    }

    /// Serves a folder until the host ends the stream.
    pub(super) fn folder(&self, name: &[u8]) -> Result<(), Trouble> {
        let is_name = name.first() == Some(&b'/') && name.len() <= PATH && !name.contains(&0);
        if !is_name || core::str::from_utf8(name).is_err() {
            return Err(NONSENSE);
        }
        let number = self.reserve(name)?;
        let begun = self.mount(number, name).and_then(|()| {
            let carrier = self.kernel.spawn("folder", None, carrier, number as usize);
            carrier.map_err(|_| file(Errno::Nomem))
        });
        if let Err(why) = begun {
            self.end(number);
            let taken = ALL.lock().remove(&number);
            drop(taken);
            return Err(why);
        }
        let told = self.send(Kind::Done, &(number as u32).to_le_bytes());
        // From here on, only the carrier sends.
        let mut bytes = Vec::new();
        while told.is_ok() && matches!(self.receive(&mut bytes), Ok(Kind::JobReply)) {
            handle_reply(&self.session, number, &bytes);
        }
        self.end(number);
        Err(Trouble::Gone)
    }

    /// Reserves an unused number for a folder.
    fn reserve(&self, name: &[u8]) -> Result<u64, Trouble> {
        let folder = Folder { stream: self.number, name: name.to_vec(), root: None };
        let mut all = ALL.lock();
        let number = NUMBERS.into_iter().find(|number| !all.contains_key(number));
        let number = number.ok_or(file(Errno::Nfile))?;
        all.insert(number, folder);
        Ok(number)
    }

    fn mount(&self, number: u64, name: &[u8]) -> Result<(), Trouble> {
        let root = with_files(&self.session, |client| client.mount_held(number, name));
        let root = root.map_err(file)?;
        if let Some(folder) = ALL.lock().get_mut(&number) {
            folder.root = Some(root);
        }
        Ok(())
    }

    /// Unmounts the folder: no program gets it any more, and programs that have it get errors.
    fn end(&self, number: u64) {
        let ours = |folder: &mut Folder| {
            if folder.stream == self.number { folder.root.take() } else { None }
        };
        // Without a root it is not mounted.
        let Some(root) = ALL.lock().get_mut(&number).and_then(ours) else { return };
        let gone = |done| matches!(done, Ok(()) | Err(Errno::Noent | Errno::Restarted));
        // Repeated until it succeeds: otherwise the carrier and callers would wait forever.
        while !gone(with_files(&self.session, |client| client.unmount(number))) {
            self.kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE);
        }
        let _ = with_files(&self.session, |client| client.close(root));
    }
}

/// Thread: takes a folder's jobs and sends them to the host, until the file system is unmounted.
fn carrier(number: usize) {
    let (Some(kernel), number) = (kernel_services::kernel::get(), number as u64) else { return };
    let Some(stream) = ALL.lock().get(&number).map(|folder| folder.stream) else { return };
    let session = Session::at(kernel, Level(0));
    let (stream, post) = (Stream { kernel, number: stream, session }, Post::new(session, number));
    let mut how = 0;
    loop {
        match post.next(core::mem::take(&mut how)) {
            Ok(Ok(taken)) => stream.carry(&post, &taken),
            Ok(Err(Errno::Noent)) => break,
            Err(ServiceFailure::Restarted) => {}
            // A job that was taken may have been lost on its way here.
            Ok(Err(_)) | Err(_) => {
                how = flag::RESTARTED;
                kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE);
            }
        }
    }
    let taken = ALL.lock().remove(&number);
    drop(taken);
}

impl Stream {
    fn carry(&self, post: &Post, taken: &Taken) {
        let head = FolderJob { number: taken.number.into() };
        let record = [head.as_bytes(), taken.job.as_bytes(), &taken.bulk].concat();
        if self.send(Kind::Job, &record).is_err() {
            post.tell(taken.number, Err(Errno::Io));
        }
    }
}

/// Handles the host's reply to a job of folder `server`. Replies to jobs of other folders are
/// ignored.
fn handle_reply(session: &Session, server: u64, bytes: &[u8]) {
    let Ok((head, data)) = FolderReply::read_from_prefix(bytes) else { return };
    if head.number.get() >> 56 != server {
        return;
    }
    let code = u16::try_from(head.error.get()).ok().and_then(Errno::from_code);
    let said = match code.unwrap_or(Errno::Io) {
        Errno::Success => Ok((head.value.get(), data.to_vec())),
        why => Err(why),
    };
    // The service finds the job by its number; the server's number is not used here.
    Post::new(*session, 0).tell(head.number.get(), said);
}
