//! Keys of a terminal, and what becomes of them.
//!
//! Contract: pure. A terminal whose programs want lines shows what is typed and lets it be
//! corrected; they get a line when it is complete. One whose programs want keys shows nothing. What
//! a key leads to is one [`Deed`]; any byte is a key, and a line is bounded.
//!
//! | key | lines | keys |
//! | --- | --- | --- |
//! | return | the line goes to the program | the key |
//! | backspace, ctrl-u | takes a character off, all of it | the key |
//! | ctrl-c | drops the line, ends the programs in front | the key |
//! | ctrl-d | an end, or what was typed so far | the key |
//! | arrows and such | nothing | the key |
//! | [`AWAY`] | to the monitor and back | the same |

#![cfg_attr(not(test), no_std)]

extern crate alloc;

use alloc::vec::Vec;

/// Ctrl-t: to the monitor, and back.
pub const AWAY: u8 = 0x14;
/// Longest line, with its end.
pub const LINE: usize = 4096;

/// What a key leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Nothing.
    Nothing,
    /// This is shown.
    Show(Vec<u8>),
    /// Programs get these bytes; was it a line, which is shown to end?
    Give(Vec<u8>, bool),
    /// Programs find an end of their input.
    End,
    /// The programs in front are to end.
    Interrupt,
    /// To the monitor.
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    No,
    Started,
    Sequence,
}

/// A terminal's keyboard.
#[derive(Debug)]
pub struct Keys {
    line: Vec<u8>,
    /// Inside of an escape sequence, which means nothing in a line.
    escape: Escape,
    /// A line feed right behind a return is one key with it.
    after_return: bool,
}

impl Default for Keys {
    fn default() -> Self {
        Keys::new()
    }
}

impl Keys {
    /// Nothing was pressed.
    pub const fn new() -> Keys {
        Keys { line: Vec::new(), escape: Escape::No, after_return: false }
    }

    /// A key is pressed, and programs want keys (`raw`) or lines.
    pub fn press(&mut self, byte: u8, raw: bool) -> Deed {
        if byte == AWAY {
            return Deed::Away;
        }
        if raw {
            // What was typed while lines were wanted comes first.
            self.line.push(byte);
            (self.escape, self.after_return) = (Escape::No, false);
            return Deed::Give(core::mem::take(&mut self.line), false);
        }
        let after_return = core::mem::replace(&mut self.after_return, byte == b'\r');
        match (self.escape, byte) {
            (Escape::Started, b'[' | b'O') => self.skip(Escape::Sequence),
            (Escape::Started, _) | (Escape::Sequence, 0x40..=0x7e) => self.skip(Escape::No),
            (Escape::Sequence, _) => Deed::Nothing,
            (Escape::No, b'\n') if after_return => Deed::Nothing,
            (Escape::No, _) => self.edit(byte),
        }
    }

    fn skip(&mut self, escape: Escape) -> Deed {
        self.escape = escape;
        Deed::Nothing
    }

    fn edit(&mut self, byte: u8) -> Deed {
        match byte {
            0x1b => self.skip(Escape::Started),
            b'\r' | b'\n' => {
                self.line.push(b'\n');
                Deed::Give(core::mem::take(&mut self.line), true)
            }
            0x03 => {
                self.line.clear();
                Deed::Interrupt
            }
            0x04 if self.line.is_empty() => Deed::End,
            0x04 => Deed::Give(core::mem::take(&mut self.line), false),
            0x15 => self.erase(usize::MAX),
            0x08 | 0x7f => self.erase(1),
            b'\t' | 0x20.. if self.line.len() < LINE - 1 => {
                self.line.push(byte);
                Deed::Show(Vec::from([byte]))
            }
            _ => Deed::Show(Vec::from(*b"\x07")),
        }
    }

    /// Takes characters off the end: of one column each, and of one byte or several.
    fn erase(&mut self, most: usize) -> Deed {
        let mut shown = Vec::new();
        while shown.len() < most.saturating_mul(3) {
            let Some(last) = self.line.pop() else { break };
            let is_continued = last & 0xc0 == 0x80;
            if !is_continued {
                shown.extend_from_slice(b"\x08 \x08");
            }
        }
        if shown.is_empty() { Deed::Nothing } else { Deed::Show(shown) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that programs got, and all that was shown.
    fn typed(text: &[u8], raw: bool) -> (Vec<u8>, Vec<u8>) {
        let (mut keys, mut given, mut shown) = (Keys::new(), vec![], vec![]);
        for &byte in text {
            match keys.press(byte, raw) {
                Deed::Give(bytes, _) => given.extend(bytes),
                Deed::Show(bytes) => shown.extend(bytes),
                _ => {}
            }
        }
        (given, shown)
    }

    #[test]
    fn lines_come_when_they_are_complete() {
        assert_eq!(typed(b"hello", false), (vec![], b"hello".to_vec()));
        assert_eq!(typed(b"a b\r\nc\rd\n", false).0, b"a b\nc\nd\n");
        assert_eq!(typed(b"ab\x7fc\r", false).0, b"ac\n");
        assert_eq!(typed(b"\x7f\x7fa\x15bc\r", false).0, b"bc\n");
        assert_eq!(typed(b"a\x1b[Ab\x1bOBc\x1b[1;5Cd\r", false).0, b"abcd\n");
        assert_eq!(typed(b"\x1b[A", false).1, b"");
    }

    #[test]
    fn a_character_of_several_bytes_goes_as_one() {
        let (given, shown) = typed("aäü\x7f\r".as_bytes(), false);
        assert_eq!(given, "aä\n".as_bytes());
        assert_eq!(shown, "aäü\x08 \x08".as_bytes());
    }

    #[test]
    fn control_keys_do_what_they_say() {
        let mut keys = Keys::new();
        assert_eq!(keys.press(4, false), Deed::End);
        assert_eq!(keys.press(b'a', false), Deed::Show(b"a".to_vec()));
        assert_eq!(keys.press(4, false), Deed::Give(b"a".to_vec(), false));
        keys.press(b'b', false);
        assert_eq!(keys.press(3, false), Deed::Interrupt);
        assert_eq!(keys.press(b'\r', false), Deed::Give(b"\n".to_vec(), true));
        assert_eq!(keys.press(AWAY, false), Deed::Away);
        assert_eq!(keys.press(AWAY, true), Deed::Away);
    }

    #[test]
    fn keys_come_as_they_are_and_behind_what_was_typed_before() {
        assert_eq!(typed(b"a\x1b[A\x03\r\x04", true), (b"a\x1b[A\x03\r\x04".to_vec(), vec![]));
        let mut keys = Keys::new();
        keys.press(b'l', false);
        assert_eq!(keys.press(b's', true), Deed::Give(b"ls".to_vec(), false));
    }

    #[test]
    fn a_line_is_bounded() {
        let (given, shown) = typed(&[b"x".repeat(LINE + 10), b"\r".to_vec()].concat(), false);
        assert_eq!(given.len(), LINE);
        assert_eq!(shown.iter().filter(|byte| **byte == 7).count(), 11);
    }
}
