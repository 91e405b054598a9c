//! The file service, as threads of this kernel ask it.

use crate::services::Patience;
use crate::session::{Failure, Session};
use abi::fs::{Errno, Reply, flag, kind};
use alloc::vec::Vec;
use fs::client::Client;

/// Runs `work` with a client of the file service; a failure of the service itself says so.
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

/// The same where a failure of the service is an error like any other.
pub fn with_files<R>(
    session: &Session,
    work: impl FnOnce(&mut Client<'_>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let (lost, fs) = (Reply::error(Errno::Io), &session.kernel.services.fs);
    fs.asking(session, lost, |ask| work(&mut Client(ask))).0
}

/// For people.
pub fn explain(why: Errno) -> &'static str {
    match why {
        Errno::Noent => "no such file or directory",
        Errno::Exist => "that name is taken",
        Errno::Notdir => "not a directory",
        Errno::Isdir => "a directory",
        Errno::Notempty => "the directory is not empty",
        Errno::Nospc => "no space left",
        Errno::Nametoolong => "the name is too long",
        Errno::Inval => "that makes no sense",
        Errno::Loop => "too many symbolic links",
        Errno::Again => "others are at it all the time; try again",
        Errno::Restarted => "the service was restarted meanwhile",
        Errno::Perm => "that is not allowed",
        Errno::Io => "the device failed, or what it holds makes no sense",
        Errno::Rofs => "it is read-only",
        _ => "refused",
    }
}

/// What has a file system of its own: the root, and directories in it that are another device.
pub fn mounts(client: &mut Client<'_>, root: u64) -> Result<Vec<Vec<u8>>, Errno> {
    let top = client.stat(root)?.device;
    let mut found = Vec::from([b".".to_vec()]);
    for entry in client.list(root, 2048)? {
        let dots = entry.name == b"." || entry.name == b"..";
        if entry.kind != kind::DIRECTORY || dots {
            continue;
        }
        // One whose disk has no file system after all answers nothing.
        let device = client.stat_path(root, &entry.name, 0).map_or(0, |stat| stat.device);
        if device != top {
            found.push(entry.name);
        }
    }
    Ok(found)
}

/// Makes one of [`mounts`] durable; false: it is not clean, for files without names are open.
pub fn settle_one(client: &mut Client<'_>, root: u64, name: &[u8]) -> Result<bool, Errno> {
    let directory = client.open(root, name, flag::READ | flag::DIRECTORY)?;
    let done = client.settle(directory);
    client.close(directory).and(done)
}

/// How long all of it may take beside programs that write on.
const SETTLING: u64 = 5_000_000_000;

/// The same before the chip goes off. `Again`: programs write on and on, and not all that they have
/// written by now is durable.
pub fn settle(session: &Session) -> Result<(), Errno> {
    let patience = Patience::ENDLESS.until(arch::time::soc_time() + SETTLING);
    let fs = &session.kernel.services.fs;
    let mut ask = |request, bulk: &mut [u8]| {
        let reply = fs.ask_patiently(session, request, bulk, &patience);
        reply.unwrap_or(Some(Reply::error(Errno::Io))).unwrap_or(Reply::error(Errno::Again))
    };
    Client(&mut ask).at_root(|client, root| {
        let names = mounts(client, root)?;
        names.iter().try_for_each(|name| settle_one(client, root, name).map(|_| ()))
    })
}
