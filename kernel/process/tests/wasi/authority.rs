//! What a manifest's directories are opened with, over the real file service.

use crate::common::*;
use abi::fs::{Op, Request, flag};
use abi::program::{BEGIN_AUTHORITY, BEGIN_DIRECTORY};
use base::prng::Prng;
use kernel_process::Object;
use kernel_process::authority::{Authority, Rights};
use kernel_process::begin::{PassedFile, Plan, decode, encode};
use kernel_process::wasi::rights;
use kernel_process::{Errno, Halt, System};
use std::collections::BTreeSet;

const READ: Rights = (rights::READ_ONLY & rights::DIRECTORY, rights::READ_ONLY);
const WRITE: Rights = (rights::DIRECTORY, rights::INHERITING);

/// A file system with directories, and the parent's descriptors.
struct Parent {
    world: World,
    root: u64,
    files: Vec<PassedFile<'static>>,
}

impl Parent {
    fn new(directories: &[&str]) -> Parent {
        let mut world = World::new();
        let root = world.with(|c| c.root()).unwrap();
        for path in directories {
            world.with(|c| c.mkdir(root, path.as_bytes())).unwrap();
        }
        Parent { world, root, files: vec![] }
    }

    /// Gives the parent a directory with these rights, as `descriptor` of the start data.
    fn holds(&mut self, path: &str, (rights, inheriting): Rights, descriptor: u32) {
        let (root, flags) = (self.root, flag::READ | flag::DIRECTORY);
        let handle = self.world.with(|c| c.open(root, path.as_bytes(), flags)).unwrap();
        self.files.push(PassedFile {
            object: Object::File(handle),
            rights,
            inheriting,
            descriptor,
            preopen: None,
        });
    }

    fn open(&mut self, path: &str, rights: Rights) -> Result<u64, Errno> {
        let bytes = encode(&Plan { path: b"x", files: &self.files, ..Plan::default() }).unwrap();
        let world = &mut self.world;
        let authority = Authority::of(world, &decode(&bytes).unwrap()).unwrap();
        authority.open(world, self.root, path.as_bytes(), rights).map_err(|halt| match halt {
            Halt::Failed(error) => error,
            stop => panic!("{stop:?}"),
        })
    }

    fn node(&mut self, handle: u64) -> u64 {
        self.world.files(Request::new(Op::Stat, handle), &mut []).unwrap().stat.node
    }

    fn close(&mut self, handle: u64) {
        self.world.with(|c| c.close(handle)).unwrap();
    }
}

#[test]
fn only_directories_within_those_of_the_parent_are_opened() {
    let mut parent = Parent::new(&["data", "data/in", "data/in/deep", "etc"]);
    assert_eq!(parent.open("/data", READ), Err(Errno::NOTCAPABLE), "it has nothing");
    parent.holds("data", WRITE, BEGIN_AUTHORITY);
    let before = parent.world.vfs.census();
    for path in ["/data", "/data/", "//data/in", "/data/in/deep", "/data/./in"] {
        let handle = parent.open(path, WRITE).unwrap_or_else(|why| panic!("{path}: {why:?}"));
        parent.close(handle);
    }
    for path in ["/", "/etc", "/missing", "/data/missing", "/dat", "/data/../etc", ""] {
        assert_eq!(parent.open(path, READ), Err(Errno::NOTCAPABLE), "{path}");
    }
    assert_eq!(parent.world.vfs.census(), before, "no handle is left open");
}

#[test]
fn every_directory_of_the_start_data_counts_with_its_own_rights() {
    for descriptor in [3, BEGIN_DIRECTORY, BEGIN_AUTHORITY] {
        let mut parent = Parent::new(&["data", "data/in"]);
        parent.holds("data", READ, descriptor);
        assert_eq!(parent.open("/data", WRITE), Err(Errno::NOTCAPABLE));
        assert_eq!(parent.open("/data/in", WRITE), Err(Errno::NOTCAPABLE));
        assert!(parent.open("/data/in", READ).is_ok());
        // A second descriptor has what the first one lacks; below it, both count.
        parent.holds("data/in", WRITE, 9);
        assert!(parent.open("/data/in", WRITE).is_ok());
        assert_eq!(parent.open("/data", WRITE), Err(Errno::NOTCAPABLE));
    }
    let mut parent = Parent::new(&["data"]);
    parent.holds("data", (WRITE.0, 0), 3);
    assert_eq!(parent.open("/data", READ), Err(Errno::NOTCAPABLE), "nothing below it");
    parent.holds(".", WRITE, 4);
    assert!(parent.open("/", WRITE).is_ok() && parent.open("/data", WRITE).is_ok());
}

