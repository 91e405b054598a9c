//! Translates POSIX patterns, basic and extended, for the crate `regex-lite`.
//!
//! Unsupported patterns are rejected: back-references and equivalence classes. Case, words and
//! classes are ASCII. Of several matches at one position the first alternative wins, not the
//! longest.

use regex_lite::{Regex, RegexBuilder};

/// The syntax of patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `\(a\|b\)\{2\}`
    #[default]
    Basic,
    /// `(a|b){2}`
    Extended,
    /// Literal text.
    Fixed,
}

/// What a match must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whole {
    /// Any part of a line.
    #[default]
    No,
    /// A whole word.
    Word,
    /// A whole line.
    Line,
}

/// Returns an expression that matches where one of the patterns does.
pub fn any(patterns: &[String], kind: Kind, whole: Whole, any_case: bool) -> Result<Regex, String> {
    let one = |pattern: &String| match kind {
        Kind::Fixed => Ok(regex_lite::escape(pattern)),
        kind => Reader::new(pattern, kind).all(),
    };
    let all = patterns.iter().map(one).collect::<Result<Vec<String>, String>>()?;
    let all = all.iter().map(|one| format!("(?:{one})")).collect::<Vec<String>>().join("|");
    let text = match whole {
        // No pattern: matches nothing.
        _ if patterns.is_empty() => "[^\\s\\S]".to_string(),
        Whole::No => all,
        Whole::Word => format!(r"\b{{start-half}}(?:{all})\b{{end-half}}"),
        Whole::Line => format!("^(?:{all})$"),
    };
    let made = RegexBuilder::new(&text).case_insensitive(any_case).build();
    made.map_err(|why| format!("{}: {why}", patterns.join("\\n")))
}

/// A pattern being translated.
struct Reader<'a> {
    rest: std::str::Chars<'a>,
    kind: Kind,
    made: String,
    /// There is nothing before that could be repeated.
    begins: bool,
}

