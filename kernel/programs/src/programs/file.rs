//! The files with the images of programs.

use super::Preferences;
use super::seam::Buffer;
use abi::boot::isa;
use abi::fs::{Errno as FileError, Stat, flag, kind};
use abi::process::Errno;
use abi::program::{IMAGE_BYTES, ImageHead};
use alloc::vec;
use alloc::vec::Vec;
use fs::client::Client;
use kernel_seal::Refused;
use kernel_services::files::with_files;
use kernel_services::session::Session;

/// Most bytes of one read.
const PIECE: usize = 64 << 10;

/// Identifies the version of a file.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    device: u64,
    node: u64,
    pub size: u64,
    modified: u64,
    changed: u64,
}

impl Known {
    /// Fails if it cannot be an image.
    fn of(stat: &Stat) -> Result<Known, Errno> {
        let Stat { device, node, size, modified, changed, .. } = *stat;
        match stat.kind == kind::FILE && size <= IMAGE_BYTES {
            true => Ok(Known { device, node, size, modified, changed }),
            false => Err(Errno::Noexec),
        }
    }
}

/// Opens the image of a program for ISA `isa`. Returns its handle, which the caller closes.
pub fn open_image(
    session: &Session,
    isa: u32,
    directory: Option<u64>,
    path: &[u8],
) -> Result<u64, Errno> {
    let image = Named::new(isa, session, directory, path).open()?;
    let handle = image.handle;
    // The handle stays open.
    core::mem::forget(image);
    Ok(handle)
}

/// Returns what is wrong with the image of the program `path` for ISA `isa`, or `None` if there is
/// no image or it is valid. For the user, after a program failed to start; reads the whole image
/// again.
#[cold]
pub fn refusal(session: &Session, path: &[u8], isa: u32) -> Option<&'static str> {
    let mut bytes = match Named::new(isa, session, None, path).open() {
        Ok(file) => file.read().ok()?,
        // A directory, or larger than any image.
        Err(Errno::Noexec) => return Some(Refused::Size.text()),
        Err(_) => return None,
    };
    let key = &session.kernel.blob.given.program_key;
    kernel_seal::check(bytes.fill(), isa, key).err().map(Refused::text)
}

/// An image's open file; dropping this closes it.
pub struct Image<'a> {
    session: &'a Session,
    handle: u64,
    pub known: Known,
}

/// What an error of the file service means for the start of a program.
pub fn errno(why: FileError) -> Errno {
    match why {
        FileError::Noent | FileError::Notdir => Errno::Noent,
        FileError::Perm => Errno::Perm,
        FileError::Nomem => Errno::Nomem,
        FileError::Nfile => Errno::Nfile,
        FileError::Badf => Errno::Badf,
        FileError::Restarted => Errno::Restarted,
        _ => Errno::Io,
    }
}

/// An image by its path.
pub struct Named<'a> {
    session: &'a Session,
    /// Where the path starts; `None`: at the root.
    directory: Option<u64>,
    path: Vec<u8>,
}

impl<'a> Named<'a> {
    /// The image of the program `path` for ISA `isa`.
    pub fn new(isa: u32, session: &'a Session, directory: Option<u64>, path: &[u8]) -> Named<'a> {
        let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
        let relative = if directory.is_none() { &path[slashes..] } else { path };
        let path = [relative, b".", isa::name(isa).as_bytes()].concat();
        Named { session, directory, path }
    }

    /// Returns the version of the file, without opening it.
    pub fn look(&self) -> Result<Known, Errno> {
        let stat = self.ask(|client, from| client.stat_path(from, &self.path, flag::FOLLOW))?;
        Known::of(&stat)
    }

    /// Opens the file.
    pub fn open(&self) -> Result<Image<'a>, Errno> {
        let how = flag::READ | flag::FOLLOW;
        let (handle, stat) = self.ask(|client, from| client.open_known(from, &self.path, how))?;
        Image::of(self.session, handle, stat)
    }

    /// Asks the file service something about the path from a directory.
    fn ask<R>(
        &self,
        what: impl FnOnce(&mut Client<'_>, u64) -> Result<R, FileError>,
    ) -> Result<R, Errno> {
        let asked = with_files(self.session, |client| match self.directory {
            Some(directory) => what(client, directory),
            None => client.at_root(what),
        });
        asked.map_err(errno)
    }
}

impl<'a> Image<'a> {
    /// Returns the image in an open file, whose handle it takes, with the file's metadata if they
    /// are known.
    pub fn of(session: &'a Session, handle: u64, stat: Option<Stat>) -> Result<Image<'a>, Errno> {
        let mut image = Image { session, handle, known: Known::default() };
        let stat = match stat {
            Some(stat) => stat,
            None => with_files(session, |client| client.stat(handle)).map_err(errno)?,
        };
        image.known = Known::of(&stat)?;
        Ok(image)
    }

    /// Reads what it says of the kernel that is to run it.
    pub fn preferences(&self) -> Result<Preferences, Errno> {
        let mut head = [0; size_of::<ImageHead>()];
        let read = |at: usize, to: &mut [u8]| {
            with_files(self.session, |client| client.read_at(self.handle, at as u64, to))
                .map_err(errno)
        };
        let count = read(0, &mut head)?;
        let found =
            head.get(..count).and_then(kernel_seal::Preferences::of).ok_or(Errno::Noexec)?;
        let mut endpoints = vec![0; found.endpoints.len()];
        if !endpoints.is_empty() && read(found.endpoints.start, &mut endpoints)? < endpoints.len() {
            return Err(Errno::Noexec);
        }
        Ok(Preferences::of_head(&found, &endpoints))
    }

    /// Reads all of it.
    pub fn read(&self) -> Result<Buffer, Errno> {
        let size = self.known.size as usize;
        let mut buffer = Buffer::new(size).ok_or(Errno::Nomem)?;
        let bytes = buffer.fill();
        let mut done = 0;
        while done < size {
            let end = size.min(done + PIECE);
            let piece = &mut bytes[done..end];
            let read =
                with_files(self.session, |client| client.read_at(self.handle, done as u64, piece));
            match read.map_err(errno)? {
                // The file has become shorter meanwhile.
                0 => return Err(Errno::Noexec),
                count => done += count,
            }
        }
        Ok(buffer)
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        // Fails only if the service has restarted; then there is no such handle.
        let _ = with_files(self.session, |client| client.close(self.handle));
    }
}
