//! Characters on their way to fields, and where fields end.

/// A character, or an end of a field, on the way from parts to fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Char(char, Mark),
    /// A field ends here whatever `IFS` says (`"$@"`).
    Break,
    /// A field is here, even if nothing is in it.
    Empty,
}

/// What may happen to a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It stands in the script: part of a pattern.
    Plain,
    /// It means itself.
    Quoted,
    /// It came out of an expansion: fields may end here, and it is part of a pattern.
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

/// Cuts items into fields. Blanks of `IFS` side by side are one end, each other character of it
/// (with the blanks around it) is one.
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

/// What `read` does: at most `most` fields, the last one with all that is left, without the blanks
/// around it. Quoted characters end nothing.
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
        // One separator at the very end belongs to the field before it.
        let rest = text.get(at..end).unwrap_or_default();
        let inner = rest.len().saturating_sub(1);
        let only = (at..at + inner).all(|i| !blank(i) && !separator(i));
        let cut = if only && separator(end - 1) { inner } else { rest.len() };
        found.push(self::text(rest.get(..cut).unwrap_or_default()));
    }
    found
}
