//! Options as POSIX writes them: letters behind a dash, several in one word, values behind theirs.

/// Options in their order, with the values of those that have one, and what is no option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Letters and values.
    pub all: Vec<(char, String)>,
    /// All else.
    pub rest: Vec<String>,
}

impl Options {
    /// Of these words; `valued` are the letters that have a value. The first word that is no option
    /// ends them, or with `mixed` only `--` does.
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

    /// The letters of one word.
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
                "" => words.next().cloned().ok_or(format!("-{letter} wants a value"))?,
                text => text.to_string(),
            };
            self.all.push((letter, value));
            break;
        }
        Ok(())
    }
}

/// The value of an option that is a number above 0.
pub fn number(letter: char, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or(format!("-{letter} {value}: no number above 0"))
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
