//! A client of the file service for threads of this kernel.

use crate::services::Patience;
use crate::session::{Failure, Session};
use abi::fs::{Errno, Reply, flag, kind};
use alloc::vec::Vec;
use fs::client::Client;

/// Runs `work` with a client of the file service. The error is a text for the user: why the service
/// failed, or else what its error means.
pub fn with_client<R>(
    session: &Session,
    work: impl FnOnce(&mut Client<'_>) -> Result<R, Errno>,
) -> Result<R, Failure> {
    let (lost, fs) = (Reply::error(Errno::Io), &session.kernel.services.fs);
    match fs.asking(session, lost, |ask| work(&mut Client(ask))) {
        (Ok(result), None) => Ok(result),
        (_, Some(why)) => Err(Failure::Failed(why.text())),
        (Err(why), None) => Err(Failure::Failed(explain(why))),
    }
}

/// Runs `work` with a client of the file service. If the service itself fails, that is
/// [`Errno::Io`].
pub fn with_files<R>(
    session: &Session,
    work: impl FnOnce(&mut Client<'_>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let (lost, fs) = (Reply::error(Errno::Io), &session.kernel.services.fs);
    fs.asking(session, lost, |ask| work(&mut Client(ask))).0
}

/// Returns a text for the user.
pub fn explain(why: Errno) -> &'static str {
    match why {
        Errno::Noent => "no such file or directory",
        Errno::Exist => "that name exists already",
        Errno::Notdir => "not a directory",
        Errno::Isdir => "is a directory",
        Errno::Notempty => "the directory is not empty",
        Errno::Nospc => "no space left",
        Errno::Nametoolong => "the name is too long",
        Errno::Inval => "invalid argument",
        Errno::Loop => "too many symbolic links",
        Errno::Again => "busy; try again",
        Errno::Restarted => "the service was restarted meanwhile",
        Errno::Perm => "not allowed",
        Errno::Io => "the device failed, or its contents are invalid",
        Errno::Rofs => "read-only",
        _ => "refused",
    }
}

/// Returns the names of all mounts: `.`, and directories in the root with another device number.
pub fn mounts(client: &mut Client<'_>, root: u64) -> Result<Vec<Vec<u8>>, Errno> {
    let top = client.stat(root)?.device;
    let mut found = Vec::from([b".".to_vec()]);
    for entry in client.list(root, 2048)? {
        let dots = entry.name == b"." || entry.name == b"..";
        if entry.kind != kind::DIRECTORY || dots {
            continue;
        }
        // `stat` fails for a mount that does not answer; it is included.
        let device = client.stat_path(root, &entry.name, 0).map_or(0, |stat| stat.device);
        if device != top {
            found.push(entry.name);
        }
    }
    Ok(found)
}

/// Makes one of [`mounts`] durable. Returns false if it cannot be marked clean, because files
/// without names are open.
pub fn settle_one(client: &mut Client<'_>, root: u64, name: &[u8]) -> Result<bool, Errno> {
    let directory = client.open(root, name, flag::READ | flag::DIRECTORY)?;
    let done = client.settle(directory);
    client.close(directory).and(done)
}

/// Limit on the time of [`settle`], in ns.
const SETTLING: u64 = 5_000_000_000;

/// Makes all mounts durable, before the chip powers off. `Again` means that the time was not
/// sufficient, because programs keep writing.
pub fn settle(session: &Session) -> Result<(), Errno> {
    let patience = Patience::ENDLESS.until(arch::time::soc_time() + SETTLING);
    let fs = &session.kernel.services.fs;
    let mut ask = |request, bulk: &mut [u8]| {
        let reply = fs.request_until(session, &request, bulk, &patience);
        reply.unwrap_or(Some(Reply::error(Errno::Io))).unwrap_or(Reply::error(Errno::Again))
    };
    Client(&mut ask).at_root(|client, root| {
        let names = mounts(client, root)?;
        names.iter().try_for_each(|name| settle_one(client, root, name).map(|_| ()))
    })
}
