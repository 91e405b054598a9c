//! The soc's messages on the console, which may appear in the middle of a kernel's line.

const BEGIN: &str = "\r\n[soc] ";
const END: &str = "\r\n";

/// Moves each complete message before the line that it interrupted, but not before `from`, so that
/// a kernel's line is contiguous again.
pub fn put_aside(seen: &mut String, from: usize) {
    let mut at = from;
    while let Some(found) = seen[at..].find(BEGIN) {
        let begin = at + found;
        let Some(length) = seen[begin + BEGIN.len()..].find(END) else { return };
        let end = begin + BEGIN.len() + length + END.len();
        let line = seen[from..begin].rfind('\n').map_or(from, |newline| from + newline + 1);
        let broken = seen[line..begin].to_string();
        seen.replace_range(line..begin, "");
        at = line + (end - begin);
        seen.insert_str(at, &broken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text after receiving `pieces`; all before `from` was already consumed.
    fn heard(pieces: &[&str], from: usize) -> String {
        let mut seen = String::new();
        for piece in pieces {
            seen.push_str(piece);
            let from = from.min(seen.len());
            put_aside(&mut seen, from);
        }
        seen
    }

    #[test]
    fn a_line_that_was_broken_is_whole() {
        let pieces = ["one\r\nstorm: 0", "\r\n[soc] it died", ".\r\n", " wrong\r\nmain> "];
        assert_eq!(heard(&pieces, 0), "one\r\n\r\n[soc] it died.\r\nstorm: 0 wrong\r\nmain> ");
        let twice = ["a", "\r\n[soc] b.\r\n", "\r\n[soc] c.\r\n", "d\r\n"];
        assert_eq!(heard(&twice, 0), "\r\n[soc] b.\r\n\r\n[soc] c.\r\nad\r\n");
    }

    #[test]
    fn what_was_expected_stays_where_it_is() {
        let pieces = ["main> ", "\r\n[soc] bye.\r\n", "x"];
        assert_eq!(heard(&pieces, 6), "main> \r\n[soc] bye.\r\nx");
        assert_eq!(heard(&["a\r\n", "\r\n[soc] b", ".\r"], 0), "a\r\n\r\n[soc] b.\r");
    }
}
