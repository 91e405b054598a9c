//! `read`: reads a line into variables.

use crate::ast::is_name;
use crate::shell::{Run, Shell, Slot};
use crate::system::System;
use penumbra::Errno;
use std::rc::Rc;

/// Maximum length of a line in bytes.
const LINE: usize = 1 << 20;
/// Bytes read at a time if the excess can be given back.
const STEP: usize = 256;

impl<S: System> Shell<S> {
    /// `read [-r] [-p PROMPT] [NAME...]`
    pub(super) fn read(&mut self, arguments: &[String]) -> Run {
        let (mut raw, mut prompt, mut rest) = (false, None, arguments);
        while let Some((first, more)) = rest.split_first() {
            match first.as_str() {
                "-r" => raw = true,
                "-p" => {
                    prompt = more.first().cloned();
                    rest = more.get(1..).unwrap_or_default();
                    continue;
                }
                "--" => {
                    rest = more;
                    break;
                }
                _ => break,
            }
            rest = more;
        }
        if let Some(bad) = rest.iter().find(|name| !is_name(name)) {
            return self.misused("read", &format!("{bad}: not a valid name"));
        }
        if let Some(prompt) = prompt {
            // An error is ignored: it could only be reported to the same descriptor.
            let _ = self.put(2, prompt.as_bytes());
        }
        let (chars, ended) = match self.line(raw) {
            Ok(read) => read,
            Err(error) => {
                self.say(&format!("read: {error}"));
                return Ok(1);
            }
        };
        let default = ["REPLY".to_string()];
        let names = if rest.is_empty() { &default } else { rest };
        let mut fields = self.cut(&chars, names.len()).into_iter();
        for name in names {
            let value = fields.next().unwrap_or_default();
            self.assign(name, &value)?;
        }
        Ok(u32::from(!ended))
    }

    /// Reads a line. Returns each character with whether a backslash preceded it, and whether the
    /// line has a newline.
    fn line(&mut self, raw: bool) -> Result<(Vec<(char, bool)>, bool), Errno> {
        let Some(Slot::File(file)) = self.slots.get(&0).cloned() else { return Err(Errno::BADF) };
        let mut bytes = Vec::new();
        loop {
            let ended = self.raw_line(&file, &mut bytes)?;
            // A trailing backslash joins the next line.
            let slashes = bytes.iter().rev().take_while(|b| **b == b'\\').count();
            if ended && !raw && slashes % 2 == 1 {
                bytes.pop();
                continue;
            }
            let text = String::from_utf8_lossy(&bytes).replace('\0', "");
            return Ok((unescaped(&text, raw), ended));
        }
    }

    /// Reads bytes up to a newline, which is consumed and dropped.
    fn raw_line(&mut self, file: &Rc<S::File>, into: &mut Vec<u8>) -> Result<bool, Errno> {
        // The next reader of the file must find what follows the line.
        let can_step = self.system.step_back(file, 0);
        let mut room = [0; STEP];
        loop {
            let most = if can_step { STEP } else { 1 };
            let part = room.get_mut(..most).unwrap_or_default();
            let read = self.system.read(file, part)?;
            let part = part.get(..read).unwrap_or_default();
            if let Some(at) = part.iter().position(|b| *b == b'\n') {
                into.extend_from_slice(part.get(..at).unwrap_or_default());
                let behind = read.saturating_sub(at + 1);
                if behind > 0 {
                    self.system.step_back(file, behind);
                }
                return Ok(true);
            }
            into.extend_from_slice(part);
            if read == 0 || into.len() >= LINE {
                return Ok(false);
            }
        }
    }
}

fn unescaped(text: &str, raw: bool) -> Vec<(char, bool)> {
    if raw {
        return text.chars().map(|c| (c, false)).collect();
    }
    let (mut found, mut chars) = (Vec::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => found.extend(chars.next().map(|c| (c, true))),
            c => found.push((c, false)),
        }
    }
    found
}
