//! Texts for the host about a file system without space: which one it is, and how full it is.

use abi::fs::source;
use alloc::format;
use alloc::string::String;
use kernel_services::files::with_files;
use kernel_services::session::Session;

/// A file system with less free space than this, in bytes, counts as full.
const LITTLE: u64 = 64 << 10;

/// A mounted file system.
struct Mount {
    what: String,
    path: String,
    total: u64,
    free: u64,
}

impl Mount {
    fn text(&self) -> String {
        let Mount { what, path, total, free } = self;
        let used = total.saturating_sub(*free);
        format!(
            "{what} at {path} is full: {} of {} used, and {} free do not suffice",
            shown(used),
            shown(*total),
            shown(*free)
        )
    }
}

fn shown(bytes: u64) -> String {
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// Returns why there is no space left for `path`, which starts at the root.
pub(super) fn explain(session: &Session, path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    match mount_of(session, &path) {
        Some(mount) => mount.text(),
        None => String::from("no space left"),
    }
}

/// If the root file system is full, returns a text that says so.
pub(super) fn root(session: &Session) -> Option<String> {
    mount_of(session, "").filter(|mount| mount.free < LITTLE).map(|mount| mount.text())
}

/// Returns the file system that contains `path`.
fn mount_of(session: &Session, path: &str) -> Option<Mount> {
    let mounts = with_files(session, |client| client.mounts()).ok()?;
    let mut best: Option<(usize, Mount)> = None;
    for (head, name) in mounts {
        let name = String::from_utf8_lossy(&name);
        let rest = path.strip_prefix(&*name);
        let is_in = name.is_empty() || rest.is_some_and(|r| r.is_empty() || r.starts_with('/'));
        if !is_in || best.as_ref().is_some_and(|(length, _)| *length > name.len()) {
            continue;
        }
        let disk = head.source.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let disk = disk.and_then(|at| session.kernel.blob.devices().get(at));
        let what = match (head.source, disk) {
            (source::MEMORY, _) => String::from("the file system in memory"),
            (_, Some(disk)) => format!("the disk \"{}\"", abi::boot::text(&disk.name)),
            _ => String::from("the file system"),
        };
        let mount = Mount { what, path: format!("/{name}"), total: head.total, free: head.free };
        best = Some((name.len(), mount));
    }
    best.map(|(_, mount)| mount)
}
