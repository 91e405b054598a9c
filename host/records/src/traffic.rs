//! What the kernels' command `traffic` prints, on a console or in `/proc/KERNEL/traffic`, and what
//! follows from it: which programs have talked to which, over channels of which contracts.
//!
//! ```text
//!   text of each kernel --said--> lines --take--> ends --talks--> pairs of programs --> records
//! ```
//! Contract: several samples of one board, in the order of time, give the last figures of each
//! channel, also of those that were closed between two samples, as long as their kernel knew them
//! at the second one. [`Traffic::missed`] has the number of the others.

use crate::record::{Count, Record, Talk};
use std::collections::BTreeMap;

/// What comes first in a line.
const WORD: &str = "traffic";
/// The counter of ends that no sample has.
const MISSED: &str = "channel_ends_missed";
/// A program or kernel that no sample names.
const UNKNOWN: &str = "?";

/// A side of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Client,
    Server,
}

/// An end of a channel, as one kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    kernel: String,
    channel: String,
    side: Side,
    contract: String,
    /// The kernel of the other end.
    peer: String,
    is_closed: bool,
    sent: u64,
    received: u64,
    /// Bytes sent from this kernel.
    bytes: u64,
    pid: u32,
    program: String,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    /// Numbers of the closed ends that the kernel still knows, and the time.
    Log {
        kernel: String,
        first: u64,
        next: u64,
        at_ns: u64,
    },
    End(End),
}

/// Parses a line; `None` if it is another one.
fn said(line: &str) -> Option<Said> {
    let mut words = line.trim().split(' ');
    if words.next()? != WORD {
        return None;
    }
    let (kernel, channel) = (words.next()?.to_string(), words.next()?);
    if channel == "log" {
        let mut number = || words.next()?.parse().ok();
        let (first, next, at_ns) = (number()?, number()?, number()?);
        return Some(Said::Log { kernel, first, next, at_ns });
    }
    let side = match words.next()? {
        "client" => Side::Client,
        "server" => Side::Server,
        _ => return None,
    };
    let (contract, peer) = (words.next()?.to_string(), words.next()?.to_string());
    let is_closed = words.next()? == "closed";
    let mut number = || words.next()?.parse::<u64>().ok();
    let (sent, received, bytes) = (number()?, number()?, number()?);
    let pid = words.next()?.parse().ok()?;
    let program = words.collect::<Vec<_>>().join(" ");
    let channel = channel.to_string();
    Some(Said::End(End {
        kernel,
        channel,
        side,
        contract,
        peer,
        is_closed,
        sent,
        received,
        bytes,
        pid,
        program,
    }))
}

/// Figures of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    sent: u64,
    received: u64,
    bytes: u64,
}

/// An end over all samples.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// Where and with what figures it was seen last.
    last: End,
    /// Bytes that it has sent from each kernel.
    bytes: BTreeMap<String, u64>,
    /// Its figures when the recording began.
    before: Figures,
    /// It was closed then.
    was_over: bool,
}

impl Known {
    fn new(last: End) -> Known {
        Known { last, bytes: BTreeMap::new(), before: Figures::default(), was_over: false }
    }

    fn take(&mut self, end: End) {
        let bytes = self.bytes.entry(end.kernel.clone()).or_default();
        *bytes = end.bytes.max(*bytes);
        let messages = |end: &End| end.sent.saturating_add(end.received);
        if messages(&end) >= messages(&self.last) {
            self.last = end;
        }
    }

    fn all(&self) -> Figures {
        let bytes = self.bytes.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        Figures { sent: self.last.sent, received: self.last.received, bytes }
    }

    /// Returns what it has carried since the recording began.
    fn since(&self) -> Figures {
        let (now, before) = (self.all(), self.before);
        Figures {
            sent: now.sent.saturating_sub(before.sent),
            received: now.received.saturating_sub(before.received),
            bytes: now.bytes.saturating_sub(before.bytes),
        }
    }
}

/// Samples of the kernels of a board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    ends: BTreeMap<(String, Side), Known>,
    /// Of each kernel: the number that its next closed end gets, and how many were missed.
    logs: BTreeMap<String, (u64, u64)>,
    /// The time of the first sample, and of the last one.
    times: Option<(u64, u64)>,
}

impl Traffic {
    /// Adds what the lines of a text say; other lines are left out.
    pub fn take(&mut self, text: &str) {
        for said in text.lines().filter_map(said) {
            match said {
                Said::End(end) => {
                    let key = (end.channel.clone(), end.side);
                    self.ends.entry(key).or_insert_with(|| Known::new(end.clone())).take(end);
                }
                Said::Log { kernel, first, next, at_ns } => {
                    self.time(at_ns);
                    let log = self.logs.entry(kernel).or_default();
                    // A kernel that was started again begins with 0.
                    let seen = if next < log.0 { 0 } else { log.0 };
                    *log = (next, log.1.saturating_add(first.saturating_sub(seen)));
                }
            }
        }
    }

