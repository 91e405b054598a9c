//! Derives package sources for another suite from the machine's own: the same servers and keys,
//! whatever they are. Pure text processing.

use std::fmt::Write;

/// The source to derive.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Codename of the machine's release: an entry for it is the starting point.
    pub machine: &'a str,
    /// Suite to download from.
    pub suite: &'a str,
    /// Architectures to download for, in apt's syntax.
    pub architectures: &'a str,
}

/// A stanza: its fields in order; values include continuation lines.
type Stanza = Vec<(String, String)>;

/// Returns the stanza for `wanted`, derived from a *.sources file; `None` if it has no enabled
/// entry for the machine's release.
pub fn from_stanzas(text: &str, wanted: Wanted) -> Option<String> {
    stanzas(text).iter().find(|stanza| serves(stanza, wanted.machine)).map(|s| derive(s, wanted))
}

/// Does the same for one-line entries (sources.list, *.list); the result is a stanza too.
pub fn from_lines(text: &str, wanted: Wanted) -> Option<String> {
    text.lines().filter_map(line).find(|s| serves(s, wanted.machine)).map(|s| derive(&s, wanted))
}

fn stanzas(text: &str) -> Vec<Stanza> {
    let mut all = vec![Stanza::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.trim().is_empty() {
            all.push(Stanza::new());
            continue;
        }
        let Some(stanza) = all.last_mut() else { continue };
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((key, value)) = line.split_once(':') {
            stanza.push((key.trim().to_lowercase(), value.trim().to_string()));
        }
    }
    all
}

/// Parses `deb [option=value ...] URI SUITE COMPONENT...` as a stanza.
fn line(text: &str) -> Option<Stanza> {
    let mut rest = text.trim().strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
    let mut stanza = vec![("types".to_string(), "deb".to_string())];
    if let Some(inside) = rest.strip_prefix('[') {
        let (options, after) = inside.split_once(']')?;
        for (key, value) in options.split_whitespace().filter_map(|o| o.split_once('=')) {
            let key = if key == "arch" { "architectures" } else { key };
            stanza.push((key.to_lowercase(), value.replace(',', " ")));
        }
        rest = after;
    }
    let mut words = rest.split_whitespace();
    stanza.push(("uris".to_string(), words.next()?.to_string()));
    stanza.push(("suites".to_string(), words.next()?.to_string()));
    Some(stanza)
}

fn field<'a>(stanza: &'a Stanza, key: &str) -> &'a str {
    stanza.iter().find(|(k, _)| k == key).map_or("", |(_, value)| value)
}

fn serves(stanza: &Stanza, machine: &str) -> bool {
    let has = |key, word| field(stanza, key).split_whitespace().any(|w| w == word);
    let off = field(stanza, "enabled").eq_ignore_ascii_case("no");
    has("types", "deb") && has("suites", machine) && !field(stanza, "uris").is_empty() && !off
}

fn derive(stanza: &Stanza, wanted: Wanted) -> String {
    let ours = ["types", "suites", "components", "architectures", "enabled"];
    let mut text = format!(
        "types: deb\nsuites: {}\ncomponents: main\narchitectures: {}\n",
        wanted.suite, wanted.architectures
    );
    for (key, value) in stanza.iter().filter(|(key, _)| !ours.contains(&key.as_str())) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key}: {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted =
        Wanted { machine: "bookworm", suite: "trixie", architectures: "amd64 arm64" };

    #[test]
    fn a_stanza_keeps_server_and_keys() {
        let text = "# comment\nTypes: deb deb-src\n# another\nURIs: http://mirror.example/debian\n\
                    Suites: bookworm bookworm-updates\nComponents: main contrib\n\
                    Signed-By: /usr/share/keyrings/a.gpg\n";
        let derived = from_stanzas(text, WANTED).unwrap();
        assert_eq!(
            derived,
            "types: deb\nsuites: trixie\ncomponents: main\narchitectures: amd64 arm64\n\
             uris: http://mirror.example/debian\nsigned-by: /usr/share/keyrings/a.gpg\n"
        );
    }

    #[test]
    fn a_key_inside_a_stanza_survives() {
        let text = "Types: deb\nURIs: http://a.example\nSuites: bookworm\nSigned-By:\n BEGIN\n .\n";
        let derived = from_stanzas(text, WANTED).unwrap();
        assert!(derived.ends_with("signed-by: \n BEGIN\n .\n"), "{derived}");
    }

    #[test]
    fn disabled_foreign_and_source_entries_are_passed_over() {
        let entry = |head: &str, suite: &str| {
            format!("{head}\nURIs: http://a.example\nSuites: {suite}\nComponents: main\n")
        };
        assert!(from_stanzas(&entry("Types: deb\nEnabled: no", "bookworm"), WANTED).is_none());
        assert!(from_stanzas(&entry("Types: deb-src", "bookworm"), WANTED).is_none());
        assert!(from_stanzas(&entry("Types: deb", "bookworm-security"), WANTED).is_none());
        let two =
            entry("Types: deb", "bookworm-security") + "\n" + &entry("Types: deb", "bookworm");
        assert!(from_stanzas(&two, WANTED).is_some());
    }

    #[test]
    fn lines_become_stanzas() {
        let text = "# deb http://no.example bookworm main\n\
                    deb [arch=amd64 signed-by=/usr/share/k.gpg] http://a.example bookworm main\n";
        assert_eq!(
            from_lines(text, WANTED).unwrap(),
            "types: deb\nsuites: trixie\ncomponents: main\narchitectures: amd64 arm64\n\
             signed-by: /usr/share/k.gpg\nuris: http://a.example\n"
        );
        assert!(from_lines("deb-src http://a.example bookworm main\n", WANTED).is_none());
        assert!(from_lines("deb http://a.example sid main\n", WANTED).is_none());
    }
}
