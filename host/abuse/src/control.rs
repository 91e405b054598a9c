//! The soc's control socket. The input is what a client sends, in pieces. Rules:
//! - nothing panics or hangs, and other clients are served;
//! - each line gets one answer, in order: a line of JSON with `ok`;
//! - a client that sends a line without end gets an error and is disconnected.

use crate::bytes::Bytes;
use crate::{Target, mutate};
use base::prng::Prng;
use serde_json::Value;
use soc::control::{Control, MAX_LINE, good};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

pub const TARGET: Target = Target {
    name: "control",
    about: "the soc's control socket",
    daily: 2000,
    nightly: 100_000,
    run: |bytes| judge(bytes, |_| good()),
    seed,
    outcomes: || {
        vec![(0, "an operation"), (1, "a refusal"), (2, "disconnected"), (3, "several lines")]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 1 << 14;
/// Maximum bytes that are sent before the soc looks again: the socket must take them all.
const PIECE: usize = 700;

const LINES: [&str; 8] = [
    r#"{"op":"status"}"#,
    r#"{"op":"kill","domain":"shadow"}"#,
    r#"{"op":"power","domain":"shadow","action":"inactive"}"#,
    r#"{"op":"cut","device":"disk","after":9,"seed":1}"#,
    r#"{"op":"shutdown"}"#,
    r#"{"op":"reboot"}"#,
    r#"{"op":"status","more":[1,2.5e300,null,"\ud800"]}"#,
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

thread_local! {
    static SOC: RefCell<(Control, tempfile::TempDir)> = RefCell::new({
        let folder = tempfile::tempdir().unwrap();
        (Control::open(&folder.path().join("control.sock")).unwrap(), folder)
    });
}

/// A client of the soc.
struct Client {
    stream: UnixStream,
    answers: Vec<u8>,
    gone: bool,
}

impl Client {
    fn new(path: &std::path::Path) -> Client {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_nonblocking(true).unwrap();
        Client { stream, answers: Vec::new(), gone: false }
    }

    /// Reads what has been answered.
    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        while !self.gone {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.gone = true,
                Ok(count) => self.answers.extend(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => self.gone = true,
            }
        }
    }
}

fn judge(bytes: &[u8], answer: impl Fn(usize) -> Value) -> u64 {
    SOC.with_borrow_mut(|(control, folder)| {
        let path = folder.path().join("control.sock");
        let (mut client, mut other) = (Client::new(&path), Client::new(&path));
        let mut input = Bytes::new(bytes, LONGEST);
        let (mut sent, mut operations) = (Vec::new(), 0);
        while !input.is_empty() && !client.gone {
            let length = 1 + input.below(PIECE);
            let piece = input.take(length);
            // It fails if the soc has disconnected the client.
            if client.stream.write_all(piece).is_ok() {
                sent.extend(piece);
            }
            for (number, _) in control.take() {
                control.answer(number, &answer(operations));
                operations += 1;
            }
            client.listen();
        }
        other.stream.write_all(b"{\"op\":\"status\"}\n").unwrap();
        control.take().iter().for_each(|(number, _)| control.answer(*number, &good()));
        other.listen();
        assert_eq!(other.answers, format!("{}\n", good()).as_bytes(), "another client");
        let outcomes = check(&client, &sent);
        drop((client, other));
        // The soc forgets both.
        control.take();
        assert_eq!(control.waits_for().count(), 1);
        outcomes
    })
}

fn check(client: &Client, sent: &[u8]) -> u64 {
    let lines = sent.iter().filter(|byte| **byte == b'\n').count();
    let longest = sent.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
    let text = str::from_utf8(&client.answers).expect("answers are text");
    let answers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("answers are JSON")).collect();
    assert!(text.is_empty() || text.ends_with('\n'), "half an answer");
    let mut outcomes = u64::from(lines > 1) << 3;
    for answer in &answers {
        let ok = answer["ok"].as_bool().expect("an answer says whether it is ok");
        assert!(ok || answer["error"].as_str().is_some_and(|error| !error.is_empty()));
        outcomes |= 1 << u32::from(!ok);
    }
    if client.gone {
        assert!(longest > MAX_LINE, "disconnected after lines of {longest} bytes at most");
        assert!(text.lines().last().is_some_and(|last| last.contains("longer")), "{text}");
        return outcomes | 1 << 2;
    }
    assert_eq!(answers.len(), lines, "answers to lines");
    outcomes
}

fn seed(seed: u64) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let mut all = Vec::new();
    for _ in 0..1 + prng.below(6) {
        let line = LINES[prng.below(LINES.len() as u64) as usize].as_bytes();
        let line = if prng.chance(1, 2) { mutate::spoil(&mut prng, line) } else { line.to_vec() };
        all.extend(line);
        if prng.chance(9, 10) {
            all.push(b'\n');
        }
        if prng.chance(1, 20) {
            all.extend(vec![b'x'; 4000 + prng.below(2000) as usize]);
        }
    }
    // Each piece is preceded by its length, less 1.
    let pieces = all.chunks(1 + prng.below(PIECE as u64) as usize);
    pieces.flat_map(|it| [&(it.len() as u16 - 1).to_le_bytes(), it].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_none_is_found() {
        let wrong = |number: usize| match number {
            0 => good(),
            _ => serde_json::json!({ "done": true }),
        };
        let found =
            (0..50).any(|number| std::panic::catch_unwind(|| judge(&seed(number), wrong)).is_err());
        assert!(found);
    }
}
