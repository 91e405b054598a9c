//! What a scripted peer does: a TOML file (docs/design/net.md, "A scripted peer").

use serde::Deserialize;
use std::io::{Error, Result};
use std::path::Path;

/// Most clients of a script.
const CLIENTS: usize = 16;
/// Most bytes of a request or an answer.
const BYTES: usize = 1 << 20;
/// Bytes of a datagram: its number and the time that a server may write, and what Ethernet takes.
const DATAGRAM: std::ops::RangeInclusive<usize> = 16..=1472;
/// Longest time in a script: a day.
const MS: u64 = 24 * 3600 * 1000;

/// A script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Seed of everything that is random.
    #[serde(default)]
    pub seed: u64,
    /// The cable between peer and chip.
    #[serde(default)]
    pub cable: Faults,
    /// The clients, all of which act at once.
    #[serde(default)]
    pub client: Vec<Client>,
    /// TCP ports at which the peer sends back what it receives.
    #[serde(default)]
    pub echo: Vec<u16>,
}

/// What the cable does to a frame. Chances are parts of 1,000, for each frame of both directions.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Time of every frame under way.
    pub delay_us: u64,
    /// At most so much more.
    pub jitter_us: u64,
    /// Chance that a frame is lost.
    pub loses: u64,
    /// Chance that it arrives twice.
    pub repeats: u64,
    /// Chance that one bit of a packet changes.
    pub corrupts: u64,
    /// Chance that it is under way for `late_us` more, so that others overtake it.
    pub late: u64,
    /// See `late`.
    pub late_us: u64,
}

impl Default for Faults {
    fn default() -> Self {
        let (jitter_us, loses, repeats, corrupts, late) = (0, 0, 0, 0, 0);
        Faults { delay_us: 100, jitter_us, loses, repeats, corrupts, late, late_us: 5_000 }
    }
}

/// What a client does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// GET in a connection of its own; the body must be the pattern.
    Http,
    /// Sends the pattern, ends its side, and must get the pattern back.
    Echo,
    /// Sends a datagram, and must get it back.
    Datagram,
    /// The same, but the server replaces bytes 8 to 15 by the time at which it received it (ns,
    /// little endian).
    Stamp,
}

/// A client: `count` requests, one at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its name in the log: one word.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// The chip's port.
    pub port: u16,
    /// Bytes of the pattern.
    pub bytes: usize,
    /// Path of an HTTP request.
    #[serde(default = "root")]
    pub path: String,
    /// Time of the first request since the board was started.
    pub first_ms: u64,
    /// Time from one request to the next. One that is still in progress delays the next.
    #[serde(default)]
    pub every_ms: u64,
    /// Number of requests.
    #[serde(default = "once")]
    pub count: u64,
    /// Time limit of a request.
    #[serde(default = "patience")]
    pub patience_ms: u64,
}

fn root() -> String {
    "/".into()
}

fn once() -> u64 {
    1
}

fn patience() -> u64 {
    60_000
}

impl Kind {
    /// Returns whether it uses UDP.
    pub fn is_datagram(self) -> bool {
        matches!(self, Kind::Datagram | Kind::Stamp)
    }
}

impl Script {
    /// Reads and checks a script; errors name the file.
    pub fn read(path: &Path) -> Result<Script> {
        let named = |why: String| Error::other(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|why| named(why.to_string()))?;
        let script: Script = toml::from_str(&text).map_err(|why| named(why.to_string()))?;
        script.check().map_err(named)?;
        Ok(script)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let Faults { delay_us, jitter_us, loses, repeats, corrupts, late, late_us } = self.cable;
        if [loses, repeats, corrupts, late].iter().any(|&chance| chance > 1000) {
            return Err("a chance of the cable is above 1,000".into());
        }
        if delay_us == 0 || [delay_us, jitter_us, late_us].iter().any(|&time| time > MS) {
            return Err("a frame takes between 1 us and 86 s: delay_us, jitter_us, late_us".into());
        }
        if self.client.len() > CLIENTS || self.echo.len() > CLIENTS || self.echo.contains(&0) {
            return Err(format!("at most {CLIENTS} clients, and as many ports that are not 0"));
        }
        self.client.iter().try_for_each(Client::check)
    }
}

impl Client {
    fn check(&self) -> std::result::Result<(), String> {
        let (name, bytes) = (&self.name, self.bytes);
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(format!("{name:?} is no name of a client: one word"));
        }
        if self.port == 0 || bytes > BYTES {
            return Err(format!("{name}: port 0, or more than {BYTES} bytes"));
        }
        if self.kind.is_datagram() && !DATAGRAM.contains(&bytes) {
            return Err(format!("{name}: a datagram has {DATAGRAM:?} bytes, not {bytes}"));
        }
        if [self.first_ms, self.every_ms, self.patience_ms].iter().any(|&time| time > MS) {
            return Err(format!("{name}: a time above a day"));
        }
        if !self.path.starts_with('/') || self.path.contains(char::is_whitespace) {
            return Err(format!("{name}: {:?} is no path", self.path));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<(), String> {
        let script: Script = toml::from_str(text).map_err(|why| why.to_string())?;
        script.check()
    }

    #[test]
    fn scripts_with_mistakes_are_refused_with_the_reason() {
        let client = |more: &str| {
            let usual = "name = 'a'\nkind = 'stamp'\nport = 9\nbytes = 64\nfirst_ms = 1\n";
            let mut lines: Vec<&str> = usual.lines().collect();
            let key = more.split(' ').next().unwrap();
            lines.retain(|line| !line.starts_with(&format!("{key} ")));
            lines.push(more);
            parse(&format!("[[client]]\n{}", lines.join("\n")))
        };
        assert_eq!(client("count = 3"), Ok(()));
        for (bad, reason) in [
            ("name = 'a b'", "one word"),
            ("port = 0", "port 0"),
            ("bytes = 15", "a datagram has"),
            ("every_ms = 86400001", "above a day"),
            ("path = 'x'", "no path"),
            ("kind = 'ftp'", "unknown variant"),
        ] {
            assert!(client(bad).unwrap_err().contains(reason), "{bad}");
        }
        assert!(parse("[cable]\nloses = 1001").unwrap_err().contains("above 1,000"));
        assert!(parse("[cable]\ndelay_us = 0").unwrap_err().contains("between"));
    }
}
