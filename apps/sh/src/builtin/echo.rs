//! `echo` and `printf`.

use super::format;
use crate::escape::{Kind, unescape};
use crate::shell::{Run, Shell};
use crate::system::System;

impl<S: System> Shell<S> {
    /// `-n`: no newline, `-e`: escapes, `-E`: none.
    pub(super) fn echo(&mut self, arguments: &[String]) -> Run {
        let (mut newline, mut escapes) = (true, false);
        let mut rest = arguments;
        while let Some((first, more)) = rest.split_first() {
            let letters = first.strip_prefix('-').unwrap_or_default();
            if letters.is_empty() || !letters.chars().all(|c| "neE".contains(c)) {
                break;
            }
            for letter in letters.chars() {
                match letter {
                    'n' => newline = false,
                    letter => escapes = letter == 'e',
                }
            }
            rest = more;
        }
        let text = rest.join(" ");
        let mut bytes = text.clone().into_bytes();
        if escapes {
            let escaped = unescape(&text, Kind::Echo);
            newline &= !escaped.ends;
            bytes = escaped.bytes;
        }
        if newline {
            bytes.push(b'\n');
        }
        self.out(&bytes)
    }

    pub(super) fn printf(&mut self, arguments: &[String]) -> Run {
        let arguments = match arguments.split_first() {
            Some((first, more)) if first == "--" => more,
            _ => arguments,
        };
        let Some((format, values)) = arguments.split_first() else {
            return self.misused("printf", "requires a format");
        };
        let formatted = format::format(format, values);
        for why in &formatted.wrong {
            self.say(&format!("printf: {why}"));
        }
        let status = self.out(&formatted.bytes)?;
        Ok(status.max(u32::from(!formatted.wrong.is_empty())))
    }
}
