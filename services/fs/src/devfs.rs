//! Device files: `null`, `zero`, `full`, `random`, `urandom`, and `console`, which the VFS opens in
//! its own way ([`FileSystem::special`]).
//!
//! Contract: nothing waits, and the only state is the key of the random number generator. After
//! each read the key is replaced by bytes that no reader got, so earlier output cannot be computed
//! from it. The output is predictable with knowledge of the seed.

use crate::filesystem::{Entry, FileSystem, Kind, Node, Result, Space, Special, Stop, Times};
use abi::fs::{Errno, FIRST_COOKIE, NULL, Stat};

const ROOT: Node = 1;
const ZERO: Node = 3;
const FULL: Node = 4;
const RANDOM: Node = 5;
const CONSOLE: Node = 6;

/// The names, in the order of their cookies.
const NAMES: [(&[u8], Node); 6] = [
    (b"null", NULL),
    (b"zero", ZERO),
    (b"full", FULL),
    (b"random", RANDOM),
    (b"urandom", RANDOM),
    (b"console", CONSOLE),
];

/// Maximum random bytes in one read.
pub const RANDOM_STEP: usize = 4096;

#[derive(Debug)]
pub struct DevFs {
    key: [u8; 32],
    /// Time of the mount, in ns: all times of its files.
    mounted: u64,
}

impl DevFs {
    /// Creates the file system, seeds its random numbers, and sets all its times to `now`.
    pub fn new(seed: &[u8], now: u64) -> DevFs {
        DevFs { key: blake3::derive_key("Penumbra 2026 /dev/random", seed), mounted: now }
    }

    fn random(&mut self, into: &mut [u8]) -> usize {
        let length = into.len().min(RANDOM_STEP);
        let mut output = blake3::Hasher::new_keyed(&self.key).finalize_xof();
        output.fill(&mut self.key);
        output.fill(into.get_mut(..length).unwrap_or_default());
        length
    }

    /// Mixes `from` into the key.
    fn stir(&mut self, from: &[u8]) {
        self.key = *blake3::keyed_hash(&self.key, from).as_bytes();
    }
}

fn known(node: Node) -> Result<Kind> {
    match node {
        ROOT => Ok(Kind::Directory),
        NULL..=CONSOLE => Ok(Kind::Character),
        _ => Err(Stop::Failed(Errno::Noent)),
    }
}

fn device(node: Node) -> Result<()> {
    match known(node)? {
        Kind::Character => Ok(()),
        _ => Err(Stop::Failed(Errno::Isdir)),
    }
}

/// Refuses a change of a directory.
fn fixed<T>(directory: Node) -> Result<T> {
    let is_directory = known(directory)? == Kind::Directory;
    Err(Stop::Failed(if is_directory { Errno::Perm } else { Errno::Notdir }))
}

impl FileSystem for DevFs {
    fn root(&mut self) -> Node {
        ROOT
    }

    fn special(&mut self, node: Node) -> Option<Special> {
        (node == CONSOLE).then_some(Special::Console)
    }

