//! `/proc` and `/dev`: a thread mounts them, and serves this kernel's directory in `/proc`.
//!
//! ```text
//!   /dev               devices without hardware, such as /dev/null (fs::devfs)
//!   /proc              a small ramfs
//!   /proc/NAME/FILE    served by the thread of kernel NAME (`files`)
//!   /proc/FILE         links into the directory of the board's first kernel
//!   /proc/NUMBER       a link to the directory of the kernel with this number
//! ```
//! Contract: the kernels may start in any order, and any of them may execute the file service, so a
//! kernel leaves alone what exists already. After a restart of the service, everything is mounted
//! again. A file's text is made when its first byte is read. Later bytes come from the same text,
//! unless [`TEXTS`] other files were read meanwhile.
//!
//! - [`files`]: the files and their texts
//! - [`post`]: takes and answers jobs of a served file system

mod files;
pub mod post;

use abi::fs::{Errno, Stat, flag, kind, source};
use abi::served::{DATA, Job, ROOT, Task};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use blake3::Hasher;
use files::{COMMON, FILES, File};
use fs::client::Client;
use kernel_msg::Level;
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;
use post::{Post, Said, entries};
use zerocopy::IntoBytes;

/// Bytes of the ramfs at `/proc`.
const BUDGET: u64 = 64 * 1024;
/// Number of texts that are kept.
const TEXTS: usize = 8;
/// The directories, from the root.
const DEV: &[u8] = b"dev";
const PROC: &str = "proc";

/// Starts the thread.
pub fn start(kernel: &'static Kernel) {
    if kernel.spawn("proc", None, thread, 0).is_err() {
        kernel_node::log!("no memory for a thread that serves /proc");
    }
}

fn thread(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let post = Post::new(session, u64::from(kernel.me.0) + 1);
    let mut files = Files { session, texts: VecDeque::new() };
    post.serve(&mut |job, name, data| files.answer(job, name, data), &|| establish(&session));
}

/// Mounts everything that is not mounted yet.
fn establish(session: &Session) -> Result<(), Errno> {
    let kernel = session.kernel;
    let seed = seed(kernel);
    with_files(session, |client| {
        client.at_root(|client, root| mount_all(client, root, kernel, &seed))
    })
}

/// Treats "it exists already" as success.
pub fn allow_existing(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::Exist | Errno::Busy) => Ok(()),
        other => other,
    }
}

fn mount_all(
    client: &mut Client<'_>,
    root: u64,
    kernel: &Kernel,
    seed: &[u8],
) -> Result<(), Errno> {
    allow_existing(client.mount_devices(root, DEV, seed))?;
    allow_existing(client.mount(root, PROC.as_bytes(), source::MEMORY, BUDGET, flag::SHOWN))?;
    let own = format!("{PROC}/{}", kernel.name());
    allow_existing(client.mkdir(root, own.as_bytes()))?;
    let number = source::SERVED + u64::from(kernel.me.0) + 1;
    allow_existing(client.mount(root, own.as_bytes(), number, fs::served::MEMORY, 0))?;
    let link = format!("{PROC}/{}", kernel.me.0);
    allow_existing(client.symlink(root, kernel.name().as_bytes(), link.as_bytes()))?;
    for name in COMMON {
        let (text, path) = (format!("{}/{name}", kernel.name()), format!("{PROC}/{name}"));
        if kernel.me.0 == 0 {
            // Another kernel may have made this link, to its own directory.
            let _ = client.unlink(root, path.as_bytes());
        }
        allow_existing(client.symlink(root, text.as_bytes(), path.as_bytes()))?;
    }
    Ok(())
}

/// Returns a seed for the random numbers of `/dev`. It differs for each epoch and each call.
fn seed(kernel: &Kernel) -> [u8; 32] {
    let mut hasher = Hasher::new_keyed(&kernel.blob.given.seed);
    hasher.update(b"/dev/random").update(&[kernel.me.0]).update(&kernel.epoch.0.to_le_bytes());
    hasher.update(&arch::time::soc_time().to_le_bytes());
    *hasher.finalize().as_bytes()
}

