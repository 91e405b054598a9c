//! The monitor's line editor: bytes in, echo and lines out. No I/O of its own.

use crate::commands::LINE;

/// A line under edit.
pub struct Line {
    bytes: [u8; LINE],
    length: usize,
    /// Inside of an escape sequence, which is dropped.
    escape: Escape,
    /// A `\n` right after `\r` belongs to the same line end.
    after_return: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    Started,
    Sequence,
}

/// What a byte led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Echo this byte.
    Echo(u8),
    /// Take the last character off the screen.
    Erase,
    /// Take the whole line off the screen: this many characters.
    EraseAll(usize),
    /// A line is complete; see [`Line::take`].
    Enter,
    /// Abandon the line (ctrl-c).
    Cancel,
    /// The line is as long as it can be, or the byte means nothing here.
    Refuse,
    /// Nothing to show.
    Nothing,
}

impl Line {
    /// Empty.
    pub const fn new() -> Self {
        Line { bytes: [0; LINE], length: 0, escape: Escape::No, after_return: false }
    }

    /// Takes one byte of input.
    pub fn feed(&mut self, byte: u8) -> Edit {
        let after_return = core::mem::replace(&mut self.after_return, byte == b'\r');
        match (self.escape, byte) {
            (Escape::Started, b'[' | b'O') => return self.skip(Escape::Sequence),
            (Escape::Started, _) => return self.skip(Escape::No),
            (Escape::Sequence, 0x40..=0x7e) => return self.skip(Escape::No),
            (Escape::Sequence, _) => return Edit::Nothing,
            (Escape::No, _) => {}
        }
        match byte {
            0x1b => self.skip(Escape::Started),
            b'\n' if after_return => Edit::Nothing,
            b'\r' | b'\n' => Edit::Enter,
            0x03 => self.clear(Edit::Cancel),
            0x15 => self.clear(Edit::EraseAll(self.length)),
            0x08 | 0x7f if self.length > 0 => {
                self.length -= 1;
                Edit::Erase
            }
            0x20..=0x7e if self.length < LINE => {
                self.bytes[self.length] = byte;
                self.length += 1;
                Edit::Echo(byte)
            }
            _ => Edit::Refuse,
        }
    }

    fn skip(&mut self, escape: Escape) -> Edit {
        self.escape = escape;
        Edit::Nothing
    }

    fn clear(&mut self, edit: Edit) -> Edit {
        self.length = 0;
        edit
    }

    /// The line, for the moment; [`Line::reset`] afterwards.
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }

    /// Empties it.
    pub fn reset(&mut self) {
        self.length = 0;
    }
}
