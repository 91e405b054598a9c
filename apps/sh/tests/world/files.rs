//! Files and pipes in memory.

use penumbra::{Errno, Open};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

type Data = Rc<RefCell<Vec<u8>>>;

pub enum Node {
    Folder,
    File(Data),
}

/// An unbounded pipe that counts its writers.
#[derive(Default)]
pub struct Pipe {
    data: RefCell<Vec<u8>>,
    writers: Cell<usize>,
    readers: Cell<usize>,
}

/// An open file.
pub enum Handle {
    Read(Rc<Pipe>),
    Write(Rc<Pipe>),
    File { data: Data, at: Rc<Cell<usize>>, append: bool, read: bool, write: bool },
}

pub fn pipe() -> (Handle, Handle) {
    let pipe = Rc::new(Pipe::default());
    pipe.writers.set(1);
    pipe.readers.set(1);
    (Handle::Read(pipe.clone()), Handle::Write(pipe))
}

pub fn find<'a>(nodes: &'a BTreeMap<String, Node>, path: &str) -> Result<&'a Node, Errno> {
    let bare = if path == "/" { path } else { path.trim_end_matches('/') };
    match nodes.get(bare).ok_or(Errno::NOENT)? {
        Node::File(_) if bare != path => Err(Errno::NOTDIR),
        node => Ok(node),
    }
}

pub fn open(nodes: &mut BTreeMap<String, Node>, path: &str, how: Open) -> Result<Handle, Errno> {
    let data = match find(nodes, path) {
        Ok(Node::Folder) => return Err(Errno::ISDIR),
        Ok(Node::File(data)) => data.clone(),
        Err(Errno::NOENT) if how.create => {
            let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
            match find(nodes, if folder.is_empty() { "/" } else { folder })? {
                Node::Folder => {}
                Node::File(_) => return Err(Errno::NOTDIR),
            }
            let data = Data::default();
            nodes.insert(path.to_string(), Node::File(data.clone()));
            data
        }
        Err(error) => return Err(error),
    };
    if how.truncate {
        data.borrow_mut().clear();
    }
    let (append, read) = (how.append, how.read);
    Ok(Handle::File { data, at: Rc::default(), append, read, write: how.write || append })
}

impl Handle {
    /// Returns the contents of a pipe.
    pub fn text(&self) -> String {
        match self {
            Handle::Read(pipe) => String::from_utf8_lossy(&pipe.data.borrow()).into_owned(),
            _ => String::new(),
        }
    }

    /// Returns a second handle of the same file.
    pub fn another(&self) -> Handle {
        match self {
            Handle::Read(pipe) => {
                pipe.readers.set(pipe.readers.get() + 1);
                Handle::Read(pipe.clone())
            }
            Handle::Write(pipe) => {
                pipe.writers.set(pipe.writers.get() + 1);
                Handle::Write(pipe.clone())
            }
            Handle::File { data, at, append, read, write } => Handle::File {
                data: data.clone(),
                at: at.clone(),
                append: *append,
                read: *read,
                write: *write,
            },
        }
    }

    /// Returns whether it is the other end of a pipe.
    pub fn writes_to(&self, other: &Handle) -> bool {
        match (self, other) {
            (Handle::Write(pipe), Handle::Read(read)) => Rc::ptr_eq(pipe, read),
            _ => false,
        }
    }

    /// Returns whether a read would wait.
    pub fn waits(&self) -> bool {
        match self {
            Handle::Read(pipe) => pipe.data.borrow().is_empty() && pipe.writers.get() > 0,
            _ => false,
        }
    }

    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Handle::Read(pipe) => {
                let mut data = pipe.data.borrow_mut();
                assert!(!data.is_empty() || pipe.writers.get() == 0, "a read waits for ever");
                let bytes = into.len().min(data.len());
                into[..bytes].copy_from_slice(&data[..bytes]);
                data.drain(..bytes);
                Ok(bytes)
            }
            Handle::File { data, at, read: true, .. } => {
                let data = data.borrow();
                let from = at.get().min(data.len());
                let bytes = into.len().min(data.len() - from);
                into[..bytes].copy_from_slice(&data[from..from + bytes]);
                at.set(from + bytes);
                Ok(bytes)
            }
            _ => Err(Errno::BADF),
        }
    }

    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Handle::Write(pipe) if pipe.readers.get() == 0 => Err(Errno::PIPE),
            Handle::Write(pipe) => {
                pipe.data.borrow_mut().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Handle::File { data, at, append, write: true, .. } => {
                let mut data = data.borrow_mut();
                if *append {
                    at.set(data.len());
                }
                let end = at.get() + bytes.len();
                if data.len() < end {
                    data.resize(end, 0);
                }
                data[at.get()..end].copy_from_slice(bytes);
                at.set(end);
                Ok(bytes.len())
            }
            _ => Err(Errno::BADF),
        }
    }

    pub fn step_back(&self, by: usize) -> bool {
        match self {
            Handle::File { at, .. } => {
                at.set(at.get().saturating_sub(by));
                true
            }
            _ => false,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        match self {
            Handle::Read(pipe) => pipe.readers.set(pipe.readers.get() - 1),
            Handle::Write(pipe) => pipe.writers.set(pipe.writers.get() - 1),
            Handle::File { .. } => {}
        }
    }
}