#[test]
fn no_link_leads_out_of_the_parents_directory() {
    let mut parent = Parent::new(&["data", "data/in", "etc", "etc/in"]);
    let root = parent.root;
    let links: [(&[u8], &[u8]); 4] =
        [(b"../etc", b"data/up"), (b"in", b"data/to"), (b"data", b"there"), (b"etc", b"other")];
    for (text, path) in links {
        parent.world.with(|c| c.symlink(root, text, path)).unwrap();
    }
    parent.holds("data", WRITE, 3);
    assert!(parent.open("/data/to", READ).is_ok());
    // The same directory by another name.
    assert!(parent.open("/there/in", READ).is_ok());
    for path in ["/data/up", "/data/up/in", "/other", "/data/to/../../etc"] {
        assert_eq!(parent.open(path, READ), Err(Errno::NOTCAPABLE), "{path}");
    }
}

#[test]
fn handles_that_are_closed_or_no_directories_have_no_authority() {
    let mut parent = Parent::new(&["data"]);
    parent.holds("data", WRITE, 3);
    let handle = parent.files[0].object.file().unwrap();
    parent.close(handle);
    assert_eq!(parent.open("/data", READ), Err(Errno::NOTCAPABLE));
    let (reader, _) = parent.world.with(|c| c.pipe(0)).unwrap();
    parent.files[0].object = Object::File(reader);
    assert_eq!(parent.open("/data", READ), Err(Errno::NOTCAPABLE));
}

/// Random directories and links: what is opened lies within a directory that the parent has.
#[test]
fn what_is_opened_lies_within_a_directory_of_the_parent() {
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..300 {
        let mut random = Prng::new(seed);
        let mut parent = Parent::new(&["a", "b", "a/a", "a/b", "b/a", "a/b/c"]);
        let path = |random: &mut Prng, parts: &[&'static str]| {
            let count = 1 + random.below(4);
            let pick = |_| parts[random.below(parts.len() as u64) as usize];
            (0..count).map(pick).collect::<Vec<_>>().join("/")
        };
        let root = parent.root;
        for _ in 0..6 {
            let (text, at) = (
                path(&mut random, &["a", "b", "c", ".."]),
                path(&mut random, &["a", "b", "c", "l"]),
            );
            // Fails where there is no directory, or a file of the name.
            let _ = parent.world.with(|c| c.symlink(root, text.as_bytes(), at.as_bytes()));
        }
        let held = ["a", "b", "a/b", "b/a"][random.below(4) as usize];
        parent.holds(held, WRITE, 3);
        let within = nodes(&mut parent, held);
        for _ in 0..20 {
            let wanted = format!("/{}", path(&mut random, &["a", "b", "c", "l"]));
            match parent.open(&wanted, READ) {
                Ok(handle) => {
                    let node = parent.node(handle);
                    assert!(within.contains(&node), "seed {seed}: {wanted} with {held}");
                    parent.close(handle);
                    opened += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(opened > 200 && refused > 500, "{opened} opened, {refused} refused");
}

/// Returns the directory at `path` and all directories below it.
fn nodes(parent: &mut Parent, path: &str) -> BTreeSet<u64> {
    let (mut found, mut left) = (BTreeSet::new(), vec![path.to_string()]);
    while let Some(path) = left.pop() {
        let (root, flags) = (parent.root, flag::READ | flag::DIRECTORY);
        let handle = parent.world.with(|c| c.open(root, path.as_bytes(), flags)).unwrap();
        found.insert(parent.node(handle));
        for entry in parent.world.with(|c| c.list(handle, 2048)).unwrap() {
            let name = String::from_utf8(entry.name).unwrap();
            if entry.kind == abi::fs::kind::DIRECTORY && name != "." && name != ".." {
                left.push(format!("{path}/{name}"));
            }
        }
        parent.close(handle);
    }
    found
}
