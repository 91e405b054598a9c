//! Images of a program that is no file of the board: `pen exec FILE` sends them before it asks for
//! the program.
//!
//! Contract: an image is a file in [`FOLDER`] from when it comes until its program runs, or does
//! not begin, or the host goes away. What a kernel that died has left there goes when the next one
//! begins to serve the host.

use super::{NONSENSE, Stream, Trouble};
use crate::files::with_files;
use crate::session::Session;
use abi::boot::isa;
use abi::fs::flag;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Where they are, from the root.
const FOLDER: &str = "tmp";
/// What their names begin with.
const NAME: &str = "~exec";
/// Bytes of a directory that are read at a time.
const LISTED: usize = 2048;

/// The images that came over a stream; their files are removed when this is dropped.
pub(super) struct Images<'a> {
    stream: &'a Stream,
    isas: Vec<&'static str>,
}

impl<'a> Images<'a> {
    pub(super) fn new(stream: &'a Stream) -> Images<'a> {
        Images { stream, isas: Vec::new() }
    }

    /// The path of the program, as somebody is asked to run it; `None`: no image came.
    pub(super) fn program(&self) -> Option<String> {
        (!self.isas.is_empty()).then(|| format!("/{FOLDER}/{NAME}{}", self.stream.id.number()))
    }

    fn path(&self, isa: &str) -> Vec<u8> {
        format!("{FOLDER}/{NAME}{}.{isa}", self.stream.id.number()).into_bytes()
    }

    /// Receives the image for the ISA `name`.
    pub(super) fn receive(&mut self, name: &[u8]) -> Result<(), Trouble> {
        let domains = self.stream.kernel.blob.domains();
        let mut isas = domains.iter().map(|domain| isa::name(domain.isa));
        let isa = isas.find(|isa| isa.as_bytes() == name).ok_or(NONSENSE)?;
        if self.isas.contains(&isa) {
            return Err(NONSENSE);
        }
        let path = self.path(isa);
        let root = self.stream.files(&path, |client| client.root())?;
        // The folder is there already, where there is a system.
        let _ = with_files(&self.stream.session, |client| client.mkdir(root, FOLDER.as_bytes()));
        // Whoever made something of this name: the host's image does not go into it.
        let _ = with_files(&self.stream.session, |client| client.unlink(root, &path));
        self.isas.push(isa);
        let done = self.stream.fill(root, &path);
        let _ = with_files(&self.stream.session, |client| client.close(root));
        done
    }

    /// Removes the files: kernels have read them.
    pub(super) fn remove(&mut self) {
        for isa in core::mem::take(&mut self.isas) {
            let path = self.path(isa);
            // What failed may not be there.
            let _ = with_files(&self.stream.session, |client| {
                client.at_root(|client, root| client.unlink(root, &path))
            });
        }
    }
}

impl Drop for Images<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes what an earlier life of this kernel has left.
pub(super) fn clean(session: &Session) {
    // Without the folder there is nothing to remove.
    let _ = with_files(session, |client| {
        client.at_root(|client, root| {
            let folder = client.open(root, FOLDER.as_bytes(), flag::READ | flag::DIRECTORY)?;
            let listed = client.list(folder, LISTED);
            let all = listed.inspect(|all| {
                let is_left = |name: &&[u8]| name.starts_with(NAME.as_bytes());
                for name in all.iter().map(|entry| entry.name.as_slice()).filter(is_left) {
                    // A directory of that name is somebody else's.
                    let _ = client.unlink(folder, name);
                }
            });
            client.close(folder)?;
            all.map(|_| ())
        })
    });
}