    fn time(&mut self, at_ns: u64) {
        let (first, last) = self.times.unwrap_or((at_ns, at_ns));
        self.times = Some((first.min(at_ns), last.max(at_ns)));
    }

    /// From now on only what is added counts, and the time begins with the last sample.
    pub fn begin(&mut self) {
        for known in self.ends.values_mut() {
            (known.before, known.was_over) = (known.all(), known.last.is_closed);
        }
        self.logs.values_mut().for_each(|log| log.1 = 0);
        self.times = self.times.map(|(_, last)| (last, last));
    }

    /// Returns the time between the first sample and the last one, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.times.map_or(0, |(first, last)| last - first)
    }

    /// Returns whether no channel was seen.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the number of ends that were closed and forgotten between two samples, by kernel.
    pub fn missed(&self) -> impl Iterator<Item = (&str, u64)> {
        let missed = self.logs.iter().map(|(kernel, log)| (kernel.as_str(), log.1));
        missed.filter(|(_, count)| *count > 0)
    }

    /// Returns what programs have sent each other: channels of one contract between the same two
    /// programs are added. `names` returns the name of a contract by its hash in hex digits.
    pub fn talks(&self, run: &str, names: &dyn Fn(&str) -> Option<String>) -> Vec<Talk> {
        let mut all = vec![];
        let mut channels: Vec<&String> = self.ends.keys().map(|(channel, _)| channel).collect();
        channels.dedup();
        for channel in channels {
            let side = |side| self.ends.get(&(channel.clone(), side));
            let both = [side(Side::Client), side(Side::Server)];
            if let Some(talk) = talk(run, both, names) {
                talk.add_to(&mut all);
            }
        }
        all.sort();
        all
    }

    /// Returns the same as records of a run, with what was missed.
    pub fn records(&self, run: &str, names: &dyn Fn(&str) -> Option<String>) -> Vec<Record> {
        let talks = self.talks(run, names).into_iter().map(Record::Talk);
        let missed = self.missed().map(|(domain, value)| {
            let (run, domain, what) = (run.to_string(), domain.to_string(), MISSED.to_string());
            Record::Count(Count { run, domain, what, value })
        });
        talks.chain(missed).collect()
    }
}

