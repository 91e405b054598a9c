//! The automaton of a contract, as bytes for kernels (the format is `kernel-contract`'s).

use crate::error::side_name;
use crate::model::{Contract, Draft, Endpoint, Message};
use kernel_contract::{Automaton, Shape, Tables, Turn};
use std::fmt::Write;

/// Encodes a draft that `check` has accepted.
pub fn finish(draft: Draft) -> Contract {
    let bytes = tables(&draft).encode();
    let automaton = Automaton::parse(bytes.clone())
        .expect("the rules of `check` are those of `parse`, and more (tests/walks.rs)");
    Contract {
        name: draft.name,
        version: draft.version,
        about: draft.about,
        messages: draft.messages,
        states: draft.states,
        start: draft.start,
        bytes,
        automaton,
    }
}

// The limits of the format keep every number in its range.
fn tables(draft: &Draft) -> Tables {
    let turn = |state: &crate::model::State| Turn { side: state.side, may_close: state.may_close };
    let states = draft.states.iter().map(turn).collect();
    let transitions = draft.states.iter().enumerate().flat_map(|(from, state)| {
        let row = move |&(message, next): &(usize, usize)| (from as u8, message as u8, next as u8);
        state.transitions.iter().map(row)
    });
    Tables {
        start: draft.start as u8,
        level: draft.level(),
        names: digest(draft),
        states,
        messages: draft.messages.iter().map(shape).collect(),
        transitions: transitions.collect(),
    }
}

fn shape(message: &Message) -> Shape {
    Shape {
        from: message.from,
        inline: message.inline as u16,
        block: message.block.unwrap_or(0),
        endpoints: message.endpoints.iter().map(Endpoint::carried).collect(),
    }
}

/// Returns bytes as lines of numbers, in Rust and C alike.
pub fn rows(bytes: &[u8]) -> String {
    let row = |row: &[u8]| row.iter().map(|byte| format!(" {byte},")).collect::<String>();
    bytes.chunks(16).map(|bytes| format!("   {}\n", row(bytes))).collect()
}

/// Returns a digest of what the tables do not contain. Descriptions are not part of it, so a
/// contract can be explained better and stay the same.
fn digest(draft: &Draft) -> [u8; 16] {
    let mut text = format!("contract {} {}\n", draft.name, draft.version);
    // Writing to a String cannot fail.
    for message in &draft.messages {
        let _ = writeln!(text, "message {}", message.name);
        for field in &message.fields {
            let _ = writeln!(text, "field {} {}", field.name, field.kind);
        }
        for endpoint in &message.endpoints {
            let side = side_name(endpoint.side);
            let _ = writeln!(text, "endpoint {} {} {side}", endpoint.name, endpoint.contract);
        }
    }
    for state in &draft.states {
        let _ = writeln!(text, "state {}", state.name);
    }
    let digest = *blake3::hash(text.as_bytes()).as_bytes();
    std::array::from_fn(|at| digest[at])
}
