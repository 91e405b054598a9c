//! Names and descriptions in contracts, and what becomes of them in Rust and C.
//!
//! A name consists of lower-case words that begin with a letter, joined by '_'. So different names
//! stay different as `CamelCase` and in upper case.

use crate::error::Reason;

/// Maximum length of a name.
const LONGEST: usize = 31;

/// Words that names in generated code cannot be: keywords of Rust and C, and what the code uses.
const RESERVED: &[&str] = &[
    "abstract alignas alignof as asm async auto await become bool box break case char const",
    "constexpr continue crate default do double dyn else enum err errno extern false final",
    "float fn for gen goto if impl in inline int let linux long loop macro match mod move mut",
    "none nullptr ok option override priv pub ref register restrict result return self short",
    "signed sizeof some static struct super switch t thread_local trait true try type typedef",
    "typeof union unix unsafe unsigned unsized use virtual void volatile where while yield",
];

/// Names in generated functions, which an endpoint cannot have.
const PARAMETERS: &[&str] = &[
    "answer",
    "block",
    "bytes",
    "channel",
    "come",
    "endpoints",
    "message",
    "next",
    "reply",
    "sent",
];

/// Checks the name of a `what`.
pub fn check(what: &'static str, name: &str) -> Result<(), Reason> {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if name.len() > LONGEST || !name.split('_').all(is_word) {
        return Err(Reason::Name { what, name: name.to_string() });
    }
    let is_reserved = RESERVED.iter().flat_map(|line| line.split(' ')).any(|word| word == name);
    let is_parameter = what == "endpoint" && PARAMETERS.contains(&name);
    // In Rust, what is received is a message or `Closed`; in C, `struct NAME_received` is any one.
    let is_received = what == "message" && ["closed", "received"].contains(&name);
    if is_reserved || is_parameter || is_received {
        return Err(Reason::Reserved { what, name: name.to_string() });
    }
    Ok(())
}

/// Splits `NAME.vN`, by which files and manifests name a contract.
pub fn contract(text: &str) -> Option<(&str, u16)> {
    let (name, version) = text.split_once(".v")?;
    let version = number(version)?.try_into().ok()?;
    check("contract", name).ok()?;
    Some((name, version))
}

/// Parses a positive number without a sign or leading zeros, so that it is written in one way.
pub fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

/// Returns `two_words` as `TwoWords`.
pub fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        first.to_uppercase() + rest
    };
    name.split('_').map(capital).collect()
}

/// Returns `about` as a sentence, or `other` if it is empty.
pub fn sentence(about: &str, other: &str) -> String {
    let about = if about.is_empty() { other } else { about };
    let mut letters = about.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let end = if about.ends_with(['.', '!', '?']) { "" } else { "." };
    first + letters.as_str() + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_letters_and_digits() {
        for good in ["a", "ping", "read_ahead", "v2_x3"] {
            assert_eq!(check("state", good), Ok(()), "{good}");
        }
        for bad in ["", "_a", "a_", "a__b", "A", "a-b", "1a", "a_1", "ä", &"a".repeat(32)] {
            let name = bad.to_string();
            assert_eq!(check("state", bad), Err(Reason::Name { what: "state", name }));
        }
        for word in ["type", "ok", "struct", "self"] {
            assert!(matches!(check("state", word), Err(Reason::Reserved { .. })), "{word}");
        }
        assert!(check("endpoint", "block").is_err() && check("field", "block").is_ok());
        assert!(check("message", "closed").is_err() && check("state", "closed").is_ok());
        assert_eq!(camel("two_words"), "TwoWords");
    }

    #[test]
    fn a_contract_has_a_name_and_a_version() {
        assert_eq!(contract("ping.v1"), Some(("ping", 1)));
        assert_eq!(contract("ping.v65535"), Some(("ping", 65535)));
        for bad in ["ping", "ping.v", "ping.v0", "ping.v01", "ping.v65536", "Ping.v1", ".v1"] {
            assert_eq!(contract(bad), None, "{bad}");
        }
    }
}
