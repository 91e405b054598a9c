//! Commands about file systems: list them, show their use of space, make them durable.

use abi::fs::{Op, Reply, Request, flag, reply_flag, source};
use alloc::string::String;
use core::fmt::Write;
use fs::client::Client;
use kernel_services::files::{mounts, settle_one, with_client};
use kernel_services::session::{Failure, Outcome, Session};

/// The number of the server of `/name`, in each kernel. Those of `/proc` are smaller, those of
/// folders larger.
pub const NAMES_SERVER: u64 = 16;

const _: () = assert!(NAMES_SERVER > abi::boot::MAX_DOMAINS as u64);

/// Prints size, free space and kind of each file system.
pub fn df(session: &Session, out: &mut dyn Write, root: u64) -> Outcome {
    for name in with_client(session, |client| mounts(client, root))? {
        let found = with_client(session, |client| {
            let directory = client.open(root, &name, flag::READ | flag::DIRECTORY)?;
            let found = client.space(directory).and_then(|s| Ok((s, client.about(directory)?)));
            client.close(directory).and(found)
        });
        let name = String::from_utf8_lossy(name.strip_prefix(b".").unwrap_or(&name));
        match found {
            Ok(((total, free), about)) => {
                let what = described(about);
                writeln!(out, "  /{name:<15} {} KiB, {} free, {what}", total >> 10, free >> 10)?;
            }
            Err(Failure::Failed(why)) => writeln!(out, "  /{name:<15} {why}")?,
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Prints all mounts, one line each: `WHAT WHERE KIND OPTIONS BYTES FREE`.
pub fn table(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let blob = session.kernel.blob;
    for (head, path) in with_client(session, |client| client.mounts())? {
        let served = head.source.checked_sub(source::SERVED).and_then(|it| it.checked_sub(1));
        let domain = served.and_then(|it| blob.domains().get(usize::try_from(it).ok()?));
        let disk = head.source.checked_sub(1).and_then(|it| usize::try_from(it).ok());
        let disk = disk.and_then(|it| blob.devices().get(it));
        let (what, kind) = match (head.source, disk, domain) {
            (source::MEMORY, ..) => ("ramfs", "ramfs"),
            (source::DEVICES, ..) => ("dev", "devfs"),
            (_, Some(disk), _) => (abi::boot::text(&disk.name), "ext2"),
            (_, _, Some(domain)) => (abi::boot::text(&domain.name), "procfs"),
            _ if served == Some(NAMES_SERVER - 1) => ("names", "namefs"),
            _ => ("?", "served"),
        };
        let how = match head.flags {
            flags if flags & reply_flag::UNCLEAN != 0 => "ro,unclean",
            flags if flags & reply_flag::NO_JOURNAL != 0 => "ro,nojournal",
            flags if flags & reply_flag::READ_ONLY != 0 => "ro",
            _ => "rw",
        };
        let path = String::from_utf8_lossy(&path);
        writeln!(out, "{what} /{path} {kind} {how} {} {}", head.total, head.free)?;
    }
    Ok(())
}

fn described(about: u16) -> &'static str {
    let has = |flag| about & flag != 0;
    match (has(reply_flag::DISK), has(reply_flag::READ_ONLY)) {
        (false, _) => "ramfs",
        (true, false) => "ext2",
        (true, true) if has(reply_flag::UNCLEAN) => {
            "ext2, read-only: it has errors, `e2fsck` comes first"
        }
        (true, true) if has(reply_flag::NO_JOURNAL) => {
            "ext2, read-only: it has no journal, `tune2fs -j` adds one"
        }
        (true, true) => "ext2, read-only",
    }
}

/// Makes a file durable.
pub fn sync(session: &Session, root: u64, path: &[u8]) -> Outcome {
    with_client(session, |client| {
        let file = client.open(root, path, flag::READ | flag::FOLLOW)?;
        let done = client.sync(file);
        client.close(file).and(done)
    })
}

/// Makes all file systems durable.
pub fn sync_all(session: &Session, out: &mut dyn Write, root: u64) -> Outcome {
    for name in with_client(session, |client| mounts(client, root))? {
        if !with_client(session, |client| settle_one(client, root, &name))? {
            let name = String::from_utf8_lossy(&name);
            writeln!(out, "  {name}: durable, but not clean while deleted files are open")?;
        }
    }
    Ok(())
}

/// Returns a function that makes requests with the directory at `path` as the root.
pub fn below<'a>(
    path: &'a str,
    ask: &'a mut dyn FnMut(Request, &mut [u8]) -> Reply,
) -> impl FnMut(Request, &mut [u8]) -> Reply + 'a {
    move |request, bulk| {
        if path == "." || request.op != Op::Root as u16 {
            return ask(request, bulk);
        }
        let mut client = Client(ask);
        let opened = client.at_root(|client, root| {
            client.open(root, path.as_bytes(), flag::READ | flag::DIRECTORY)
        });
        match opened {
            Ok(handle) => Reply { handle, ..Reply::default() },
            Err(why) => Reply::error(why),
        }
    }
}
