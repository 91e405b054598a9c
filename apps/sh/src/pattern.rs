//! Patterns: `*`, `?`, `[...]`. Quoted characters are literal.

/// A compiled pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Item>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Char(char),
    Any,
    Many,
    Set { not: bool, members: Vec<Member> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Member {
    Range(char, char),
    Class(&'static str),
}

const CLASSES: &[&str] = &[
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

impl Pattern {
    /// Compiles characters, each with whether it was quoted.
    pub fn new(text: &[(char, bool)]) -> Pattern {
        let mut items = Vec::new();
        let mut at = 0;
        while let Some(&(c, quoted)) = text.get(at) {
            at += 1;
            let item = match c {
                '?' if !quoted => Item::Any,
                '*' if !quoted => {
                    if items.last() == Some(&Item::Many) {
                        continue;
                    }
                    Item::Many
                }
                '[' if !quoted => match set(text, at) {
                    Some((item, next)) => {
                        at = next;
                        item
                    }
                    None => Item::Char('['),
                },
                '\\' if !quoted && at < text.len() => {
                    let c = text.get(at).map_or('\\', |(c, _)| *c);
                    at += 1;
                    Item::Char(c)
                }
                c => Item::Char(c),
            };
            items.push(item);
        }
        Pattern(items)
    }

    /// Returns whether it matches only its own text.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|item| matches!(item, Item::Char(_)))
    }

    /// Returns the first character, if there is only one possible.
    pub fn first(&self) -> Option<char> {
        match self.0.first() {
            Some(Item::Char(c)) => Some(*c),
            _ => None,
        }
    }

    /// Returns whether it matches all of `text`.
    pub fn fits(&self, text: &[char]) -> bool {
        // The last `*`, and where in the text it ends; extended when what follows does not match.
        let (mut item, mut at) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while at < text.len() {
            match (self.0.get(item), text.get(at)) {
                (Some(Item::Many), _) => {
                    star = Some((item + 1, at));
                    item += 1;
                    continue;
                }
                (Some(one), Some(c)) if one.takes(*c) => {
                    item += 1;
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let Some((behind, end)) = star else { return false };
            star = Some((behind, end + 1));
            (item, at) = (behind, end + 1);
        }
        self.0.iter().skip(item).all(|rest| *rest == Item::Many)
    }

    /// Returns the length of the shortest or longest matching prefix of `text`.
    pub fn prefix(&self, text: &[char], longest: bool) -> Option<usize> {
        let mut lengths = 0..=text.len();
        let fits = |n: &usize| text.get(..*n).is_some_and(|part| self.fits(part));
        if longest { lengths.rev().find(fits) } else { lengths.find(fits) }
    }

    /// Returns the length of the shortest or longest matching suffix of `text`.
    pub fn suffix(&self, text: &[char], longest: bool) -> Option<usize> {
        let mut lengths = 0..=text.len();
        let fits = |n: &usize| text.get(text.len() - *n..).is_some_and(|part| self.fits(part));
        if longest { lengths.rev().find(fits) } else { lengths.find(fits) }
    }
}

impl Item {
    fn takes(&self, c: char) -> bool {
        match self {
            Item::Char(own) => *own == c,
            Item::Any => true,
            Item::Many => false,
            Item::Set { not, members } => members.iter().any(|m| m.has(c)) != *not,
        }
    }
}

impl Member {
    fn has(&self, c: char) -> bool {
        match self {
            Member::Range(low, high) => (*low..=*high).contains(&c),
            Member::Class(name) => match *name {
                "alnum" => c.is_alphanumeric(),
                "alpha" => c.is_alphabetic(),
                "blank" => c == ' ' || c == '\t',
                "cntrl" => c.is_control(),
                "digit" => c.is_ascii_digit(),
                "graph" => !c.is_control() && !c.is_whitespace(),
                "lower" => c.is_lowercase(),
                "print" => !c.is_control(),
                "punct" => c.is_ascii_punctuation(),
                "space" => c.is_whitespace(),
                "upper" => c.is_uppercase(),
                _ => c.is_ascii_hexdigit(),
            },
        }
    }
}

/// Parses what follows `[`: the set and where it ends; `None` if there is no `]`.
fn set(text: &[(char, bool)], mut at: usize) -> Option<(Item, usize)> {
    let not = matches!(text.get(at), Some(('!' | '^', false)));
    at += usize::from(not);
    let mut members = Vec::new();
    loop {
        let &(c, quoted) = text.get(at)?;
        at += 1;
        match c {
            ']' if !quoted && !members.is_empty() => {
                return Some((Item::Set { not, members }, at));
            }
            '/' => return None,
            '[' if !quoted && matches!(text.get(at), Some((':', false))) => {
                if let Some((class, next)) = class(text, at + 1) {
                    members.push(Member::Class(class));
                    at = next;
                    continue;
                }
                members.push(Member::Range('[', '['));
            }
            low => {
                let dash = matches!(text.get(at), Some(('-', false)));
                let high = text.get(at + 1).filter(|(c, q)| dash && (*c != ']' || *q));
                match high {
                    Some(&(high, _)) => {
                        members.push(Member::Range(low, high));
                        at += 2;
                    }
                    None => members.push(Member::Range(low, low)),
                }
            }
        }
    }
}

/// Parses what follows `[:`.
fn class(text: &[(char, bool)], at: usize) -> Option<(&'static str, usize)> {
    let name: String = text.iter().skip(at).map(|(c, _)| *c).take_while(|c| *c != ':').collect();
    let end = at + name.chars().count();
    let closed = text.get(end)?.0 == ':' && text.get(end + 1)?.0 == ']';
    let class = CLASSES.iter().find(|class| **class == name)?;
    closed.then_some((*class, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        let pattern: Vec<(char, bool)> = pattern.chars().map(|c| (c, false)).collect();
        Pattern::new(&pattern).fits(&text.chars().collect::<Vec<char>>())
    }

    #[test]
    fn what_fits() {
        let good = [
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbbc"),
            ("a*b*c", "aXbYbc"),
            ("?", "ä"),
            ("[abc]", "b"),
            ("[!abc]", "d"),
            ("[a-c]x", "bx"),
            ("[]a]", "]"),
            ("[a-]", "-"),
            ("[[:digit:]]*", "5x"),
            ("[", "["),
            ("a[", "a["),
            ("[ab", "[ab"),
            ("*.txt", ".txt"),
            ("**", "x"),
            ("\\*", "*"),
            ("[^a]", "b"),
            ("[[:upper:][:digit:]]", "7"),
        ];
        for (pattern, text) in good {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn what_does_not() {
        let bad = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a*c", "ab"),
            ("[abc]", "d"),
            ("[!a]", "a"),
            ("[a-c]", "d"),
            ("\\*", "x"),
            ("*.txt", "txt"),
            ("[[:digit:]]", "x"),
            ("a?", "a"),
        ];
        for (pattern, text) in bad {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "a*".repeat(60) + "b";
        assert!(!fits(&pattern, &"a".repeat(2000)));
    }

    #[test]
    fn quoted_characters_mean_themselves() {
        let pattern = Pattern::new(&[('*', true), ('*', false)]);
        assert!(pattern.fits(&['*', 'x']));
        assert!(!pattern.fits(&['y', 'x']));
        assert!(!pattern.is_plain());
        assert_eq!(pattern.first(), Some('*'));
    }

    #[test]
    fn ends_of_texts() {
        let pattern = Pattern::new(&[('*', false), ('/', false)]);
        let text: Vec<char> = "a/b/c".chars().collect();
        assert_eq!(pattern.prefix(&text, false), Some(2));
        assert_eq!(pattern.prefix(&text, true), Some(4));
        let pattern = Pattern::new(&[('/', false), ('*', false)]);
        assert_eq!(pattern.suffix(&text, false), Some(2));
        assert_eq!(pattern.suffix(&text, true), Some(4));
        assert_eq!(pattern.suffix(&['x'], true), None);
    }
}