/// Returns what was sent over one channel, from what is known of its ends; `None` if it was over
/// when the recording began.
fn talk(
    run: &str,
    [client, server]: [Option<&Known>; 2],
    names: &dyn Fn(&str) -> Option<String>,
) -> Option<Talk> {
    let either = client.or(server)?;
    if [client, server].into_iter().flatten().any(|known| known.was_over) {
        return None;
    }
    let since = |end: Option<&Known>| end.map_or(Figures::default(), Known::since);
    let (asks, answers) = (since(client), since(server));
    let of = |end: Option<&Known>, other: Option<&Known>| match (end, other) {
        (Some(known), _) => (known.last.program.clone(), known.last.kernel.clone()),
        (None, Some(other)) => (UNKNOWN.to_string(), other.last.peer.clone()),
        (None, None) => (UNKNOWN.to_string(), UNKNOWN.to_string()),
    };
    let ((client, client_kernel), (server, server_kernel)) =
        (of(client, server), of(server, client));
    let hash = &either.last.contract;
    let short = || hash.chars().take(8).collect();
    Some(Talk {
        run: run.to_string(),
        contract: names(hash).unwrap_or_else(short),
        client,
        client_kernel,
        server,
        server_kernel,
        channels: 1,
        client_sent: asks.sent.max(answers.received),
        client_bytes: asks.bytes,
        server_sent: answers.sent.max(asks.received),
        server_bytes: answers.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "5f0c1e88a0b1c2d3e4f5061728394a5b";

    fn names(hash: &str) -> Option<String> {
        (hash == STORE).then(|| "mail_store.v1".to_string())
    }

    fn of(texts: &[&str]) -> Traffic {
        let mut traffic = Traffic::default();
        texts.iter().for_each(|text| traffic.take(text));
        traffic
    }

    /// A line about an end.
    fn line(kernel: &str, channel: &str, side: &str, state: &str, rest: &str) -> String {
        format!("  traffic {kernel} {channel} {side} {STORE} shadow {state} {rest}\r\n")
    }

    fn brief(talk: &Talk) -> String {
        let Talk { client, client_kernel, server, server_kernel, .. } = talk;
        format!(
            "{} {client}@{client_kernel} {server}@{server_kernel} {} {}/{} {}/{}",
            talk.contract,
            talk.channels,
            talk.client_sent,
            talk.client_bytes,
            talk.server_sent,
            talk.server_bytes
        )
    }

    fn talks(traffic: &Traffic) -> Vec<String> {
        traffic.talks("r", &names).iter().map(brief).collect()
    }

    #[test]
    fn other_lines_and_broken_ones_are_left_out() {
        for text in [
            "",
            "traffic",
            "main> traffic",
            "traffic main",
            "traffic main log 1 2",
            "traffic main log 1 2 x",
            "traffic main main.1.1 door 00 main held 1 2 3 4 p",
            "traffic main main.1.1 client 00 main held 1 2 -3 4 p",
            "traffic main main.1.1 client 00 main held 1 2 3",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
    }

    #[test]
    fn the_two_ends_of_a_channel_are_one_talk_on_whichever_kernels() {
        let client = line("main", "main.1.4", "client", "held", "12 11 8000 31 mail");
        let server = line("shadow", "main.1.4", "server", "held", "11 12 300 40 mail store");
        let traffic = of(&[&format!("main> traffic\r\n{client}"), &server]);
        let one = "mail_store.v1 mail@main mail store@shadow 1 12/8000 11/300";
        assert_eq!(talks(&traffic), [one]);
        let alone = of(&[&client]);
        let one = "mail_store.v1 mail@main ?@shadow 1 12/8000 11/0";
        assert_eq!(talks(&alone), [one], "what the other end has sent is known, its bytes not");
    }

    #[test]
    fn channels_of_one_pair_are_added_and_other_contracts_are_not() {
        let mut text = String::new();
        for number in 1..=3 {
            let channel = format!("main.1.{number}");
            text += &line("main", &channel, "client", "closed", "2 1 10 31 mail");
            text += &line("main", &channel, "server", "closed", "1 2 20 32 store");
        }
        text += &line("main", "main.1.9", "client", "held", "1 0 5 31 mail")
            .replace(STORE, &"ab".repeat(16));
        let found = talks(&of(&[&text]));
        let sum = "mail_store.v1 mail@main store@main 3 6/30 3/60";
        assert_eq!(found, ["abababab mail@main ?@shadow 1 1/5 0/0", sum]);
    }

    #[test]
    fn the_last_figures_of_an_end_that_vanishes_stay() {
        let early = line("main", "main.1.4", "client", "held", "2 1 100 31 mail");
        let late = line("main", "main.1.4", "client", "closed", "5 5 900 31 mail");
        let whole = "mail_store.v1 mail@main ?@shadow 1 5/900 5/0";
        assert_eq!(talks(&of(&[&early, &late, "traffic main log 0 1 9\n"])), [whole]);
        assert_eq!(talks(&of(&[&late, &late])), [whole], "one that is listed twice counts once");
    }

    #[test]
    fn bytes_of_an_end_that_moves_are_those_of_all_kernels() {
        let here = line("main", "main.1.4", "client", "held", "2 2 100 31 parent");
        let there = line("shadow", "main.1.4", "client", "held", "5 5 70 32 child");
        assert_eq!(
            talks(&of(&[&here, &there])),
            ["mail_store.v1 child@shadow ?@shadow 1 5/170 5/0"]
        );
    }

    #[test]
    fn what_was_before_the_recording_does_not_count() {
        let over = line("main", "main.1.1", "client", "closed", "9 9 99 30 old");
        let open = line("main", "main.1.2", "client", "held", "2 1 100 31 mail");
        let mut traffic = of(&[&format!("{over}{open}traffic main log 700 701 5000\n")]);
        traffic.begin();
        let more = line("main", "main.1.2", "client", "held", "6 5 180 31 mail");
        traffic.take(&format!("{over}{more}traffic main log 700 701 8000\n"));
        assert_eq!(talks(&traffic), ["mail_store.v1 mail@main ?@shadow 1 4/80 4/0"]);
        assert_eq!((traffic.length_ns(), traffic.missed().count()), (3000, 0));
    }

    #[test]
    fn ends_that_were_forgotten_between_two_samples_are_counted() {
        let log = |first, next| format!("traffic main log {first} {next} 7\n");
        let missed = |logs: &[String]| {
            let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
            of(&logs).missed().map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!(missed(&[log(0, 5), log(5, 133), log(134, 262)]), 1);
        assert_eq!(missed(&[log(3, 131), log(0, 1)]), 3, "the kernel was started again");
        let records = of(&[&log(2, 5)]).records("r", &names);
        let wanted =
            r#"{"kind":"count","run":"r","domain":"main","what":"channel_ends_missed","value":2}"#;
        assert_eq!(serde_json::to_string(&records[0]).expect("it is JSON"), wanted);
    }
}
