//! The name of a process: the last component of its first argument, or of its path if that is not
//! visible text. So a program that is installed under several names shows the one it was called by.
//! The parent can choose any name, so no decision may rely on it.

use abi::process::NAME;
use abi::program::{BEGIN_MAGIC, BEGIN_RECORDS, Begin, BeginFile};
use zerocopy::FromBytes;

/// Returns the name that start data give; `?` if they are malformed.
pub fn of(beginning: &[u8]) -> [u8; NAME] {
    let (path, first) = strings(beginning).unwrap_or_default();
    let named = [first, path].into_iter().map(last).find(|name| makes_sense(name));
    padded(named.unwrap_or(b"?"))
}

/// Converts text to a name: cuts it at a character boundary and replaces control characters by `?`.
pub fn padded(text: &[u8]) -> [u8; NAME] {
    let mut name = [0; NAME];
    let continues = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let bytes = (0..=text.len().min(NAME)).rev().find(|at| !continues(at)).unwrap_or(0);
    let text = text.get(..bytes).unwrap_or_default();
    for (to, &byte) in name.iter_mut().zip(text) {
        *to = if byte.is_ascii_control() { b'?' } else { byte };
    }
    if text.is_ascii() {
        return name;
    }
    // U+0080 to U+009F are control characters too, encoded in two bytes.
    let is_control = |pair: &[u8]| matches!(pair, [0xc2, 0x80..=0x9f]);
    while name.contains(&0xc2)
        && let Some(at) = name.windows(2).position(is_control)
    {
        name.iter_mut().skip(at).take(2).for_each(|byte| *byte = b'?');
    }
    name
}

/// Returns the name that another kernel has sent.
pub fn received(name: &[u8; NAME]) -> [u8; NAME] {
    padded(text(name))
}

/// Returns a name without its padding.
pub fn text(name: &[u8; NAME]) -> &[u8] {
    until_nul(name)
}

/// Returns the path and the first argument (empty if there is none).
fn strings(beginning: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = Begin::read_from_prefix(beginning).ok()?;
    let files = usize::try_from(head.files).ok().filter(|&files| files <= BEGIN_RECORDS)?;
    let rest = rest.get(files * size_of::<BeginFile>()..)?;
    let (path, rest) = rest.split_at_checked(usize::try_from(head.path).ok()?)?;
    let arguments = rest.get(..usize::try_from(head.arguments).ok()?).unwrap_or_default();
    (head.magic == BEGIN_MAGIC).then_some((path, until_nul(arguments)))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn last(path: &[u8]) -> &[u8] {
    let mut components = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    components.next_back().unwrap_or_default()
}

/// Returns whether the name is UTF-8 with something other than white space.
fn makes_sense(name: &[u8]) -> bool {
    let is_seen = |text: &str| text.chars().any(|one| !one.is_whitespace());
    core::str::from_utf8(name).is_ok_and(is_seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use base::prng::Prng;
    use zerocopy::IntoBytes;

    fn begin(path: &[u8], arguments: &[u8], files: u32) -> Vec<u8> {
        let head = Begin {
            magic: BEGIN_MAGIC,
            files,
            path: path.len() as u32,
            arguments: arguments.len() as u32,
            ..Begin::default()
        };
        let files = Vec::from_iter((0..files).map(|_| BeginFile::default()));
        [head.as_bytes(), files.as_bytes(), path, arguments].concat()
    }

    fn name(path: &[u8]) -> Vec<u8> {
        text(&of(&begin(path, b"", 3))).to_vec()
    }

    fn called(arguments: &[u8]) -> Vec<u8> {
        text(&of(&begin(b"/bin/coreutils", arguments, 2))).to_vec()
    }

    #[test]
    fn the_name_is_the_last_component_of_the_path() {
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
    fn the_name_is_that_of_the_first_argument() {
        assert_eq!(called(b"sleep\x001000\0"), b"sleep");
        assert_eq!(called(b"/usr/bin/ls\0-l\0"), b"ls");
        assert_eq!(called(b"-sh\0"), b"-sh");
        assert_eq!(called(b"a\x1b[2Jb\0"), b"a?[2Jb");
        assert_eq!(called("a\u{9b}2J\u{80}ä\0".as_bytes()), "a??2J??ä".as_bytes());
        assert_eq!(called(&[&[b'x'; 9000][..], b"\0"].concat()), [b'x'; NAME]);
        for nameless in [&b""[..], b"\0sleep\0", b"/\0", b" \t\0", b"\xff\xfe\0"] {
            assert_eq!(called(nameless), b"coreutils");
        }
        let whole = begin(b"/bin/coreutils", b"sleep\0", 2);
        assert_eq!(text(&of(&whole[..whole.len() - 1])), b"coreutils");
        // As a kernel reports it to a restarted table.
        let name = of(&begin(b"/bin/sh", "\u{9b}\x07\u{9c}x\0".as_bytes(), 0));
        assert_eq!(padded(text(&name)), name);
    }

    #[test]
    fn malformed_start_data_give_a_visible_name() {
        assert_eq!(padded(b"\xc2\x9b\xc2\x9b")[..5], *b"????\0");
        for bad in [&b""[..], b"PENBEGIN", &[0; 200], &[0xff; 200]] {
            assert_eq!(of(bad)[..2], *b"?\0");
        }
        assert_eq!(name(b""), b"?");
        assert_eq!(name(b"///"), b"?");
        let whole = begin(b"/bin/hello", b"", 2);
        assert_eq!(of(&whole[..whole.len() - 1])[..2], *b"?\0");
        let mut random = Prng::new(1);
        for _ in 0..10_000 {
            let mut bytes = begin(b"/a/b", b"c/d\0e\0", 1);
            for _ in 0..random.below(6) {
                let at = random.below(40) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(random.below(120) as usize);
            let name = of(&bytes);
            let shown = text(&name);
            assert!(!shown.is_empty() && name[shown.len()..].iter().all(|&byte| byte == 0));
            assert!(!std::str::from_utf8(shown).unwrap().contains(char::is_control));
        }
    }
}
