//! Serves requests of the host (`abi::host`): push and pull files, run programs and move them, tell
//! where one would start, and offer folders of the host to programs.
//!
//! A thread accepts streams; each stream is served by a thread of its own. Input from the host is
//! checked: an invalid frame ends its stream.
//!
//! - [`exec`]: programs (`pen exec`)
//! - [`images`]: images that the host sends with a program
//! - [`folders`]: folders of the host, as file systems
//! - [`full`]: texts about file systems without space

mod exec;
mod folders;
mod full;
mod images;

use abi::fs::{Errno, Reply, flag};
use abi::host::{Frame, Kind, LARGEST, Move, MoveService};
use abi::program::{ANY_KERNEL, FOLDER};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base::id::DomainId;
use fs::client::Client;
use kernel_msg::Level;
use kernel_programs::processes::{self, explain_move, move_to};
use kernel_services::files::{self, explain};
use kernel_services::homes;
use kernel_services::host::{self, Gone};
use kernel_services::kernel::Kernel;
use kernel_services::session::{Failure, Session};
use zerocopy::{FromBytes, IntoBytes};

/// Suffix of a file that is being pushed, followed by the number of its stream.
const PART: &str = "~part";

/// Starts the thread, if this kernel reaches the device for streams.
pub fn start(kernel: &'static Kernel) {
    if kernel.services.host.is_local() && kernel.spawn("host", None, accept, 0).is_err() {
        kernel_node::log!("no memory for a thread that serves the host");
    }
}

fn accept(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    // All requests must see the same root file system.
    kernel_services::disk::await_root(kernel, || false);
    let session = Session::at(kernel, Level(0));
    images::clean(&session);
    loop {
        let number = host::accept(&session);
        if kernel.spawn("stream", None, serve, number as usize).is_err() {
            let stream = host::Stream { session: &session, number };
            stream.set_single();
            stream.close();
        }
    }
}

fn serve(number: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let stream = Stream { kernel, number: number as u64, session };
    let mut bytes = Vec::new();
    let first = stream.receive(&mut bytes);
    // This kernel keeps its folders to itself, so it must get the streams of their programs.
    let is_folder = matches!(first, Ok(Kind::Folder));
    if !is_folder {
        stream.bytes().set_single();
    }
    // If the stream is gone, there is nothing to answer.
    let _ = stream.serve(first, &mut bytes);
    if is_folder {
        stream.bytes().set_single();
    }
    stream.bytes().close();
}

/// Why a request failed.
enum Trouble {
    /// The stream has ended, so no answer is possible.
    Gone,
    /// The answer is this failure.
    Failed(Failure),
    /// The same with a text of its own.
    Explained(String),
    /// The answer is that the file system of this path has no space left.
    Full(Vec<u8>),
}

impl From<Gone> for Trouble {
    fn from(_: Gone) -> Self {
        Trouble::Gone
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failed(failure)
    }
}

fn file(why: Errno) -> Trouble {
    Trouble::Failed(Failure::Failed(explain(why)))
}

const NONSENSE: Trouble =
    Trouble::Failed(Failure::Failed("invalid request; are `pen` and the board of one version?"));

/// One request of the host.
struct Stream {
    kernel: &'static Kernel,
    number: u64,
    session: Session,
}

impl Stream {
    /// Does what the first frame asks for: its kind, and its `bytes`.
    fn serve(&self, first: Result<Kind, Trouble>, bytes: &mut Vec<u8>) -> Result<(), Gone> {
        let done = first.and_then(|kind| match kind {
            Kind::Push => self.push(bytes),
            Kind::Pull => self.pull(bytes),
            Kind::Exec | Kind::UseFolder | Kind::Image => self.program(kind, bytes),
            Kind::Folder => self.folder(bytes),
            Kind::Sync => self.settle(),
            Kind::Move => self.move_process(bytes),
            Kind::MoveService => self.move_service(bytes),
            Kind::Place => self.place(bytes),
            _ => Err(NONSENSE),
        });
        match done {
            Ok(()) => Ok(()),
            Err(Trouble::Gone) => Err(Gone),
            Err(Trouble::Failed(why)) => self.send(Kind::Failed, why.text().as_bytes()),
            Err(Trouble::Explained(text)) => self.send(Kind::Failed, text.as_bytes()),
            Err(Trouble::Full(path)) => {
                let why = full::explain(&self.session, &path);
                self.send(Kind::Full, why.as_bytes())
            }
        }
    }

