//! `/name`: the names of channels as files. A thread of each kernel serves them; the file service
//! prefers the one of the kernel that executes the request, so no other one is woken.
//!
//! ```text
//!   /name/kernel/KERNEL            a kernel that runs
//!   /name/service/SERVICE/KERNEL   a service, and a kernel that executes its requests
//!   /name/mail/virus               the name `mail/virus`, which a program serves
//! ```
//! Contract: each request sees the table as it is then: its answer is from one edition. Nothing
//! waits for changes, so an idle kernel stays idle. All files are read-only. One whose name was
//! removed does not exist any more, also for those that have it open.
//!
//! - [`tree`]: files and directories
//! - [`text`]: what a file says

mod text;
mod tree;

use crate::commands::NAMES_SERVER;
use crate::procfs::allow_existing;
use crate::procfs::post::{Post, Said, entries};
use abi::fs::{Errno, Stat, flag, kind, source};
use abi::names::{self, Listed, Name};
use abi::served::{DATA, Job, Task};
use alloc::string::String;
use alloc::vec::Vec;
use kernel_msg::Level;
use kernel_programs::processes::with_table;
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use kernel_services::names::with_names;
use kernel_services::services::{self, Patience};
use kernel_services::session::Session;
use tree::{Node, Place, Tree};
use zerocopy::IntoBytes;

/// In the root.
const PATH: &[u8] = b"name";

/// Starts the thread.
pub fn start(kernel: &'static Kernel) {
    if kernel.spawn("name", None, thread, 0).is_err() {
        kernel_node::log!("no memory for a thread that serves /name");
    }
}

fn thread(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let mut files = Files { session, edition: 0, tree: Tree::default() };
    let post = Post::new(session, NAMES_SERVER);
    post.serve(&mut |job, name, _| files.answer(job, name), &|| mount(&session));
}

fn mount(session: &Session) -> Result<(), Errno> {
    let from = source::SERVED + NAMES_SERVER;
    with_files(session, |client| {
        client.at_root(|client, root| {
            let mounted = client.mount(root, PATH, from, fs::served::MEMORY, flag::SHOWN);
            allow_existing(mounted)
        })
    })
}

/// Serves the files.
struct Files {
    session: Session,
    /// The edition of the table that the tree is of; 0: none.
    edition: u64,
    tree: Tree,
}

impl Files {
    fn answer(&mut self, job: &Job, name: &[u8]) -> Said {
        let task = Task::from_code(job.task).ok_or(Errno::Nosys)?;
        self.refresh().map_err(|_| Errno::Io)?;
        let place = self.tree.place(job.node).ok_or(Errno::Noent)?;
        match (task, place.name()) {
            (Task::Lookup, None) => {
                let node = self.tree.lookup(job.node, name).ok_or(Errno::Noent)?;
                Ok((0, stat(&Place::Node(node), node.number)))
            }
            (Task::List, None) => {
                let all = self.tree.list(job.node);
                Ok(entries(job, all.map(|(name, node)| (name, node.number, kind_of(node)))))
            }
            (Task::Lookup | Task::List, Some(_)) => Err(Errno::Notdir),
            (Task::Parent, _) => Ok((place.parent(), Vec::new())),
            (Task::Stat, _) => Ok((0, stat(&place, job.node))),
            (Task::Read, Some(listed)) => Ok((0, self.read(job, listed))),
            (Task::Read | Task::Write | Task::SetSize, None) => Err(Errno::Isdir),
            (Task::ReadLink, _) => Err(Errno::Inval),
            (Task::Sync, _) => Ok((0, Vec::new())),
            (Task::Space, _) => Ok((0, Vec::from([0; 8]))),
            (Task::SetTimes | Task::Allocate, _) => Err(Errno::Notsup),
            _ => Err(Errno::Perm),
        }
    }

    /// Makes the tree of the table's present edition.
    fn refresh(&mut self) -> Result<(), names::Errno> {
        with_names(&self.session, &Patience::ENDLESS, |names| {
            if names.list_some(Name::EMPTY, 1)?.1 != self.edition {
                let (all, edition) = names.list_at_once()?;
                (self.tree, self.edition) = (Tree::new(&all), edition);
            }
            Ok(())
        })
    }

    /// Returns a part of a file's text. A text is short: a usual read returns all of it.
    fn read(&self, job: &Job, listed: &Listed) -> Vec<u8> {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = text::write(&mut text, listed, &self.session);
        let from = usize::try_from(job.offset).unwrap_or(usize::MAX);
        let rest = text.as_bytes().get(from..).unwrap_or_default();
        let length = usize::try_from(job.length).unwrap_or(DATA).min(DATA);
        rest.iter().copied().take(length).collect()
    }
}

impl text::Facts for Session {
    fn kernel(&self, number: u16) -> &str {
        self.kernel.name_of(number.into())
    }

    fn isa(&self, kernel: u16) -> &str {
        let domain = self.kernel.blob.domains().get(usize::from(kernel));
        domain.map_or("?", |domain| abi::boot::isa::name(domain.isa))
    }

    fn program(&self, pid: u32) -> Option<String> {
        let about = with_table(self, &Patience::ENDLESS, |table| table.about(pid)).ok()?;
        Some(String::from(abi::boot::text(&about.name)))
    }

    fn mode(&self, service: &str) -> &str {
        services::mode(self.kernel.blob, service).name()
    }

    fn about(&self, service: &str) -> &str {
        let kind = abi::service::ALL.into_iter().find(|kind| kind.name == service);
        kind.map_or("?", |kind| kind.about)
    }
}

fn kind_of(node: &Node) -> u8 {
    if node.name.is_some() { kind::FILE } else { kind::DIRECTORY }
}

fn stat(place: &Place<'_>, node: u64) -> Vec<u8> {
    let (kind, links) = if place.name().is_some() { (kind::FILE, 1) } else { (kind::DIRECTORY, 2) };
    Stat { node, kind, links, ..Stat::default() }.as_bytes().to_vec()
}
