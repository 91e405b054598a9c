//! Starting programs.

use crate::layout::{ANY_KERNEL, ARGUMENTS, FILES, InheritedFile, NEW_GROUP, Spawn};
use crate::process::Child;
use crate::{Errno, ffi, file};
use alloc::string::String;
use alloc::vec::Vec;

/// First descriptor where programs look for preopened directories.
const FIRST_PREOPEN: u32 = 3;

/// A program to start. Unless others are named, the child gets the caller's descriptors 0, 1 and 2
/// and its preopened directories.
#[derive(Clone, Debug)]
pub struct Command {
    path: String,
    arguments: Vec<String>,
    environment: Vec<String>,
    files: Vec<(u32, u32)>,
    preopens: Option<Vec<(u32, String)>>,
    kernel: u32,
    group: u32,
    flags: u32,
    memory: u64,
    descriptors: u32,
}

impl Command {
    /// Creates a command for the program at an absolute path, without the ISA suffix. The program's
    /// name becomes its first argument.
    pub fn new(path: &str) -> Command {
        let mut command = Command::bare(path);
        command.arguments.push(String::from(path));
        command.files.extend([(0, 0), (1, 1), (2, 2)]);
        command
    }

    /// Creates a command without arguments, files or preopened directories.
    pub fn bare(path: &str) -> Command {
        Command {
            path: String::from(path),
            arguments: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
            preopens: None,
            kernel: ANY_KERNEL,
            group: 0,
            flags: 0,
            memory: 0,
            descriptors: 0,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: &str) -> Command {
        self.arguments.push(String::from(argument));
        self
    }

    /// Adds arguments.
    pub fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        self.arguments.extend(arguments.into_iter().map(String::from));
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Command {
        self.environment.push([name, "=", value].concat());
        self
    }

    /// Passes the caller's `descriptor` to the child as `becomes`; a later call with the same
    /// `becomes` wins.
    pub fn file(mut self, descriptor: u32, becomes: u32) -> Command {
        self.files.retain(|(_, there)| *there != becomes);
        self.files.push((descriptor, becomes));
        self
    }

    /// Passes a directory of the caller as a preopened one of this name. The first call replaces
    /// the directories that the child would get by default.
    pub fn preopen(mut self, descriptor: u32, name: &str) -> Command {
        self.preopens.get_or_insert_default().push((descriptor, String::from(name)));
        self
    }

    /// Selects the kernel that runs the child.
    pub fn kernel(mut self, kernel: u32) -> Command {
        self.kernel = kernel;
        self
    }

    /// Puts the child into this process group.
    pub fn group(mut self, group: u32) -> Command {
        self.group = group;
        self
    }

    /// Puts the child into a new group of its own.
    pub fn new_group(mut self) -> Command {
        self.flags |= NEW_GROUP;
        self
    }

    /// Limits the memory of the child, and of each of its descendants, in bytes. The limits of its
    /// manifest and of the caller still apply if they are lower.
    pub fn memory(mut self, bytes: u64) -> Command {
        self.memory = bytes;
        self
    }

    /// Limits the number of descriptors, in the same way.
    pub fn descriptors(mut self, most: u32) -> Command {
        self.descriptors = most;
        self
    }

    /// Starts the program.
    pub fn spawn(&self) -> Result<Child, Errno> {
        let (directory, path) = file::resolve(&self.path)?;
        let arguments = joined(&self.arguments)?;
        let environment = joined(&self.environment)?;
        if arguments.len() + environment.len() > ARGUMENTS {
            return Err(Errno::TOOBIG);
        }
        let preopens = self.preopens.clone().unwrap_or_else(file::preopens);
        let files = given(&self.files, &preopens)?;
        let what = Spawn {
            path: ffi::place(path.as_bytes()),
            arguments: ffi::place(&arguments),
            environment: ffi::place(&environment),
            files: ffi::place(&files),
            directory,
            kernel: self.kernel,
            group: self.group,
            flags: self.flags,
            memory: self.memory,
            descriptors: self.descriptors,
            reserved: 0,
        };
        // `preopens` owns the names that `files` points to, and outlives the call.
        ffi::spawn(&what, &[path.as_bytes(), &arguments, &environment], &files).map(Child::new)
    }
}

/// Joins texts, each followed by a NUL.
fn joined(texts: &[String]) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    for text in texts {
        if text.contains('\0') {
            return Err(Errno::INVAL);
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

/// Returns the descriptors to pass: preopened directories at 3, 4 and so on, where programs look
/// for them; files at their own numbers, which must not collide with these.
fn given(files: &[(u32, u32)], preopens: &[(u32, String)]) -> Result<Vec<InheritedFile>, Errno> {
    if files.len() + preopens.len() > FILES {
        return Err(Errno::MFILE);
    }
    let beyond = FIRST_PREOPEN + preopens.len() as u32;
    if files.iter().any(|(_, there)| (FIRST_PREOPEN..beyond).contains(there)) {
        return Err(Errno::INVAL);
    }
    let plain = files.iter().map(|&(descriptor, becomes)| InheritedFile {
        descriptor,
        becomes,
        ..InheritedFile::default()
    });
    let opened = (FIRST_PREOPEN..).zip(preopens).map(|(becomes, (descriptor, name))| {
        InheritedFile { descriptor: *descriptor, becomes, preopen: ffi::place(name.as_bytes()) }
    });
    Ok(plain.chain(opened).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_a_nul_each_and_none_inside() {
        let texts = ["ls", "", "-l"].map(String::from);
        assert_eq!(joined(&texts), Ok(b"ls\0\0-l\0".to_vec()));
        assert_eq!(joined(&[String::from("a\0b")]), Err(Errno::INVAL));
    }

    #[test]
    fn preopens_are_where_programs_look() {
        let preopens = [(9, String::from(".")), (4, String::from("/"))];
        let files = given(&[(7, 1), (2, 2)], &preopens).unwrap();
        let numbers: Vec<(u32, u32)> = files.iter().map(|f| (f.descriptor, f.becomes)).collect();
        assert_eq!(numbers, [(7, 1), (2, 2), (9, 3), (4, 4)]);
        assert_eq!(files[2].preopen[1], 1);
        assert_eq!(given(&[(0, 4)], &preopens).err(), Some(Errno::INVAL));
        let many = [(0, 5); 64];
        assert_eq!(given(&many, &preopens).err(), Some(Errno::MFILE));
    }

    #[test]
    fn the_last_file_of_a_number_counts() {
        let command = Command::new("/bin/ls").file(8, 1);
        assert_eq!(command.files, [(0, 0), (2, 2), (8, 1)]);
    }
}
