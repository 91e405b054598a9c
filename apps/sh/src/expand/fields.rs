//! Splitting expanded text into fields.

/// A character or the end of a field, before splitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Char(char, Mark),
    /// The field ends here, regardless of `IFS` (`"$@"`).
    Break,
    /// There is a field here, even if it is empty.
    Empty,
}

/// How a character is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Unquoted in the script: part of a pattern.
    Plain,
    /// Literal.
    Quoted,
    /// Result of an expansion: subject to field splitting, and part of a pattern.
    Split,
}

/// A field: characters, each with whether it was quoted.
pub(super) type Field = Vec<(char, bool)>;

pub(super) fn text(field: &[(char, bool)]) -> String {
    field.iter().map(|(c, _)| *c).collect()
}

pub(super) fn plain(items: &[Item]) -> Field {
    let char_of = |item: &Item| match item {
        Item::Char(c, mark) => Some((*c, *mark == Mark::Quoted)),
        Item::Break => Some((' ', true)),
        Item::Empty => None,
    };
    items.iter().filter_map(char_of).collect()
}

/// Splits items into fields. A run of `IFS` blanks is one separator; any other `IFS` character is
/// one, together with adjacent blanks.
pub(super) fn fields(items: &[Item], ifs: &str) -> Vec<Field> {
    let (mut found, mut current, mut blank) = (Vec::new(), None::<Field>, false);
    for item in items {
        match item {
            Item::Empty => {
                current.get_or_insert_default();
                blank = false;
            }
            Item::Break => {
                found.extend(current.take());
                blank = false;
            }
            Item::Char(c, Mark::Split) if ifs.contains(*c) => {
                let ended = current.take();
                if c.is_whitespace() {
                    blank |= ended.is_some();
                    found.extend(ended);
                } else {
                    if ended.is_some() || !blank {
                        found.push(ended.unwrap_or_default());
                    }
                    blank = false;
                }
            }
            Item::Char(c, mark) => {
                current.get_or_insert_default().push((*c, *mark == Mark::Quoted));
                blank = false;
            }
        }
    }
    found.extend(current);
    found
}

/// Splits as `read` does: into at most `most` fields, the last of which holds the rest without
/// surrounding blanks. Quoted characters do not separate.
pub(super) fn read_fields(text: &[(char, bool)], ifs: &str, most: usize) -> Vec<String> {
    let blank = |at: usize| {
        text.get(at).is_some_and(|(c, quoted)| !quoted && c.is_whitespace() && ifs.contains(*c))
    };
    let separator = |at: usize| {
        text.get(at).is_some_and(|(c, quoted)| !quoted && !c.is_whitespace() && ifs.contains(*c))
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while blank(at) {
        at += 1;
    }
    while at < text.len() && found.len() + 1 < most {
        let start = at;
        while at < text.len() && !blank(at) && !separator(at) {
            at += 1;
        }
        found.push(self::text(text.get(start..at).unwrap_or_default()));
        while blank(at) {
            at += 1;
        }
        if separator(at) {
            at += 1;
        }
        while blank(at) {
            at += 1;
        }
    }
    if at < text.len() {
        let mut end = text.len();
        while end > at && blank(end - 1) {
            end -= 1;
        }
        // A single separator at the very end belongs to the field before it.
        let rest = text.get(at..end).unwrap_or_default();
        let inner = rest.len().saturating_sub(1);
        let only = (at..at + inner).all(|i| !blank(i) && !separator(i));
        let cut = if only && separator(end - 1) { inner } else { rest.len() };
        found.push(self::text(rest.get(..cut).unwrap_or_default()));
    }
    found
}