    fn bytes(&self) -> host::Stream<'_> {
        host::Stream { session: &self.session, number: self.number }
    }

    fn send(&self, kind: Kind, data: &[u8]) -> Result<(), Gone> {
        let head = Frame::new(kind, data.len());
        self.bytes().write(&mut [head.as_bytes(), data].concat())
    }

    fn receive(&self, bytes: &mut Vec<u8>) -> Result<Kind, Trouble> {
        let mut head = [0; size_of::<Frame>()];
        self.bytes().read_exact(&mut head)?;
        let frame = Frame::read_from_bytes(&head).map_err(|_| NONSENSE)?;
        let (kind, length) = frame.parse().ok_or(NONSENSE)?;
        bytes.clear();
        bytes.resize(length, 0);
        self.bytes().read_exact(bytes)?;
        Ok(kind)
    }

    /// Runs `work` with a client of the file service; `path` is what it works on, for the error.
    fn files<R>(
        &self,
        path: &[u8],
        work: impl FnOnce(&mut Client<'_>) -> Result<R, Errno>,
    ) -> Result<R, Trouble> {
        let (lost, fs) = (Reply::error(Errno::Io), &self.session.kernel.services.fs);
        match fs.asking(&self.session, lost, |ask| work(&mut Client(ask))) {
            (Ok(result), None) => Ok(result),
            (_, Some(why)) => Err(Trouble::Failed(Failure::Failed(why.text()))),
            (Err(Errno::Nospc), None) => Err(Trouble::Full(path.to_vec())),
            (Err(why), None) => Err(Trouble::Failed(Failure::Failed(explain(why)))),
        }
    }

    /// Receives a file. It is written under another name and renamed when it is complete, so that
    /// readers find the old file or the new one.
    fn push(&self, path: &[u8]) -> Result<(), Trouble> {
        let path = relative(path);
        let part = [path, format!("{PART}{}", self.number).as_bytes()].concat();
        let root = self.files(path, |client| client.root())?;
        if path.starts_with(FOLDER.as_bytes()) {
            // There is a folder for the first program, also after a restart of the file service.
            let _ = self.files(path, |client| client.mkdir(root, FOLDER.as_bytes()));
        }
        let done = self
            .fill(root, &part)
            .and_then(|()| self.files(path, |client| client.rename(root, &part, root, path)));
        if done.is_err() {
            // It may not exist.
            let _ = self.files(path, |client| client.unlink(root, &part));
        }
        self.files(path, |client| client.close(root))?;
        done?;
        Ok(self.send(Kind::Done, &[])?)
    }

    /// Writes received data to a new file.
    fn fill(&self, root: u64, path: &[u8]) -> Result<(), Trouble> {
        let flags = flag::WRITE | flag::CREATE | flag::TRUNCATE;
        let file = self.files(path, |client| client.open(root, path, flags))?;
        let done = self.fill_file(file, path);
        self.files(path, |client| client.close(file))?;
        done
    }

    fn fill_file(&self, file: u64, path: &[u8]) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        loop {
            match self.receive(&mut bytes)? {
                Kind::Data => {}
                Kind::End => return Ok(()),
                _ => return Err(NONSENSE),
            }
            self.files(path, |client| client.write_all(file, &bytes))?;
        }
    }

    fn settle(&self) -> Result<(), Trouble> {
        files::settle(&self.session).map_err(|why| Failure::Failed(explain(why)))?;
        Ok(self.send(Kind::Done, &[])?)
    }

    fn move_process(&self, bytes: &[u8]) -> Result<(), Trouble> {
        let wanted = Move::read_from_bytes(bytes).map_err(|_| NONSENSE)?;
        let kernel = u16::try_from(wanted.kernel.get()).map_err(|_| NONSENSE)?;
        move_to(&self.session, wanted.pid.get(), kernel).map_err(explain_move)?;
        Ok(self.send(Kind::Done, &[])?)
    }

    fn move_service(&self, bytes: &[u8]) -> Result<(), Trouble> {
        let (wanted, name) = MoveService::read_from_prefix(bytes).map_err(|_| NONSENSE)?;
        let name = core::str::from_utf8(name).map_err(|_| NONSENSE)?;
        let to = match wanted.kernel.get() {
            ANY_KERNEL => None,
            kernel => Some(DomainId(u8::try_from(kernel).map_err(|_| NONSENSE)?)),
        };
        homes::move_service(&self.session, name, to)?;
        Ok(self.send(Kind::Done, &[])?)
    }

    fn place(&self, path: &[u8]) -> Result<(), Trouble> {
        let mut text = String::new();
        let chosen = processes::describe(&self.session, path, &mut text);
        let chosen = chosen.map_err(processes::explain)?.unwrap_or_default();
        for piece in text.as_bytes().chunks(LARGEST) {
            self.send(Kind::Data, piece)?;
        }
        Ok(self.send(Kind::End, chosen.as_bytes())?)
    }

    fn pull(&self, path: &[u8]) -> Result<(), Trouble> {
        let path = relative(path);
        let root = self.files(path, |client| client.root())?;
        let file = self.files(path, |client| client.open(root, path, flag::READ | flag::FOLLOW));
        self.files(path, |client| client.close(root))?;
        let file = file?;
        let done = self.drain(file, path);
        self.files(path, |client| client.close(file))?;
        done
    }

    fn drain(&self, file: u64, path: &[u8]) -> Result<(), Trouble> {
        let mut bytes = alloc::vec![0; LARGEST / 2];
        loop {
            match self.files(path, |client| client.read(file, &mut bytes))? {
                0 => return Ok(self.send(Kind::End, &[])?),
                count => self.send(Kind::Data, &bytes[..count])?,
            }
        }
    }
}

/// Paths of the host start at the root: removes leading slashes.
fn relative(path: &[u8]) -> &[u8] {
    let from = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    &path[from..]
}