impl<'a> Reader<'a> {
    fn new(pattern: &'a str, kind: Kind) -> Reader<'a> {
        Reader { rest: pattern.chars(), kind, made: String::new(), begins: true }
    }

    fn all(mut self) -> Result<String, String> {
        let is_basic = self.kind == Kind::Basic;
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.bracket()?,
                '.' => self.put(".", false),
                '^' if !is_basic || self.begins => self.put("^", true),
                '$' if !is_basic || self.ends() => self.put("$", false),
                '*' if self.begins => self.literal(c),
                '*' => self.put("*", false),

                '(' | ')' | '|' | '{' | '+' | '?' if !is_basic => self.operator(c)?,
                c => self.literal(c),
            }
        }
        Ok(self.made)
    }

    fn put(&mut self, text: &str, begins: bool) {
        self.made.push_str(text);
        self.begins = begins;
    }

    fn literal(&mut self, c: char) {
        let mut bytes = [0; 4];
        let text = regex_lite::escape(c.encode_utf8(&mut bytes));
        self.put(&text, false);
    }

    /// Translates one of `(){}|+?` where it is an operator.
    fn operator(&mut self, c: char) -> Result<(), String> {
        match c {
            '(' | '|' => self.put(if c == '(' { "(" } else { "|" }, true),
            ')' => self.put(")", false),
            '+' | '?' if !self.begins => self.put(if c == '+' { "+" } else { "?" }, false),
            '{' if !self.begins && self.interval() => {}
            '{' if self.kind == Kind::Basic => return Err("a bad \\{".to_string()),
            c => self.literal(c),
        }
        Ok(())
    }

    /// Translates `2}`, `2,}`, `,3}` or `2,3}`, with a backslash before the brace in a basic
    /// pattern.
    fn interval(&mut self) -> bool {
        let end = if self.kind == Kind::Basic { r"\}" } else { "}" };
        let Some((counts, behind)) = self.rest.as_str().split_once(end) else { return false };
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
        if counts.is_empty() || !is_number(least) || !is_number(most) {
            return false;
        }
        // A missing minimum is 0.
        let least = if least.is_empty() { "0" } else { least };
        let counts = if counts.contains(',') { format!("{least},{most}") } else { least.into() };
        self.put(&format!("{{{counts}}}"), false);
        self.rest = behind.chars();
        true
    }

    /// Returns whether a basic pattern, or a group of it, ends here.
    fn ends(&self) -> bool {
        let rest = self.rest.as_str();
        rest.is_empty() || rest.starts_with(r"\)") || rest.starts_with(r"\|")
    }

    /// Translates what follows a backslash.
    fn escape(&mut self) -> Result<(), String> {
        let c = self.rest.next().ok_or("a backslash at the end")?;
        match c {
            '(' | ')' | '{' | '|' | '+' | '?' if self.kind == Kind::Basic => self.operator(c)?,
            '<' => self.put(r"\b{start}", false),
            '>' => self.put(r"\b{end}", false),
            'b' | 'B' | 'w' | 'W' | 's' | 'S' => self.put(&format!("\\{c}"), false),
            '1'..='9' => return Err("back-references are not supported".to_string()),
            c => self.literal(c),
        }
        Ok(())
    }

    /// Translates what follows a `[`.
    fn bracket(&mut self) -> Result<(), String> {
        let mut made = String::from("[");
        if self.rest.as_str().starts_with('^') {
            self.rest.next();
            made.push('^');
        }
        let mut is_first = true;
        loop {
            let c = self.rest.next().ok_or("a [ without its ]")?;
            match c {
                ']' if !is_first => break,
                '[' if self.rest.as_str().starts_with(':') => made.push_str(&self.class()?),
                '[' if self.rest.as_str().starts_with(['.', '=']) => {
                    return Err("classes of what sorts alike are not supported".to_string());
                }
                // These are special in the crate's syntax; a dash is special in both.
                '[' | ']' | '\\' | '&' | '~' | '^' => made.extend(['\\', c]),
                '-' if is_first || self.rest.as_str().starts_with(']') => made.push_str(r"\-"),
                c => made.push(c),
            }
            is_first = false;
        }
        made.push(']');
        self.put(&made, false);
        Ok(())
    }

    /// Translates `:NAME:]` after its `[`.
    fn class(&mut self) -> Result<String, String> {
        let rest = self.rest.as_str();
        let (name, behind) = rest.split_once(":]").ok_or("a [: without its :]")?;
        let name = name.to_string();
        self.rest = behind.chars();
        Ok(format!("[{name}:]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(kind: Kind, pattern: &str, text: &'a str) -> Option<&'a str> {
        let made = any(&[pattern.to_string()], kind, Whole::No, false).unwrap();
        made.find(text).map(|found| found.as_str())
    }

    #[test]
    fn basic_patterns() {
        for (pattern, text, expected) in [
            (r"a*b", "xaab", Some("aab")),
            (r"*b", "a*b", Some("*b")),
            (r"\(*b\)", "a*b", Some("*b")),
            (r"a+b?(c){2}|", "a+b?(c){2}|", Some("a+b?(c){2}|")),
            (r"\(ab\)\{2\}", "ababab", Some("abab")),
            (r"a\{,2\}b", "aaab", Some("aab")),
            (r"a\{1,\}", "aaab", Some("aaa")),
            (r"a\+b\?", "aab", Some("aab")),
            (r"x\|b", "ab", Some("b")),
            (r"^a", "ba", None),
            (r"a^b$c", "a^b$c", Some("a^b$c")),
            (r"\(^a\)b$", "ab", Some("ab")),
            (r"\.", "a.", Some(".")),
            (r"[]^\-]*", r"]^\-a", Some(r"]^\-")),
            (r"[^[:digit:]x]", "1xa", Some("a")),
            (r"[a&&b~~c]*", "&a~b", Some("&a~b")),
            (r"[[]", "[", Some("[")),
            (r"\<ab\>", "cab ab", Some("ab")),
            (r"a.c", "abc", Some("abc")),
        ] {
            assert_eq!(found(Kind::Basic, pattern, text), expected, "{pattern}");
        }
    }

    #[test]
    fn extended_patterns() {
        for (pattern, text, expected) in [
            (r"(ab){2}", "abab", Some("abab")),
            (r"a{,2}b", "aaab", Some("aab")),
            (r"a{b", "a{b", Some("a{b")),
            (r"{1}", "{1}", Some("{1}")),
            (r"x|b+", "abb", Some("bb")),
            (r"a\{1\}", "a{1}", Some("a{1}")),
            (r"^(a|b)?$", "b", Some("b")),
            (r"\w+\s\d", "ab d", Some("ab d")),
        ] {
            assert_eq!(found(Kind::Extended, pattern, text), expected, "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for pattern in [r"\(a\)\1", "[a", "[[.a.]]", "[[:no:]]", r"\(a", r"a\{x\}", "\\", "[b-a]"] {
            let made = any(&[pattern.to_string()], Kind::Basic, Whole::No, false);
            assert!(made.is_err(), "{pattern}");
        }
    }

    #[test]
    fn words_lines_texts_and_several() {
        let is = |patterns: &[&str], kind, whole, text: &str| {
            let patterns: Vec<String> = patterns.iter().map(|text| text.to_string()).collect();
            any(&patterns, kind, whole, true).unwrap().is_match(text)
        };
        assert!(is(&["AB"], Kind::Basic, Whole::Word, "x ab-y"));
        assert!(!is(&["ab"], Kind::Basic, Whole::Word, "xab ab_"));
        assert!(is(&["a", "b*"], Kind::Basic, Whole::Line, "bb"));
        assert!(!is(&["a", "b"], Kind::Basic, Whole::Line, "ab"));
        assert!(is(&["(a+"], Kind::Fixed, Whole::No, "x(a+"));
        assert!(!is(&[], Kind::Basic, Whole::No, "never"));
        assert!(is(&[""], Kind::Basic, Whole::No, "always"));
    }
}
