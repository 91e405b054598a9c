//! Patterns of POSIX's `fnmatch`: `*`, `?`, `[...]`, and a backslash that quotes the next
//! character. A pattern matches a whole name, in which `/` and a leading dot are ordinary
//! characters. Case and classes are ASCII; `[[.x.]]` and `[[=x=]]` are not supported.

/// A compiled pattern.
#[derive(Clone, Debug, Default)]
pub struct Glob {
    items: Vec<Item>,
    any_case: bool,
}

#[derive(Clone, Debug)]
enum Item {
    Char(char),
    Any,
    Many,
    Set { not: bool, members: Vec<Member> },
}

#[derive(Clone, Debug)]
enum Member {
    Range(char, char),
    Class(Has),
}

/// Returns whether a character belongs to a class.
type Has = fn(&char) -> bool;

const CLASSES: &[(&str, Has)] = &[
    ("alnum", char::is_ascii_alphanumeric),
    ("alpha", char::is_ascii_alphabetic),
    ("blank", |c| matches!(c, ' ' | '\t')),
    ("cntrl", char::is_ascii_control),
    ("digit", char::is_ascii_digit),
    ("graph", char::is_ascii_graphic),
    ("lower", char::is_ascii_lowercase),
    ("print", |c| c.is_ascii_graphic() || *c == ' '),
    ("punct", char::is_ascii_punctuation),
    ("space", |c| matches!(c, ' ' | '\t'..='\r')),
    ("upper", char::is_ascii_uppercase),
    ("xdigit", char::is_ascii_hexdigit),
];

impl Glob {
    /// Compiles a text; `any_case` ignores case.
    pub fn new(text: &str, any_case: bool) -> Glob {
        let (mut items, mut rest) = (Vec::new(), text.chars());
        while let Some(c) = rest.next() {
            items.push(match c {
                '?' => Item::Any,
                '*' if matches!(items.last(), Some(Item::Many)) => continue,
                '*' => Item::Many,
                '\\' => Item::Char(rest.next().unwrap_or('\\')),
                '[' => match set(rest.as_str()) {
                    Some((set, behind)) => {
                        rest = behind.chars();
                        set
                    }
                    None => Item::Char('['),
                },
                c => Item::Char(c),
            });
        }
        Glob { items, any_case }
    }

