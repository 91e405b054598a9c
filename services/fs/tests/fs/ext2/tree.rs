//! What a file system holds.

use crate::common::Solo;
use abi::fs::{flag, kind};
use std::collections::BTreeMap;

/// The contents of each file by path; `None` for a directory.
pub type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// Returns all files and directories of the root file system except lost+found.
pub fn tree(solo: &mut Solo) -> Tree {
    let (root, mut all) = (solo.root(), Tree::new());
    collect(solo, root, "", &mut all);
    solo.with(|c| c.close(root)).unwrap();
    all
}

fn collect(solo: &mut Solo, handle: u64, above: &str, into: &mut Tree) {
    for entry in solo.with(|c| c.list(handle, 4096)).unwrap() {
        let name = String::from_utf8(entry.name).unwrap();
        if [".", "..", "lost+found"].contains(&name.as_str()) {
            continue;
        }
        let inner = solo.with(|c| c.open(handle, name.as_bytes(), flag::READ)).unwrap();
        let path = format!("{above}{name}");
        if entry.kind == kind::DIRECTORY {
            collect(solo, inner, &format!("{path}/"), into);
            into.insert(path, None);
        } else {
            into.insert(path, Some(contents(solo, inner)));
        }
        solo.with(|c| c.close(inner)).unwrap();
    }
}

fn contents(solo: &mut Solo, file: u64) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 60_000]);
    loop {
        let done = solo.with(|c| c.read(file, &mut piece)).unwrap();
        bytes.extend(&piece[..done]);
        if done == 0 {
            return bytes;
        }
    }
}
