//! The monitor's line editor: takes bytes, returns what to echo, and collects lines. No I/O.

use crate::commands::LINE;

/// A line under edit.
pub struct Line {
    bytes: [u8; LINE],
    length: usize,
    /// The state within an escape sequence; these are ignored.
    escape: Escape,
    /// The last byte was `\r`: a `\n` now belongs to the same line end.
    after_return: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    Started,
    Sequence,
}

/// What to do after a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Echo this byte.
    Echo(u8),
    /// Take the last character off the screen.
    Erase,
    /// Take the whole line off the screen: this many characters.
    EraseAll(usize),
    /// Execute the line, which is complete; see [`Line::text`].
    Enter,
    /// The line was cancelled (ctrl-c).
    Cancel,
    /// Ring the bell: the line is full, or the byte has no meaning.
    Refuse,
    /// Nothing.
    Nothing,
}

impl Line {
    /// Creates an empty line.
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

    /// Returns the line. Call [`Line::reset`] after [`Edit::Enter`].
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }

    /// Empties the line.
    pub fn reset(&mut self) {
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds all bytes, and returns what the last one did.
    fn feed(line: &mut Line, bytes: &[u8]) -> Edit {
        bytes.iter().fold(Edit::Nothing, |_, &byte| line.feed(byte))
    }

    #[test]
    fn a_line_is_edited_until_it_is_entered() {
        let mut line = Line::new();
        assert_eq!(feed(&mut line, b"pingg"), Edit::Echo(b'g'));
        assert_eq!(line.feed(0x7f), Edit::Erase);
        assert_eq!(line.text(), "ping");
        assert_eq!(line.feed(b'\r'), Edit::Enter);
        line.reset();
        assert_eq!(line.feed(b'\n'), Edit::Nothing, "the same end of line");
        assert_eq!(line.feed(b'\n'), Edit::Enter, "an empty line");
        assert_eq!(line.feed(0x7f), Edit::Refuse, "there is nothing to erase");
    }

    #[test]
    fn escape_sequences_leave_no_characters() {
        let mut line = Line::new();
        feed(&mut line, b"a\x1b[Ab\x1bOPc\x1b[1;5Cd\x1bxe");
        assert_eq!(line.text(), "abcde");
    }

    #[test]
    fn a_full_line_refuses_more() {
        let mut line = Line::new();
        feed(&mut line, &[b'x'; LINE]);
        assert_eq!(line.feed(b'y'), Edit::Refuse);
        assert_eq!(line.text().len(), LINE);
        assert_eq!(line.feed(0x15), Edit::EraseAll(LINE));
        assert_eq!(line.text(), "");
        feed(&mut line, b"panic");
        assert_eq!((line.feed(3), line.text()), (Edit::Cancel, ""));
    }
}
