//! The keyboard side of a terminal: turns key presses into lines or raw keys for programs.
//!
//! Contract: pure. In line mode the terminal echoes and edits, and programs receive complete lines;
//! in raw mode it echoes nothing. Each key causes one [`Deed`]. Any byte is a valid key, and
//! the length of a line is limited.
//!
//! | key | line mode | raw mode |
//! | --- | --- | --- |
//! | return | sends the line to the program | sends the key |
//! | backspace, ctrl-u | erases a character, the line | sends the key |
//! | ctrl-c | drops the line, interrupts the foreground programs | sends the key |
//! | ctrl-d | end of input, or sends the incomplete line | sends the key |
//! | arrows and other escape sequences | nothing | sends the key |
//! | [`AWAY`] | switches to the monitor and back | the same |

#![cfg_attr(not(test), no_std)]

extern crate alloc;

use alloc::vec::Vec;

/// Ctrl-t, which switches to the monitor and back.
pub const AWAY: u8 = 0x14;
/// Limit on the length of a line, including its line feed.
pub const LINE: usize = 4096;

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Nothing,
    /// Echo these bytes.
    Show(Vec<u8>),
    /// Send these bytes to programs; true for a complete line, whose end is echoed.
    Give(Vec<u8>, bool),
    /// Programs see the end of their input.
    End,
    /// Interrupt the foreground programs.
    Interrupt,
    /// Switch to the monitor.
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    No,
    Started,
    Sequence,
}

/// The keyboard of a terminal.
#[derive(Debug)]
pub struct Keys {
    line: Vec<u8>,
    /// Escape sequences are ignored in line mode.
    escape: Escape,
    /// A line feed immediately after a return belongs to it.
    after_return: bool,
}

impl Default for Keys {
    fn default() -> Self {
        Keys::new()
    }
}

impl Keys {
    pub const fn new() -> Keys {
        Keys { line: Vec::new(), escape: Escape::No, after_return: false }
    }

    /// Handles a key in raw or line mode.
    pub fn press(&mut self, byte: u8, raw: bool) -> Deed {
        if byte == AWAY {
            return Deed::Away;
        }
        if raw {
            // Sends what was typed in line mode first.
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

    /// Erases up to `most` characters, each of one column and one or more bytes.
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

    /// Returns all that programs received, and all that was echoed.
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
    fn programs_receive_complete_edited_lines() {
        assert_eq!(typed(b"hello", false), (vec![], b"hello".to_vec()));
        assert_eq!(typed(b"a b\r\nc\rd\n", false).0, b"a b\nc\nd\n");
        assert_eq!(typed(b"ab\x7fc\r", false).0, b"ac\n");
        assert_eq!(typed(b"\x7f\x7fa\x15bc\r", false).0, b"bc\n");
        assert_eq!(typed(b"a\x1b[Ab\x1bOBc\x1b[1;5Cd\r", false).0, b"abcd\n");
        assert_eq!(typed(b"\x1b[A", false).1, b"");
    }

    #[test]
    fn a_multi_byte_character_is_erased_as_one() {
        let (given, shown) = typed("aäü\x7f\r".as_bytes(), false);
        assert_eq!(given, "aä\n".as_bytes());
        assert_eq!(shown, "aäü\x08 \x08".as_bytes());
    }

    #[test]
    fn control_keys_have_their_effects() {
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
    fn raw_keys_are_sent_unchanged_after_earlier_input() {
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
