//! The line editor, for a terminal without echo: bytes of keys go in, bytes for a VT100 come out.
//! Of a line wider than the terminal, only a part is shown.

/// Maximum number of characters of a line.
const LONGEST: usize = 16 * 1024;

/// What a key caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The line is complete.
    Line(String),
    /// Ctrl-d on an empty line.
    End,
    /// Ctrl-c: the line was dropped.
    Dropped,
    /// Tab: [`Editor::before`] should be completed.
    Complete,
}

/// The line being edited.
#[derive(Clone, Debug, Default)]
pub struct Editor {
    prompt: Vec<char>,
    line: Vec<char>,
    cursor: usize,
    width: usize,
    /// Earlier lines, and the index of the one shown; its length: none.
    history: Vec<String>,
    shown: usize,
    /// The line that was typed before an earlier one was shown.
    typed: Vec<char>,
    killed: Vec<char>,
    escape: Escape,
    /// Bytes of an incomplete character.
    partial: Vec<u8>,
    /// The last byte was a carriage return: a newline after it belongs to the same key.
    returned: bool,
}

/// State of an escape sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    No,
    Begun,
    /// After `ESC [` or `ESC O`, with the number so far.
    Sequence(u32),
}

impl Editor {
    /// Starts a line after `prompt`. Output for the terminal is appended to `out`.
    pub fn begin(&mut self, prompt: &str, history: &[String], width: usize, out: &mut Vec<u8>) {
        // All but the last line of a prompt are shown only once.
        let (above, last) = match prompt.rsplit_once('\n') {
            Some((above, last)) => (format!("{above}\n"), last),
            None => (String::new(), prompt),
        };
        out.extend(above.replace('\n', "\r\n").into_bytes());
        self.prompt = last.chars().collect();
        (self.line, self.cursor, self.width) = (Vec::new(), 0, width.max(20));
        (self.history, self.shown) = (history.to_vec(), history.len());
        (self.escape, self.partial) = (Escape::No, Vec::new());
        self.show(out);
    }

    /// Returns the text before the cursor.
    pub fn before(&self) -> String {
        self.line.iter().take(self.cursor).collect()
    }

    /// Replaces the `back` characters before the cursor by `text`.
    pub fn insert(&mut self, back: usize, text: &str, out: &mut Vec<u8>) {
        let from = self.cursor.saturating_sub(back);
        let with: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
        if self.line.len().saturating_add(with.len()) > LONGEST {
            return;
        }
        let length = with.len();
        self.line.splice(from..self.cursor.min(self.line.len()), with);
        self.cursor = from + length;
        self.show(out);
    }

    /// Redraws the line, below other output.
    pub fn show(&self, out: &mut Vec<u8>) {
        let room = self.width.saturating_sub(self.prompt.len() + 1).max(10);
        let from = (self.cursor + 1).saturating_sub(room);
        let visible: String = self.line.iter().skip(from).take(room).collect();
        let prompt: String = self.prompt.iter().collect();
        out.extend(format!("\r{prompt}{visible}\x1b[K").into_bytes());
        let behind = visible.chars().count().saturating_sub(self.cursor - from);
        if behind > 0 {
            out.extend(format!("\x1b[{behind}D").into_bytes());
        }
    }

