//! Records that kernels and programs print on the console.

/// A record as printed: name, value, unit.
pub type Said = (String, f64, String);

/// Parses `record NAME VALUE UNIT`.
pub fn said(line: &str) -> Option<Said> {
    let mut words = line.trim().strip_prefix("record ")?.split_whitespace();
    let (name, value, unit) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    Some((name.to_owned(), value, unit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_among_other_lines() {
        let text = "hello\r\nrecord thread.switch 512 ns\r\n  record a.b 1.5 s\nrecord x\n";
        let found: Vec<Said> = text.lines().filter_map(said).collect();
        let found: Vec<_> = found.iter().map(|(n, v, u)| (n.as_str(), *v, u.as_str())).collect();
        assert_eq!(found, [("thread.switch", 512.0, "ns"), ("a.b", 1.5, "s")]);
    }
}
