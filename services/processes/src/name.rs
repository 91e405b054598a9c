//! A process's name: the last component of its program's path.

use abi::process::NAME;
use abi::program::{BEGIN_FILES, BEGIN_MAGIC, Begin, BeginFile};
use zerocopy::FromBytes;

/// Of what a beginning says; `?` when that makes no sense.
pub fn of(beginning: &[u8]) -> [u8; NAME] {
    let named = path(beginning).map(last).filter(|name| !name.is_empty());
    padded(named.unwrap_or(b"?"))
}

/// As a name: cut where a character ends, without what a terminal would obey.
pub fn padded(text: &[u8]) -> [u8; NAME] {
    let mut name = [0; NAME];
    let goes_on = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let bytes = (0..=text.len().min(NAME)).rev().find(|at| !goes_on(at)).unwrap_or(0);
    for (to, &byte) in name.iter_mut().zip(text.iter().take(bytes)) {
        *to = if byte.is_ascii_control() { b'?' } else { byte };
    }
    name
}

fn path(beginning: &[u8]) -> Option<&[u8]> {
    let (head, rest) = Begin::read_from_prefix(beginning).ok()?;
    let files = usize::try_from(head.files).ok().filter(|&files| files <= BEGIN_FILES)?;
    let rest = rest.get(files * size_of::<BeginFile>()..)?;
    let path = rest.get(..usize::try_from(head.path).ok()?)?;
    (head.magic == BEGIN_MAGIC).then_some(path)
}

fn last(path: &[u8]) -> &[u8] {
    let mut components = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    components.next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use base::prng::Prng;
    use zerocopy::IntoBytes;

    fn begin(path: &[u8], files: u32) -> Vec<u8> {
        let path_bytes = path.len() as u32;
        let head = Begin { magic: BEGIN_MAGIC, files, path: path_bytes, ..Begin::default() };
        let files = Vec::from_iter((0..files).map(|_| BeginFile::default()));
        [head.as_bytes(), files.as_bytes(), path].concat()
    }

    fn name(path: &[u8]) -> Vec<u8> {
        of(&begin(path, 3)).into_iter().take_while(|&byte| byte != 0).collect()
    }

    #[test]
    fn it_is_the_last_component() {
        assert_eq!(name(b"/bin/hello"), b"hello");
        assert_eq!(name(b"hello"), b"hello");
        assert_eq!(name(b"a/b//"), b"b");
        assert_eq!(name(b"/bin/a\x1b[2Jb\0"), b"a?[2Jb?");
        assert_eq!(name(&[b'x'; 100]), [b'x'; NAME]);
        let long = "ä".repeat(16) + "x";
        assert_eq!(name(long.as_bytes()), "ä".repeat(16).as_bytes());
        assert_eq!(name(&long.as_bytes()[2..]), (("ä".repeat(15)) + "x").as_bytes());
        assert_eq!(name(("x".to_string() + &long).as_bytes()).len(), 31);
    }

    #[test]
    fn what_makes_no_sense_has_one_too() {
        for bad in [&b""[..], b"PENBEGIN", &[0; 200], &[0xff; 200]] {
            assert_eq!(of(bad)[..2], *b"?\0");
        }
        assert_eq!(name(b""), b"?");
        assert_eq!(name(b"///"), b"?");
        let whole = begin(b"/bin/hello", 2);
        assert_eq!(of(&whole[..whole.len() - 1])[..2], *b"?\0");
        let mut random = Prng::new(1);
        for _ in 0..10_000 {
            let mut bytes = begin(b"/a/b", 1);
            for _ in 0..random.below(6) {
                let at = random.below(40) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(random.below(120) as usize);
            of(&bytes);
        }
    }
}
