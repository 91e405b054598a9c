//! Backslash escapes: in `$'...'`, in the format of `printf`, in arguments of its `%b`, and in
//! `echo -e`.

/// The dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `$'...'`: `\'`, `\"`, `\xHH`, `\NNN`, `\cX`.
    Dollar,
    /// `printf`'s format: `\NNN`.
    Format,
    /// `%b` and `echo`: `\0NNN`; `\c` ends the output.
    Echo,
}

/// The result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unescaped {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// `\c` was found: nothing more is written.
    pub ends: bool,
}

/// Replaces all escapes.
pub(crate) fn unescape(text: &str, kind: Kind) -> Unescaped {
    let mut result = Unescaped::default();
    let mut chars = text.chars().peekable();
    let mut room = [0; 4];
    while let Some(c) = chars.next() {
        if c != '\\' {
            result.bytes.extend_from_slice(c.encode_utf8(&mut room).as_bytes());
            continue;
        }
        let Some(c) = chars.next() else {
            result.bytes.push(b'\\');
            break;
        };
        let byte = match c {
            'a' => 7,
            'b' => 8,
            'e' | 'E' if kind != Kind::Format => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            '\'' | '"' if kind != Kind::Echo => c as u8,
            'c' if kind == Kind::Echo => {
                result.ends = true;
                return result;
            }
            'x' if kind != Kind::Format && chars.peek().is_some_and(char::is_ascii_hexdigit) => {
                digits(&mut chars, 16, 2, 0)
            }
            '0' if kind == Kind::Echo => digits(&mut chars, 8, 3, 0),
            '0'..='7' => digits(&mut chars, 8, 2, c.to_digit(8).unwrap_or(0)),
            c => {
                result.bytes.push(b'\\');
                result.bytes.extend_from_slice(c.encode_utf8(&mut room).as_bytes());
                continue;
            }
        };
        result.bytes.push(byte);
    }
    result
}

/// Parses at most `most` more digits after `value`. Returns the low byte of the number.
fn digits(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    most: u32,
    mut value: u32,
) -> u8 {
    for _ in 0..most {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
        value = value * radix + digit;
        chars.next();
    }
    value as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_has_its_own() {
        assert_eq!(unescape(r"a\tb\n", Kind::Format).bytes, b"a\tb\n");
        assert_eq!(unescape(r"\101\0", Kind::Format).bytes, b"A\0");
        assert_eq!(unescape(r"\0101", Kind::Echo).bytes, b"A");
        assert_eq!(unescape(r"\101", Kind::Echo).bytes, b"A");
        assert_eq!(unescape(r"\x41\'\q", Kind::Dollar).bytes, br"A'\q");
        assert!(unescape(r"a\cb", Kind::Echo).ends);
        assert_eq!(unescape(r"a\", Kind::Echo).bytes, br"a\");
        assert_eq!(unescape(r"\777", Kind::Format).bytes, [0o777u32 as u8]);
    }
}