    /// Returns whether it matches all of `text`.
    pub fn fits(&self, text: &str) -> bool {
        // The rest of both, and the state after the last `*`, which takes one character more when
        // what follows does not match.
        let (mut items, mut rest) = (self.items.as_slice(), text.chars());
        let mut star = None;
        loop {
            let mut behind = rest.clone();
            match (items.split_first(), behind.next()) {
                (Some((Item::Many, others)), _) => {
                    star = Some((others, rest.clone()));
                    items = others;
                    continue;
                }
                (Some((item, others)), Some(c)) if self.takes(item, c) => {
                    (items, rest) = (others, behind);
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            let Some((others, from)) = &mut star else { return false };
            if from.next().is_none() {
                return false;
            }
            (items, rest) = (others, from.clone());
        }
    }

    fn takes(&self, item: &Item, c: char) -> bool {
        let cases = [c, c.to_ascii_lowercase(), c.to_ascii_uppercase()];
        let cases = if self.any_case { &cases[..] } else { &cases[..1] };
        match item {
            Item::Char(own) => cases.contains(own),
            Item::Any => true,
            Item::Many => false,
            Item::Set { not, members } => {
                members.iter().any(|member| cases.iter().any(|c| member.has(*c))) != *not
            }
        }
    }
}

impl Member {
    fn has(&self, c: char) -> bool {
        match self {
            Member::Range(low, high) => (*low..=*high).contains(&c),
            Member::Class(has) => has(&c),
        }
    }
}

/// Parses a set after its `[`. Returns the set and the rest; `None` if there is no `]`.
fn set(text: &str) -> Option<(Item, &str)> {
    let members_at = text.strip_prefix(['!', '^']);
    let (not, mut rest) = (members_at.is_some(), members_at.unwrap_or(text));
    let mut members = Vec::new();
    loop {
        if let Some((class, behind)) = class(rest) {
            members.push(Member::Class(class));
            rest = behind;
            continue;
        }
        if let (Some(behind), false) = (rest.strip_prefix(']'), members.is_empty()) {
            return Some((Item::Set { not, members }, behind));
        }
        let (low, behind) = member(rest)?;
        let range = behind.strip_prefix('-').filter(|high| !high.starts_with(']'));
        let (high, behind) = range.map_or(Some((low, behind)), member)?;
        members.push(Member::Range(low, high));
        rest = behind;
    }
}

/// Parses a character of a set.
fn member(text: &str) -> Option<(char, &str)> {
    let mut rest = text.chars();
    let c = match rest.next()? {
        '\\' => rest.next()?,
        c => c,
    };
    Some((c, rest.as_str()))
}

/// Parses `[:NAME:]`.
fn class(text: &str) -> Option<(Has, &str)> {
    let (name, behind) = text.strip_prefix("[:")?.split_once(":]")?;
    let (_, class) = CLASSES.iter().find(|(class, _)| *class == name)?;
    Some((*class, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second implementation, by backtracking.
    fn naive(items: &[Item], text: &[char]) -> bool {
        match (items.split_first(), text.split_first()) {
            (None, rest) => rest.is_none(),
            (Some((Item::Many, others)), rest) => {
                naive(others, text) || rest.is_some_and(|(_, text)| naive(items, text))
            }
            (Some((item, others)), Some((c, text))) => {
                let fits = match item {
                    Item::Char(own) => own == c,
                    Item::Set { not, members } => members.iter().any(|m| m.has(*c)) != *not,
                    _ => true,
                };
                fits && naive(others, text)
            }
            (Some(_), None) => false,
        }
    }

    #[test]
    fn random_patterns_fit_what_they_do_one_way_after_the_other() {
        let mut state = 1u64;
        let mut random = |most: u64, of: &str| {
            let of: Vec<char> = of.chars().collect();
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state >> 20
            };
            let length = next() % most;
            (0..length).map(|_| of[next() as usize % of.len()]).collect::<String>()
        };
        let mut good = 0;
        for _ in 0..100_000 {
            let (pattern, text) = (random(9, "aab**?[]!^-\\\u{e4}"), random(9, "aab-]\u{e4}"));
            let glob = Glob::new(&pattern, false);
            let expected = naive(&glob.items, &text.chars().collect::<Vec<char>>());
            assert_eq!(glob.fits(&text), expected, "{pattern} {text}");
            good += u32::from(expected);
        }
        assert!(good > 2000, "{good}");
    }

    #[test]
    fn what_fits_and_what_does_not() {
        for (pattern, good, bad) in [
            ("", "", "a"),
            ("*", "", "\0"),
            ("*", ".a/b", "\0"),
            ("a*b*c", "aXbYbc", "aXbYb"),
            ("?", "\u{e4}", ""),
            ("[abc]x", "bx", "dx"),
            ("[!a-c]", "d", "b"),
            ("[^]a]", "b", "]"),
            ("[]a]", "]", "b"),
            ("[a-]", "-", "b"),
            ("[z-a]*", "\0", "b"),
            ("[[:digit:]x]*", "5y", ":"),
            ("[[:no:]", ":", "a"),
            ("[", "[", "a"),
            ("[ab", "[ab", "a"),
            ("[a\\]]", "]", "\\"),
            ("\\*", "*", "a"),
            ("a\\", "a\\", "a"),
        ] {
            assert!(good == "\0" || Glob::new(pattern, false).fits(good), "{pattern} {good}");
            assert!(bad == "\0" || !Glob::new(pattern, false).fits(bad), "{pattern} {bad}");
        }
    }

    #[test]
    fn any_case() {
        for (pattern, text, expected) in [
            ("ReAd*", "rEaDme", true),
            ("[a-c]", "B", true),
            ("[!A]", "a", false),
            ("[[:upper:]]", "a", true),
            ("a", "b", false),
        ] {
            assert_eq!(Glob::new(pattern, true).fits(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        assert!(!Glob::new(&("a*".repeat(60) + "b"), false).fits(&"a".repeat(2000)));
    }
}
