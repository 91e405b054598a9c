//! Images of programs that are not on the board: `pen exec FILE` sends them before it requests the
//! program.
//!
//! Contract: an image is a file in [`FOLDER`] until its program runs or fails to start, or the
//! stream ends. Files that a dead kernel has left are removed when it serves the host again.

use super::{NONSENSE, Stream, Trouble};
use abi::boot::isa;
use abi::fs::flag;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;

/// The folder of the images, from the root.
const FOLDER: &str = "tmp";
/// Prefix of their names; the name of the kernel that serves the stream follows.
const NAME: &str = "~exec-";
/// Bytes of a directory that are read at once.
const LISTED: usize = 2048;

/// The images that a stream has sent. Dropping this removes their files.
pub(super) struct Images<'a> {
    stream: &'a Stream,
    isas: Vec<&'static str>,
}

impl<'a> Images<'a> {
    pub(super) fn new(stream: &'a Stream) -> Images<'a> {
        Images { stream, isas: Vec::new() }
    }

    /// Returns the program's path, without the ISA's suffix, or `None` if there are no images.
    pub(super) fn program(&self) -> Option<String> {
        (!self.isas.is_empty()).then(|| format!("/{FOLDER}/{}", self.name()))
    }

    fn name(&self) -> String {
        format!("{}{}", prefix(self.stream.kernel), self.stream.number)
    }

    fn path(&self, isa: &str) -> Vec<u8> {
        format!("{FOLDER}/{}.{isa}", self.name()).into_bytes()
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
        // Fails if the folder exists, as it does on a board with a system.
        let _ = with_files(&self.stream.session, |client| client.mkdir(root, FOLDER.as_bytes()));
        // A program may have made a file or link of this name; the image must not be written to it.
        let _ = with_files(&self.stream.session, |client| client.unlink(root, &path));
        self.isas.push(isa);
        let done = self.stream.fill(root, &path);
        let _ = with_files(&self.stream.session, |client| client.close(root));
        done
    }

    /// Removes the files.
    pub(super) fn remove(&mut self) {
        for isa in core::mem::take(&mut self.isas) {
            let path = self.path(isa);
            // Fails if the file does not exist.
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

/// Returns how the names of this kernel's files begin.
fn prefix(kernel: &Kernel) -> String {
    format!("{NAME}{}-", kernel.name())
}

/// Removes the files that an earlier life of this kernel has left.
pub(super) fn clean(session: &Session) {
    let ours = prefix(session.kernel);
    // Fails if there is no such folder; then there is nothing to remove.
    let _ = with_files(session, |client| {
        client.at_root(|client, root| {
            let folder = client.open(root, FOLDER.as_bytes(), flag::READ | flag::DIRECTORY)?;
            let listed = client.list(folder, LISTED);
            let all = listed.inspect(|all| {
                let is_left = |name: &&[u8]| name.starts_with(ours.as_bytes());
                for name in all.iter().map(|entry| entry.name.as_slice()).filter(is_left) {
                    // Fails for a directory of such a name, which is not an image.
                    let _ = client.unlink(folder, name);
                }
            });
            client.close(folder)?;
            all.map(|_| ())
        })
    });
}