    fn lookup(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        if known(directory)? != Kind::Directory {
            return Err(Errno::Notdir.into());
        }
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, node)| *node).ok_or(Stop::Failed(Errno::Noent))
    }

    fn parent(&mut self, _directory: Node) -> Result<Node> {
        Ok(ROOT)
    }

    fn kind(&mut self, node: Node) -> Result<Kind> {
        known(node)
    }

    fn stat(&mut self, node: Node) -> Result<Stat> {
        let names = NAMES.iter().filter(|(_, named)| *named == node).count();
        let links = if node == ROOT { 2 } else { names as u64 };
        let (kind, at) = (known(node)?.code(), self.mounted);
        let times = Stat { accessed: at, modified: at, changed: at, ..Stat::default() };
        Ok(Stat { node, kind, links, ..times })
    }

    fn read_link(&mut self, node: Node, _into: &mut alloc::vec::Vec<u8>) -> Result<()> {
        known(node)?;
        Err(Errno::Inval.into())
    }

    fn list(
        &mut self,
        directory: Node,
        from: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<bool> {
        if known(directory)? != Kind::Directory {
            return Err(Errno::Notdir.into());
        }
        for (cookie, (name, node)) in (FIRST_COOKIE..).zip(NAMES) {
            let entry = Entry { cookie, name, node, kind: Kind::Character };
            if cookie >= from && !each(entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read(&mut self, node: Node, _offset: u64, into: &mut [u8]) -> Result<usize> {
        device(node)?;
        match node {
            ZERO | FULL => {
                into.fill(0);
                Ok(into.len())
            }
            RANDOM => Ok(self.random(into)),
            _ => Ok(0),
        }
    }

    fn write(&mut self, node: Node, _offset: u64, from: &[u8], _now: u64) -> Result<usize> {
        device(node)?;
        match node {
            FULL if !from.is_empty() => return Err(Errno::Nospc.into()),
            RANDOM => self.stir(from.get(..RANDOM_STEP).unwrap_or(from)),
            _ => {}
        }
        Ok(from.len())
    }

    /// A device has no size. Truncating it succeeds, because opening with TRUNCATE is common.
    fn set_size(&mut self, node: Node, _size: u64, _now: u64) -> Result<()> {
        device(node)
    }

    fn set_times(&mut self, node: Node, _times: Times, _now: u64) -> Result<()> {
        known(node).map(|_| ())
    }

    fn make(
        &mut self,
        directory: Node,
        _name: &[u8],
        _what: crate::filesystem::Make<'_>,
        _now: u64,
    ) -> Result<Node> {
        fixed(directory)
    }

    fn link(&mut self, directory: Node, _name: &[u8], _node: Node, _now: u64) -> Result<()> {
        fixed(directory)
    }

    fn unlink(&mut self, directory: Node, _name: &[u8], _now: u64) -> Result<()> {
        fixed(directory)
    }

    fn rmdir(&mut self, directory: Node, _name: &[u8], _now: u64) -> Result<()> {
        fixed(directory)
    }

    fn rename(&mut self, from: Node, _n: &[u8], _to: Node, _new: &[u8], _now: u64) -> Result<()> {
        fixed(from)
    }

    fn hold(&mut self, node: Node) -> Result<()> {
        known(node).map(|_| ())
    }

    fn space(&mut self) -> Result<Space> {
        Ok(Space::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_read_and_write_as_specified() {
        let mut dev = DevFs::new(b"seed", 7);
        assert_eq!(dev.stat(NULL).unwrap().modified, 7);
        let find = |dev: &mut DevFs, name: &[u8]| dev.lookup(ROOT, name).unwrap();
        let (null, zero) = (find(&mut dev, b"null"), find(&mut dev, b"zero"));
        let full = find(&mut dev, b"full");
        let mut bytes = [7; 100];
        assert_eq!(dev.read(null, 5, &mut bytes), Ok(0));
        assert_eq!(dev.write(null, 5, &bytes, 0), Ok(100));
        assert_eq!((dev.read(zero, 1 << 60, &mut bytes), bytes), (Ok(100), [0; 100]));
        assert_eq!(dev.write(full, 0, &bytes, 0), Err(Errno::Nospc.into()));
        assert_eq!(dev.write(full, 0, &[], 0), Ok(0));
        assert_eq!(dev.lookup(ROOT, b"nothing"), Err(Errno::Noent.into()));
        assert_eq!(dev.lookup(null, b"null"), Err(Errno::Notdir.into()));
        assert_eq!(dev.unlink(ROOT, b"null", 0), Err(Errno::Perm.into()));
        assert_eq!(dev.read(ROOT, 0, &mut bytes), Err(Errno::Isdir.into()));
    }

    #[test]
    fn random_bytes_depend_on_the_seed_and_never_repeat() {
        let take = |dev: &mut DevFs| {
            let mut bytes = [0; 64];
            assert_eq!(dev.read(RANDOM, 0, &mut bytes), Ok(64));
            bytes
        };
        let (mut one, mut same, mut other) =
            (DevFs::new(b"seed", 7), DevFs::new(b"seed", 7), DevFs::new(b"other", 7));
        let first = take(&mut one);
        assert_eq!(first, take(&mut same));
        assert_ne!(first, take(&mut other));
        assert_ne!(first, take(&mut one));
        assert_eq!(one.write(RANDOM, 0, b"mixed in", 0), Ok(8));
        take(&mut same);
        assert_ne!(take(&mut one), take(&mut same));
        let mut long = [0; 3 * RANDOM_STEP];
        assert_eq!(one.read(RANDOM, 0, &mut long), Ok(RANDOM_STEP));
    }
}