    /// Handles a typed byte.
    pub fn byte(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Event> {
        let returned = std::mem::replace(&mut self.returned, byte == b'\r');
        match (self.escape.clone(), byte) {
            (Escape::No, b'\n') if returned => None,
            (Escape::No, 0x1b) => {
                self.escape = Escape::Begun;
                None
            }
            (Escape::No, byte) => self.key(byte, out),
            (Escape::Begun, b'[' | b'O') => {
                self.escape = Escape::Sequence(0);
                None
            }
            (Escape::Begun, byte) => {
                self.escape = Escape::No;
                match byte {
                    b'b' => self.go(self.word_left(), out),
                    b'f' => self.go(self.word_right(), out),
                    _ => None,
                }
            }
            (Escape::Sequence(number), digit @ b'0'..=b'9') => {
                let next = number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
                self.escape = Escape::Sequence(next);
                None
            }
            // The parameter after `;` encodes shift, alt and control; it is ignored.
            (Escape::Sequence(_), b';') => {
                self.escape = Escape::Sequence(0);
                None
            }
            (Escape::Sequence(number), byte) => {
                self.escape = Escape::No;
                self.special(number, byte, out)
            }
        }
    }

    /// Handles a key that sends `ESC [ NUMBER BYTE`.
    fn special(&mut self, number: u32, byte: u8, out: &mut Vec<u8>) -> Option<Event> {
        match (byte, number) {
            (b'A', _) => self.earlier(out),
            (b'B', _) => self.later(out),
            (b'C', 5) => self.go(self.word_right(), out),
            (b'D', 5) => self.go(self.word_left(), out),
            (b'C', _) => self.go(self.cursor + 1, out),
            (b'D', _) => self.go(self.cursor.saturating_sub(1), out),
            (b'H', _) | (b'~', 1 | 7) => self.go(0, out),
            (b'F', _) | (b'~', 4 | 8) => self.go(self.line.len(), out),
            (b'~', 3) => self.cut(self.cursor, self.cursor + 1, false, out),
            _ => None,
        }
    }

    fn key(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Event> {
        const fn control(letter: u8) -> u8 {
            letter & 0x1f
        }
        const A: u8 = control(b'a');
        const B: u8 = control(b'b');
        const C: u8 = control(b'c');
        const D: u8 = control(b'd');
        const E: u8 = control(b'e');
        const F: u8 = control(b'f');
        const K: u8 = control(b'k');
        const L: u8 = control(b'l');
        const N: u8 = control(b'n');
        const P: u8 = control(b'p');
        const U: u8 = control(b'u');
        const W: u8 = control(b'w');
        const Y: u8 = control(b'y');
        match byte {
            b'\r' | b'\n' => {
                self.go(self.line.len(), out);
                out.extend_from_slice(b"\r\n");
                Some(Event::Line(self.drop_line()))
            }
            b'\t' => Some(Event::Complete),
            0x7f | 0x08 => self.cut(self.cursor.saturating_sub(1), self.cursor, false, out),
            A => self.go(0, out),
            B => self.go(self.cursor.saturating_sub(1), out),
            C => {
                out.extend_from_slice(b"^C\r\n");
                self.drop_line();
                Some(Event::Dropped)
            }
            D if self.line.is_empty() => {
                out.extend_from_slice(b"\r\n");
                Some(Event::End)
            }
            D => self.cut(self.cursor, self.cursor + 1, false, out),
            E => self.go(self.line.len(), out),
            F => self.go(self.cursor + 1, out),
            K => self.cut(self.cursor, self.line.len(), true, out),
            U => self.cut(0, self.cursor, true, out),
            W => self.cut(self.blank_left(), self.cursor, true, out),
            Y => {
                let killed: String = self.killed.iter().collect();
                self.insert(0, &killed, out);
                None
            }
            L => {
                out.extend_from_slice(b"\x1b[H\x1b[2J");
                self.show(out);
                None
            }
            P => self.earlier(out),
            N => self.later(out),
            0..=0x1f => None,
            byte => {
                self.character(byte, out);
                None
            }
        }
    }

    fn drop_line(&mut self) -> String {
        (self.cursor, self.shown) = (0, self.history.len());
        std::mem::take(&mut self.line).into_iter().collect()
    }

    /// Handles a byte of a character, which is inserted when complete.
    fn character(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let text = text.to_string();
                self.partial.clear();
                self.typed_text(&text, out);
            }
            Err(error) if error.error_len().is_some() || self.partial.len() >= 4 => {
                self.partial.clear();
            }
            Err(_) => {}
        }
    }

    fn typed_text(&mut self, text: &str, out: &mut Vec<u8>) {
        let at_end = self.cursor == self.line.len();
        let fits = self.prompt.len() + self.line.len() + 2 < self.width;
        if at_end && fits && self.line.len() < LONGEST {
            self.line.extend(text.chars());
            self.cursor = self.line.len();
            out.extend_from_slice(text.as_bytes());
        } else {
            self.insert(0, text, out);
        }
    }

    fn go(&mut self, to: usize, out: &mut Vec<u8>) -> Option<Event> {
        let to = to.min(self.line.len());
        if to != self.cursor {
            self.cursor = to;
            self.show(out);
        }
        None
    }

    fn cut(&mut self, from: usize, to: usize, keep: bool, out: &mut Vec<u8>) -> Option<Event> {
        let to = to.min(self.line.len());
        if from < to {
            let cut: Vec<char> = self.line.drain(from..to).collect();
            self.cursor = from;
            if keep {
                self.killed = cut;
            }
            self.show(out);
        }
        None
    }

    fn earlier(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        if self.shown > 0 {
            if self.shown == self.history.len() {
                self.typed = self.line.clone();
            }
            self.recall(self.shown - 1, out);
        }
        None
    }

    fn later(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        if self.shown < self.history.len() {
            self.recall(self.shown + 1, out);
        }
        None
    }

    fn recall(&mut self, which: usize, out: &mut Vec<u8>) {
        self.shown = which;
        self.line = match self.history.get(which) {
            Some(line) => line.chars().filter(|c| !c.is_control()).collect(),
            None => std::mem::take(&mut self.typed),
        };
        self.cursor = self.line.len();
        self.show(out);
    }