/// Serves this kernel's directory.
struct Files {
    session: Session,
    texts: VecDeque<(u64, Vec<u8>)>,
}

impl Files {
    fn answer(&mut self, job: &Job, name: &[u8], data: &[u8]) -> Said {
        let file = file(job.node);
        match (Task::from_code(job.task).ok_or(Errno::Nosys)?, file) {
            (Task::Lookup, None) => {
                let mut all = (ROOT + 1..).zip(FILES);
                let (node, file) =
                    all.find(|(_, file)| file.name.as_bytes() == name).ok_or(Errno::Noent)?;
                Ok((0, stat(node, Some(file)).as_bytes().to_vec()))
            }
            (Task::Lookup | Task::List | Task::Parent, Some(_)) => Err(Errno::Notdir),
            (Task::Stat, _) => Ok((0, stat(job.node, file).as_bytes().to_vec())),
            (Task::Parent, None) => Ok((ROOT, Vec::new())),
            (Task::List, None) => {
                let all = (ROOT + 1..).zip(FILES).map(|(node, file)| (file.name, node));
                Ok(entries(job, all.map(|(name, node)| (name.as_bytes(), node, kind::FILE))))
            }
            (Task::Read | Task::Write | Task::SetSize, None) => Err(Errno::Isdir),
            (Task::Read, Some(file)) => self.read(job, file),
            (Task::Write, Some(file)) => self.write(file, data),
            // A writer truncates the file first; there is nothing to do.
            (Task::SetSize, Some(file)) => file.write.map(|_| (0, Vec::new())).ok_or(Errno::Perm),
            (Task::ReadLink, _) => Err(Errno::Inval),
            (Task::Sync, _) => Ok((0, Vec::new())),
            (Task::Space, _) => Ok((0, Vec::from([0; 8]))),
            (Task::SetTimes | Task::Allocate, _) => Err(Errno::Notsup),
            _ => Err(Errno::Perm),
        }
    }

    fn read(&mut self, job: &Job, file: &File) -> Said {
        if job.offset == 0 || !self.texts.iter().any(|(node, _)| *node == job.node) {
            self.texts.retain(|(node, _)| *node != job.node);
            if self.texts.len() >= TEXTS {
                self.texts.pop_front();
            }
            self.texts.push_back((job.node, self.text(file).into_bytes()));
        }
        let text = self.texts.iter().find(|(node, _)| *node == job.node).ok_or(Errno::Io)?;
        let from = usize::try_from(job.offset).unwrap_or(usize::MAX);
        let rest = text.1.get(from..).unwrap_or_default();
        let length = rest.len().min(DATA).min(usize::try_from(job.length).unwrap_or(DATA));
        Ok((0, rest.get(..length).unwrap_or_default().to_vec()))
    }

    fn text(&self, file: &File) -> String {
        let mut text = files::Page::default();
        // A text that is too long is cut off.
        let _ = (file.text)(&self.session, &mut text);
        text.0
    }

    fn write(&mut self, file: &File, data: &[u8]) -> Said {
        let write = file.write.ok_or(Errno::Perm)?;
        let word = core::str::from_utf8(data).map_err(|_| Errno::Inval)?;
        write(&self.session, word.trim())?;
        Ok((data.len() as u64, Vec::new()))
    }
}

/// Returns the file of a node number. `None` is the root, or no file.
fn file(node: u64) -> Option<&'static File> {
    FILES.get(usize::try_from(node.checked_sub(ROOT + 1)?).ok()?)
}

fn stat(node: u64, file: Option<&File>) -> Stat {
    let (kind, links) = if file.is_some() { (kind::FILE, 1) } else { (kind::DIRECTORY, 2) };
    Stat { node, kind, links, ..Stat::default() }
}
