//! The keyboard side of a terminal: turns key presses into lines or raw keys for programs.
//!
//! Contract: pure. In line mode the terminal echoes and edits, and programs receive complete lines;
//! in raw mode it echoes nothing. Each key causes one [`KeyAction`]. Any byte is a valid key, and
//! the length of a line is limited.
//!
//! | key | line mode | raw mode |
//! | --- | --- | --- |
//! | return | sends the line to the program | sends the key |
//! | backspace, ctrl-u | erases a character, the line | sends the key |
//! | ctrl-c | drops the line, interrupts the foreground programs | sends the key |
//! | ctrl-d | end of input, or sends the incomplete line | sends the key |
//! | arrows and other escape sequences | nothing | sends the key |
//! | [`MONITOR_KEY`] | switches to the monitor and back | the same |

#![cfg_attr(not(test), no_std)]

extern crate alloc;

use alloc::vec::Vec;

/// Ctrl-t, which switches to the monitor and back.
pub const MONITOR_KEY: u8 = 0x14;
/// Limit on the length of a line, including its line feed.
pub const LINE: usize = 4096;

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAction {
    Nothing,
    /// Echo these bytes.
    Echo(Vec<u8>),
    /// Send these bytes to programs; true for a complete line, whose end is echoed.
    Send(Vec<u8>, bool),
    /// Programs see the end of their input.
    EndOfInput,
    /// Interrupt the foreground programs.
    Interrupt,
    /// Switch to the monitor.
    Monitor,
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
    pub fn press(&mut self, byte: u8, raw: bool) -> KeyAction {
        if byte == MONITOR_KEY {
            return KeyAction::Monitor;
        }
        if raw {
            // Sends what was typed in line mode first.
            self.line.push(byte);
            (self.escape, self.after_return) = (Escape::No, false);
            return KeyAction::Send(core::mem::take(&mut self.line), false);
        }
        let after_return = core::mem::replace(&mut self.after_return, byte == b'\r');
        match (self.escape, byte) {
            (Escape::Started, b'[' | b'O') => self.skip(Escape::Sequence),
            (Escape::Started, _) | (Escape::Sequence, 0x40..=0x7e) => self.skip(Escape::No),
            (Escape::Sequence, _) => KeyAction::Nothing,
            (Escape::No, b'\n') if after_return => KeyAction::Nothing,
            (Escape::No, _) => self.edit(byte),
        }
    }

    fn skip(&mut self, escape: Escape) -> KeyAction {
        self.escape = escape;
        KeyAction::Nothing
    }

    fn edit(&mut self, byte: u8) -> KeyAction {
        match byte {
            0x1b => self.skip(Escape::Started),
            b'\r' | b'\n' => {
                self.line.push(b'\n');
                KeyAction::Send(core::mem::take(&mut self.line), true)
            }
            0x03 => {
                self.line.clear();
                KeyAction::Interrupt
            }
            0x04 if self.line.is_empty() => KeyAction::EndOfInput,
            0x04 => KeyAction::Send(core::mem::take(&mut self.line), false),
            0x15 => self.erase(usize::MAX),
            0x08 | 0x7f => self.erase(1),
            b'\t' | 0x20.. if self.line.len() < LINE - 1 => {
                self.line.push(byte);
                KeyAction::Echo(Vec::from([byte]))
            }
            _ => KeyAction::Echo(Vec::from(*b"\x07")),
        }
    }

    /// Erases up to `most` characters, each of one column and one or more bytes.
    fn erase(&mut self, most: usize) -> KeyAction {
        let mut shown = Vec::new();
        while shown.len() < most.saturating_mul(3) {
            let Some(last) = self.line.pop() else { break };
            let is_continued = last & 0xc0 == 0x80;
            if !is_continued {
                shown.extend_from_slice(b"\x08 \x08");
            }
        }
        if shown.is_empty() { KeyAction::Nothing } else { KeyAction::Echo(shown) }
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
                KeyAction::Send(bytes, _) => given.extend(bytes),
                KeyAction::Echo(bytes) => shown.extend(bytes),
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
        assert_eq!(keys.press(4, false), KeyAction::EndOfInput);
        assert_eq!(keys.press(b'a', false), KeyAction::Echo(b"a".to_vec()));
        assert_eq!(keys.press(4, false), KeyAction::Send(b"a".to_vec(), false));
        keys.press(b'b', false);
        assert_eq!(keys.press(3, false), KeyAction::Interrupt);
        assert_eq!(keys.press(b'\r', false), KeyAction::Send(b"\n".to_vec(), true));
        assert_eq!(keys.press(MONITOR_KEY, false), KeyAction::Monitor);
        assert_eq!(keys.press(MONITOR_KEY, true), KeyAction::Monitor);
    }

    #[test]
    fn raw_keys_are_sent_unchanged_after_earlier_input() {
        assert_eq!(typed(b"a\x1b[A\x03\r\x04", true), (b"a\x1b[A\x03\r\x04".to_vec(), vec![]));
        let mut keys = Keys::new();
        keys.press(b'l', false);
        assert_eq!(keys.press(b's', true), KeyAction::Send(b"ls".to_vec(), false));
    }

    #[test]
    fn a_line_is_bounded() {
        let (given, shown) = typed(&[b"x".repeat(LINE + 10), b"\r".to_vec()].concat(), false);
        assert_eq!(given.len(), LINE);
        assert_eq!(shown.iter().filter(|byte| **byte == 7).count(), 11);
    }
}
