//! The names of channels as a tree of files.
//!
//! Contract: a name is a file, and its first parts are directories. No name is below another one,
//! so nothing is both. The number of a node follows from its path, so it is the same in every
//! kernel and in every edition of the table; that of the root is [`ROOT`].

use abi::names::Listed;
use abi::served::ROOT;
use alloc::vec::Vec;

/// A file or directory.
pub struct Node {
    pub number: u64,
    /// The number of its directory.
    parent: u64,
    /// From the root.
    path: Vec<u8>,
    /// The name whose file it is; `None`: a directory.
    pub name: Option<Listed>,
}

impl Node {
    /// Returns the last part of the path.
    fn last(&self) -> &[u8] {
        self.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
}

/// All files and directories, without the root.
#[derive(Default)]
pub struct Tree(Vec<Node>);

/// What a number stands for.
pub enum Place<'a> {
    Root,
    Node(&'a Node),
}

impl Tree {
    /// Creates the tree of these names, which ascend.
    pub fn new(names: &[Listed]) -> Tree {
        let mut tree = Tree::default();
        let mut before: &[u8] = &[];
        for listed in names {
            tree.add(listed, before);
            before = listed.name.as_bytes();
        }
        tree
    }

    /// Adds a name and those of its directories that the name `before` it has not.
    fn add(&mut self, listed: &Listed, before: &[u8]) {
        let path = listed.name.as_bytes();
        let mut parent = ROOT;
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let (directory, with_slash) = (&path[..end], &path[..=end]);
            if !before.starts_with(with_slash) {
                self.push(parent, directory, None);
            }
            parent = number(directory);
        }
        self.push(parent, path, Some(*listed));
    }

    fn push(&mut self, parent: u64, path: &[u8], name: Option<Listed>) {
        self.0.push(Node { number: number(path), parent, path: path.to_vec(), name });
    }

    pub fn place(&self, number: u64) -> Option<Place<'_>> {
        match number {
            ROOT => Some(Place::Root),
            _ => self.0.iter().find(|node| node.number == number).map(Place::Node),
        }
    }

    pub fn lookup(&self, directory: u64, name: &[u8]) -> Option<&Node> {
        self.0.iter().find(|node| node.parent == directory && node.last() == name)
    }

    /// Returns the nodes in a directory, with their names in it.
    pub fn list(&self, directory: u64) -> impl Iterator<Item = (&[u8], &Node)> {
        let here = self.0.iter().filter(move |node| node.parent == directory);
        here.map(|node| (node.last(), node))
    }
}

impl Place<'_> {
    pub fn parent(&self) -> u64 {
        match self {
            Place::Root => ROOT,
            Place::Node(node) => node.parent,
        }
    }

    /// Returns the name whose file it is; `None`: a directory.
    pub fn name(&self) -> Option<&Listed> {
        match self {
            Place::Root => None,
            Place::Node(node) => node.name.as_ref(),
        }
    }
}

/// Returns the number of a path. Programs choose names, and must not find two with one number.
fn number(path: &[u8]) -> u64 {
    let mut number = [0; 8];
    blake3::Hasher::new().update(path).finalize_xof().fill(&mut number);
    // Never that of the root.
    u64::from_le_bytes(number) | ROOT << 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::names::Name;

    fn tree(texts: &[&str]) -> Tree {
        let name = |text: &&str| Name::new(text.as_bytes()).unwrap_or_default();
        let listed = |text| Listed { name: name(text), ..Listed::default() };
        Tree::new(&texts.iter().map(listed).collect::<Vec<Listed>>())
    }

    /// Returns the entries of a directory: directories end with `/`.
    fn entries(tree: &Tree, path: &str) -> Vec<alloc::string::String> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let at = parts
            .fold(ROOT, |at, part| tree.lookup(at, part.as_bytes()).map_or(0, |node| node.number));
        let all = tree.list(at).map(|(name, node)| {
            let end = if node.name.is_some() { "" } else { "/" };
            alloc::format!("{}{end}", core::str::from_utf8(name).unwrap_or("?"))
        });
        all.collect()
    }

    #[test]
    fn a_name_is_a_file_below_the_directories_of_its_parts() {
        let tree = tree(&["a-b", "a/b", "a/c/d", "a/c/e", "a/f", "ab", "kernel/main", "z/a/b/c"]);
        assert_eq!(entries(&tree, ""), ["a-b", "a/", "ab", "kernel/", "z/"]);
        assert_eq!(entries(&tree, "a"), ["b", "c/", "f"]);
        assert_eq!(entries(&tree, "a/c"), ["d", "e"]);
        assert_eq!(entries(&tree, "z/a/b"), ["c"]);
        assert!(entries(&tree, "a/b").is_empty() && entries(&tree, "c").is_empty());
        assert!(entries(&Tree::default(), "").is_empty());
    }

    #[test]
    fn each_node_has_its_own_number_which_no_other_name_changes() {
        let (few, many) = (tree(&["b/c"]), tree(&["a", "b/a", "b/c", "c/c"]));
        let find = |tree: &Tree, path: &[u8]| {
            let found = tree.0.iter().find(|node| node.path == path);
            found.map(|node| (node.number, node.parent))
        };
        assert_eq!(find(&few, b"b/c"), find(&many, b"b/c"));
        assert_eq!(find(&few, b"b"), find(&many, b"b"));
        let mut numbers: Vec<u64> = many.0.iter().map(|node| node.number).collect();
        numbers.push(ROOT);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 7);
    }

    #[test]
    fn a_place_knows_its_directory() {
        let tree = tree(&["a/b"]);
        let parent = |number| tree.place(number).map(|place| place.parent());
        let directory = tree.lookup(ROOT, b"a").map_or(0, |node| node.number);
        let file = tree.lookup(directory, b"b").map_or(0, |node| node.number);
        assert_eq!([ROOT, directory, file].map(parent), [Some(ROOT), Some(ROOT), Some(directory)]);
        let is_file = |number| tree.place(number).is_some_and(|place| place.name().is_some());
        assert_eq!([ROOT, directory, file, 77].map(is_file), [false, false, true, false]);
    }
}
