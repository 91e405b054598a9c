//! The page of a contract for readers: what it is for, its drawing, states, messages and bounds.

use crate::error::side_name;
use crate::model::{Contract, Field, Message, State};
use kernel_contract::{Bound, Side};
use std::fmt::Write;

/// Returns the page in Markdown. `source` is the file that it says it was made from, `drawing` the
/// path of the drawing, relative to the page.
pub fn page(contract: &Contract, source: &str, drawing: &str) -> String {
    let name = contract.full_name();
    let mut text = format!(
        "# {name}\n\n<!-- Made by `./pen contract draw {source}`; do not edit. -->\n\n{}\n\n\
         ![The states of {name}]({drawing})\n\n",
        contract.about
    );
    text += &states(contract);
    text += &messages(contract);
    text += &fields(contract);
    text += &bounds(contract);
    text
}

/// Returns a line with the size and the bounds of a contract.
pub fn summary(contract: &Contract) -> String {
    let bound = |from: Side| {
        let Bound { messages, inline, block, .. } = contract.automaton.bound(from);
        let blocks = if block > 0 { format!(" and {block} of blocks") } else { String::new() };
        let to = side_name(from.other());
        format!("to the {to} {messages} of {inline} bytes{blocks}")
    };
    let level = match contract.automaton.level() {
        0 => String::new(),
        level => format!("; level {level}"),
    };
    format!(
        "{}: {} states, {} messages; most unreceived messages {}, {}{level}; hash {}",
        contract.full_name(),
        contract.states.len(),
        contract.messages.len(),
        bound(Side::Client),
        bound(Side::Server),
        contract.digits()
    )
}

/// Returns a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn states(contract: &Contract) -> String {
    let mut text =
        "## States\n| state | turn | meaning | messages |\n| --- | --- | --- | --- |\n".to_string();
    for (index, state) in contract.states.iter().enumerate() {
        let turn = match (state.side, state.may_close) {
            (Some(side), true) => format!("{}, may close", side_name(side)),
            (Some(side), false) => side_name(side).to_string(),
            (None, _) => "end: both may close".to_string(),
        };
        let start = if index == contract.start { " (start)" } else { "" };
        let meaning = cell(&meaning(state));
        let next = |&(message, next): &(usize, usize)| {
            let (message, next) = (&contract.messages[message].name, &contract.states[next].name);
            format!("`{message}`: {next}")
        };
        let next: Vec<String> = state.transitions.iter().map(next).collect();
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "| {}{start} | {turn} | {meaning} | {} |", state.name, next.join("; "));
    }
    text + "\n"
}

fn meaning(state: &State) -> String {
    match (state.about.as_str(), &state.perpetual) {
        (about, None) => about.to_string(),
        ("", Some(why)) => format!("no end: {why}"),
        (about, Some(why)) => format!("{about} (no end: {why})"),
    }
}

fn messages(contract: &Contract) -> String {
    let mut text = "## Messages\n| tag | message | from | bytes | block | endpoints | meaning |\n\
                    | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_string();
    for (tag, message) in contract.messages.iter().enumerate() {
        let block = message.block.map_or(String::new(), |most| format!("at most {most}"));
        let _ = writeln!(
            text,
            "| {tag} | `{}` | {} | {} | {block} | {} | {} |",
            message.name,
            side_name(message.from),
            message.inline,
            endpoints(message),
            cell(&message.about)
        );
    }
    text + "\n"
}

fn endpoints(message: &Message) -> String {
    let one = |it: &crate::model::Endpoint| {
        let about = if it.about.is_empty() { String::new() } else { format!(": {}", it.about) };
        format!("`{}` ({} of {}){}", it.name, side_name(it.side), it.contract, cell(&about))
    };
    message.endpoints.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn fields(contract: &Contract) -> String {
    let with_fields = || contract.messages.iter().filter(|message| !message.fields.is_empty());
    if with_fields().next().is_none() {
        return String::new();
    }
    let mut text = "## Fields\n| message | offset | field | type | meaning |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_string();
    for (message, field) in
        with_fields().flat_map(|message| message.fields.iter().map(move |it| (message, it)))
    {
        let Field { name, about, kind, offset } = field;
        let about = cell(about);
        let _ = writeln!(text, "| `{}` | {offset} | `{name}` | {kind} | {about} |", message.name);
    }
    text + "\n"
}

fn bounds(contract: &Contract) -> String {
    let mut text = "## Bounds\nThe most that a side can have sent and the other has not received. \
                    The maxima of a row need not occur together.\n\n\
                    | sent by | messages | inline bytes | bytes of blocks | endpoints |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_string();
    for side in [Side::Client, Side::Server] {
        let Bound { messages, inline, block, endpoints } = contract.automaton.bound(side);
        let name = side_name(side);
        let _ = writeln!(text, "| {name} | {messages} | {inline} | {block} | {endpoints} |");
    }
    let level = contract.automaton.level();
    if level > 0 {
        let _ =
            writeln!(text, "\nThe contract has level {level}: it carries ends of lower levels.");
    }
    text
}
