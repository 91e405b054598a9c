//! POSIX options: letters after a dash, several in one word, values after their letter.

/// Parsed options in order, and the operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Letters with their values.
    pub all: Vec<(char, String)>,
    /// Operands.
    pub rest: Vec<String>,
}

impl Options {
    /// Parses `words`; the letters in `valued` take a value. The first operand ends the options, or
    /// with `mixed` only `--` does.
    pub fn of(words: &[String], valued: &str, mixed: bool) -> Result<Options, String> {
        let mut found = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("-") => break,
                Some(flags) if !flags.is_empty() => found.word(flags, valued, &mut words)?,
                _ => {
                    found.rest.push(word.clone());
                    if !mixed {
                        break;
                    }
                }
            }
        }
        found.rest.extend(words.cloned());
        Ok(found)
    }

    /// Parses the letters of one word.
    fn word<'a>(
        &mut self,
        flags: &str,
        valued: &str,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let mut letters = flags.chars();
        while let Some(letter) = letters.next() {
            if !valued.contains(letter) {
                self.all.push((letter, String::new()));
                continue;
            }
            let value = match letters.as_str() {
                "" => words.next().cloned().ok_or(format!("-{letter} requires a value"))?,
                text => text.to_string(),
            };
            self.all.push((letter, value));
            break;
        }
        Ok(())
    }
}

/// Parses an option's value, a number above 0.
pub fn number(letter: char, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or(format!("-{letter} {value}: not a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, mixed: bool) -> Result<(String, String), String> {
        let words: Vec<String> = text.split(' ').map(String::from).collect();
        let found = Options::of(&words, "en", mixed)?;
        let all = found.all.iter().map(|(letter, value)| format!("{letter}{value}"));
        Ok((all.collect::<Vec<_>>().join(" "), found.rest.join(" ")))
    }

    #[test]
    fn letters_and_their_values() {
        for (text, mixed, all, rest) in [
            ("-ab -n 2 c -d", false, "a b n2", "c -d"),
            ("-ab -n2 c -d", true, "a b n2 d", "c"),
            ("-ae-x - -- -d", true, "a e-x", "- -d"),
            ("-- -a", false, "", "-a"),
            ("-", false, "", "-"),
        ] {
            assert_eq!(of(text, mixed), Ok((all.into(), rest.into())), "{text}");
        }
        assert!(of("-an", true).is_err());
        assert_eq!(number('n', "7"), Ok(7));
        assert!(["0", "-1", "x", ""].into_iter().all(|text| number('n', text).is_err()));
    }
}
