//! `pen push` and `pen pull`: files to and from a running board, over a stream of its vsock device
//! (`abi::host`). `pen exec` uses these streams too.

use abi::host::{Frame, Kind, LARGEST, PORT};
use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use workbench::instance::{BORROWED, Instance};
use workbench::life::Life;
use workbench::run_files::VSOCK;
use zerocopy::{FromBytes, IntoBytes};

/// A kernel's description of a file system that is not on a disk.
const IN_MEMORY: &str = "the file system in memory";

/// A stream to a board, for one request.
pub struct Stream {
    reader: BufReader<UnixStream>,
    sender: Sender,
    board: String,
    /// The life of the board that it belongs to.
    life: Option<Life>,
}

/// The sending half of a stream.
pub struct Sender(UnixStream);

impl Sender {
    /// Sends a frame. Returns false if the board has stopped reading; it may have sent the reason
    /// before.
    pub fn send(&mut self, kind: Kind, data: &[u8]) -> anyhow::Result<bool> {
        let sent = self.0.write_all(Frame::new(kind, data.len()).as_bytes());
        match sent.and_then(|()| self.0.write_all(data)) {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(false)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Ends the stream, for its receiver too.
    pub fn end(&self) {
        // It may have ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Stream {
    /// Opens a stream.
    pub fn open(instance: &Instance) -> anyhow::Result<Stream> {
        let name = &instance.name;
        let life = instance.life();
        let socket = instance.connect(VSOCK).with_context(|| {
            let device = "a device of kind \"vsock\"";
            format!(
                "board {name} takes no streams: is it up (`pen ps`), and has its file {device}?"
            )
        })?;
        let life = if life.is_over() { instance.life() } else { life };
        Ok(Stream { life: Some(life), ..Stream::on(socket, name)? })
    }

    /// Opens a stream to the board `name` over `socket`.
    pub fn on(socket: UnixStream, name: &str) -> anyhow::Result<Stream> {
        let (reader, board) = (BufReader::new(socket.try_clone()?), name.to_string());
        let mut stream = Stream { reader, sender: Sender(socket), board, life: None };
        let mut line = String::new();
        // A board that resets the stream closes it without an answer.
        let read = writeln!(stream.sender.0, "CONNECT {PORT}")
            .and_then(|()| stream.reader.read_line(&mut line));
        ensure!(
            read.is_ok() && line.starts_with("OK "),
            "board {name} takes no more streams now; try again"
        );
        Ok(stream)
    }

    /// Returns a second sender, for a thread that sends while another one receives.
    pub fn sender(&self) -> anyhow::Result<Sender> {
        Ok(Sender(self.sender.0.try_clone()?))
    }

    /// As [`Sender::send`].
    pub fn send(&mut self, kind: Kind, data: &[u8]) -> anyhow::Result<bool> {
        self.sender.send(kind, data)
    }

    /// Returns the next frame; a failure on the board is an error.
    pub fn receive(&mut self) -> anyhow::Result<(Kind, Vec<u8>)> {
        let mut head = [0; size_of::<Frame>()];
        self.fill(&mut head)?;
        let frame = Frame::read_from_bytes(&head).ok().and_then(|frame| frame.parse());
        let (kind, bytes) =
            frame.context("the board sent a frame that this `pen` does not know")?;
        let mut data = vec![0; bytes];
        self.fill(&mut data)?;
        match kind {
            Kind::Failed => bail!("{}: {}", self.board, String::from_utf8_lossy(&data)),
            Kind::Full => bail!(self.full(&data)),
            kind => Ok((kind, data)),
        }
    }

    /// Formats a board's message about a full file system, with advice.
    pub fn full(&self, said: &[u8]) -> String {
        let (board, said) = (&self.board, String::from_utf8_lossy(said));
        let look =
            format!("remove files there (`./pen exec --board {board} df` shows what is used)");
        let advice = if said.starts_with(IN_MEMORY) {
            look
        } else if board.starts_with(BORROWED) {
            "this board has a copy of another one's disk: start that one (`./pen up`) and remove \
             files there"
                .to_string()
        } else {
            format!(
                "{look}, or `./pen down {board}` and remove run/{board}/disk.disk: the next start \
                 makes a new disk, without what was written to the old one"
            )
        };
        format!("{board}: {said}\n{advice}")
    }

    fn fill(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        let (read, board) = (self.reader.read_exact(bytes), &self.board);
        if read.is_err()
            && let Some(life) = &self.life
        {
            if life.is_over() {
                bail!("board {board} was restarted; what ran there has ended with it");
            }
            if let [died, ..] = &life.died()[..] {
                bail!(
                    "the kernel {died} of board {board} died, and what ran for this client has \
                     ended; try again, and see soc.log and {died}.log"
                );
            }
        }
        read.with_context(|| format!("board {board} ended the stream; see `pen ps` and its log"))
    }

    /// Stores the bytes of `from` as `path`. Returns their number.
    pub fn push(mut self, mut from: impl Read, path: &str) -> anyhow::Result<u64> {
        self.send(Kind::Push, path.as_bytes())?;
        let (mut bytes, mut sum) = (vec![0; LARGEST], 0);
        loop {
            match from.read(&mut bytes)? {
                0 => break,
                n if self.send(Kind::Data, &bytes[..n])? => sum += n as u64,
                _ => break,
            }
        }
        self.send(Kind::End, &[])?;
        let (kind, _) = self.receive()?;
        ensure!(kind == Kind::Done, "the board answered {kind:?} to a file");
        Ok(sum)
    }

    /// Writes the contents of `path` to `to`. Returns the number of bytes.
    pub fn pull(mut self, path: &str, mut to: impl Write) -> anyhow::Result<u64> {
        self.send(Kind::Pull, path.as_bytes())?;
        let mut sum = 0;
        loop {
            match self.receive()? {
                (Kind::Data, data) => {
                    to.write_all(&data)?;
                    sum += data.len() as u64;
                }
                (Kind::End, _) => return Ok(sum),
                (kind, _) => bail!("the board answered {kind:?} to a request for a file"),
            }
        }
    }
}

/// Makes a board flush all writes to its disks, within `patience`.
pub fn settle(instance: &Instance, patience: Duration) -> anyhow::Result<()> {
    let socket = instance.connect(VSOCK)?;
    socket.set_read_timeout(Some(patience))?;
    let mut stream = Stream::on(socket, &instance.name)?;
    stream.send(Kind::Sync, &[])?;
    let (kind, _) = stream.receive()?;
    ensure!(kind == Kind::Done, "the board answered {kind:?} to a request to flush its disks");
    Ok(())
}

/// Returns the last component of a path, as a name for the board.
fn name_of(path: &Path) -> anyhow::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    Ok(name
        .with_context(|| format!("{}: give a name for it on the board", path.display()))?
        .to_string())
}

/// `pen push FILE [PATH]`
pub fn push(instance: &Instance, file: &Path, path: Option<&str>) -> anyhow::Result<()> {
    let source = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    ensure!(!source.metadata()?.is_dir(), "{}: a directory; push its files", file.display());
    let path = match path {
        None => name_of(file)?,
        Some(folder) if folder.ends_with('/') => format!("{folder}{}", name_of(file)?),
        Some(path) => path.to_string(),
    };
    let bytes = Stream::open(instance)?.push(source, &path).context(path.clone())?;
    println!("{bytes} bytes to {}:{path}", instance.name);
    Ok(())
}

/// `pen pull PATH [FILE]`. Writes to a temporary file first, so that a failure does not lose an
/// existing one.
pub fn pull(instance: &Instance, path: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let file = match file {
        Some(file) if file.is_dir() => file.join(name_of(Path::new(path))?),
        Some(file) => file.to_path_buf(),
        None => name_of(Path::new(path))?.into(),
    };
    let beside = file.with_file_name(format!("{}~part{}", name_of(&file)?, std::process::id()));
    let whole = || -> anyhow::Result<u64> {
        let to = std::fs::File::create(&beside).with_context(|| beside.display().to_string())?;
        let bytes = Stream::open(instance)?.pull(path, to).context(path.to_string())?;
        std::fs::rename(&beside, &file).with_context(|| file.display().to_string())?;
        Ok(bytes)
    };
    let bytes = whole().inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
    println!("{bytes} bytes to {}", file.display());
    Ok(())
}