    /// Returns the start of the blank-separated word before the cursor.
    fn blank_left(&self) -> usize {
        self.left_of(|c| !c.is_whitespace())
    }

    fn word_left(&self) -> usize {
        self.left_of(char::is_alphanumeric)
    }

    fn left_of(&self, part: impl Fn(char) -> bool) -> usize {
        let is_part = |at: usize| self.line.get(at).is_some_and(|c| part(*c));
        let mut at = self.cursor;
        while at > 0 && !is_part(at - 1) {
            at -= 1;
        }
        while at > 0 && is_part(at - 1) {
            at -= 1;
        }
        at
    }

    fn word_right(&self) -> usize {
        let is_part = |at: usize| self.line.get(at).is_some_and(|c| c.is_alphanumeric());
        let mut at = self.cursor;
        while at < self.line.len() && !is_part(at) {
            at += 1;
        }
        while at < self.line.len() && is_part(at) {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(history: &[&str], keys: &[u8]) -> (Vec<Event>, Editor) {
        let history: Vec<String> = history.iter().map(|h| h.to_string()).collect();
        let (mut editor, mut out) = (Editor::default(), Vec::new());
        editor.begin("$ ", &history, 80, &mut out);
        let events = keys.iter().filter_map(|b| editor.byte(*b, &mut out)).collect();
        (events, editor)
    }

    fn line(history: &[&str], keys: &[u8]) -> String {
        match typed(history, keys).0.as_slice() {
            [Event::Line(line)] => line.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn keys_change_the_line() {
        let cases: &[(&[u8], &str)] = &[
            (b"echo\r", "echo"),
            (b"ecoh\x7f\x7fho\n", "echo"),
            (b"bc\x01a\x05d\r", "abcd"),
            (b"ab\x1b[DX\r", "aXb"),
            (b"ab\x1b[D\x1b[CX\r", "abX"),
            (b"ab\x1b[HX\r", "Xab"),
            (b"ab\x1bOHX\x1bOFY\r", "XabY"),
            (b"ab\x1b[1~\x1b[3~\r", "b"),
            (b"a b c\x17X\r", "a b X"),
            (b"abc\x15X\r", "X"),
            (b"abc\x01\x06\x0b\r", "a"),
            (b"abc\x15\x19\x19\r", "abcabc"),
            (b"one two\x1bbX\r", "one Xtwo"),
            (b"one two\x01\x1bfX\r", "oneX two"),
            ("ä\x7fö\r".as_bytes(), "ö"),
            (b"a\x04b\r", "ab"),
            (b"ab\x01\x04\r", "b"),
            (b"a\xff\xffb\r", "ab"),
            (b"a\x1b[99;5Zb\r", "ab"),
            (b"one two\x1b[1;5DX\r", "one Xtwo"),
        ];
        for (keys, expected) in cases {
            assert_eq!(line(&[], keys), *expected, "{keys:?}");
        }
    }

    #[test]
    fn earlier_lines_come_back() {
        let history = ["first", "second"];
        assert_eq!(line(&history, b"\x1b[A\r"), "second");
        assert_eq!(line(&history, b"\x1b[A\x1b[A\x1b[A\r"), "first");
        assert_eq!(line(&history, b"new\x1b[A\x1b[B\r"), "new");
        assert_eq!(line(&history, b"\x10\x10\x0eX\r"), "secondX");
    }

    #[test]
    fn other_ends_of_a_line() {
        assert_eq!(typed(&[], b"\x04").0, [Event::End]);
        assert_eq!(typed(&[], b"abc\x03").0, [Event::Dropped]);
        assert_eq!(typed(&[], b"a\r\nb\r").0.len(), 2);
        let (events, mut editor) = typed(&[], b"cat fo\t");
        assert_eq!((events, editor.before()), (vec![Event::Complete], "cat fo".to_string()));
        editor.insert(2, "food ", &mut Vec::new());
        assert_eq!(editor.before(), "cat food ");
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let (mut editor, mut out) = (Editor::default(), Vec::new());
        editor.begin("$ ", &[], 20, &mut out);
        for byte in b"0123456789abcdefghijklmnopqrstuvwxyz" {
            editor.byte(*byte, &mut out);
        }
        out.clear();
        editor.show(&mut out);
        let shown = String::from_utf8_lossy(&out).replace('\r', "").replace("\x1b[K", "");
        assert!(shown.chars().count() < 20 && shown.ends_with("xyz"), "{shown:?}");
    }

    #[test]
    fn any_bytes_are_taken() {
        let mut seed = 1u64;
        let (mut editor, mut out) = (Editor::default(), Vec::new());
        editor.begin("$ ", &["old".to_string()], 30, &mut out);
        for _ in 0..200_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            editor.byte((seed >> 33) as u8 & 0x7f, &mut out);
            out.clear();
        }
    }
}
