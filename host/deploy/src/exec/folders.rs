//! Folders of this host that a program on a board uses (`pen exec --dir`), each with a stream to
//! the board.
//!
//! ```text
//!   board --Job--> thread --> folder
//!         <--Said--
//! ```
//! A folder exists for the board as long as its stream: until the program or this process ends.

use super::folder::{Folder, Said};
use crate::transfer::{Sender, Stream};
use abi::fs::{Errno, PATH};
use abi::host::{FOLDERS, FolderJob, FolderReply, Kind};
use abi::served::Job;
use anyhow::{Context, ensure};
use std::path::Path;
use workbench::instance::Instance;
use zerocopy::{FromBytes, IntoBytes};

/// The requested folders, by their paths for the program.
#[derive(Debug, Default)]
pub struct Folders(Vec<(String, Folder)>);

/// Folders that the board can use until this is dropped.
#[derive(Default)]
pub struct Serving {
    numbers: Vec<[u8; 4]>,
    streams: Vec<Sender>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.streams.iter().for_each(Sender::end);
    }
}

impl Folders {
    /// Opens the folders: `HOST`, `HOST::GUEST` or `HOST:GUEST` each.
    pub fn open(lines: &[String]) -> anyhow::Result<Folders> {
        ensure!(lines.len() <= FOLDERS, "--dir: {} folders; at most {FOLDERS}", lines.len());
        let mut all: Vec<(String, Folder)> = vec![];
        for line in lines {
            let (host, guest) = parse(line).with_context(|| format!("--dir {line}"))?;
            let is_twice = all.iter().any(|(other, _)| *other == guest);
            ensure!(!is_twice, "--dir {line}: {guest} is the path of another folder already");
            let folder = Folder::open(Path::new(host));
            all.push((guest, folder.with_context(|| format!("--dir {line}: {host}"))?));
        }
        Ok(Folders(all))
    }

    /// Returns their paths for the program.
    #[cfg(test)]
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Serves each folder to the board on a thread of its own.
    pub fn serve(self, instance: &Instance) -> anyhow::Result<Serving> {
        let mut serving = Serving::default();
        for (name, folder) in self.0 {
            let mut stream = Stream::open(instance)?;
            stream.send(Kind::Folder, name.as_bytes())?;
            let (kind, data) = stream.receive()?;
            let number = <[u8; 4]>::try_from(&data[..]).ok().filter(|_| kind == Kind::Done);
            let number =
                number.with_context(|| format!("the board answered {kind:?} to a new folder"))?;
            serving.numbers.push(number);
            serving.streams.push(stream.sender()?);
            std::thread::spawn(move || serve(folder, stream));
        }
        Ok(serving)
    }
}

impl Serving {
    /// Returns the board's numbers of the folders.
    pub fn numbers(&self) -> &[[u8; 4]] {
        &self.numbers
    }
}

/// Parses a folder of the host and its path for the program. If the host's path contains a colon,
/// it must be followed by `::`.
fn parse(line: &str) -> anyhow::Result<(&str, String)> {
    let parts = line.rsplit_once("::").or_else(|| line.rsplit_once(':'));
    let (host, guest) = parts.unwrap_or((line, line));
    ensure!(!host.is_empty(), "write HOST, HOST::GUEST or HOST:GUEST");
    ensure!(!guest.is_empty(), "the program's path for it is empty; \"/\" is its root");
    let leads_up = parts.is_some() && guest.split('/').any(|name| name == "..");
    ensure!(!leads_up, "the program's path for it, \"{guest}\", must not have \"..\" in it");
    let guest = absolute(guest);
    ensure!(guest.len() <= PATH && !guest.contains('\0'), "a path that no program can use");
    Ok((host, guest))
}

/// Returns the absolute path for a program whose current directory is its root.
fn absolute(guest: &str) -> String {
    let names: Vec<&str> = guest.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    format!("/{}", names.join("/"))
}

/// Does jobs until the stream ends.
fn serve(mut folder: Folder, mut stream: Stream) {
    while let Ok((Kind::Job, data)) = stream.receive() {
        let Ok((head, rest)) = FolderJob::read_from_prefix(&data) else { break };
        let said = match Job::read_from_prefix(rest) {
            Ok((job, bulk)) => folder.perform(&job, bulk),
            Err(_) => Err(Errno::Inval),
        };
        if !stream.send(Kind::JobReply, &answer(head.number.get(), said)).unwrap_or(false) {
            break;
        }
    }
}

fn answer(number: u64, said: Said) -> Vec<u8> {
    let (error, value, data) = match said {
        Ok((value, data)) => (Errno::Success, value, data),
        Err(why) => (why, 0, vec![]),
    };
    let (number, value, error) = (number.into(), value.into(), (error as u32).into());
    [FolderReply { number, value, error }.as_bytes(), &data].concat()
}
