//! The C header of a contract: structs with the layout of the messages, tags, states, and functions
//! that make a message's bytes of its struct and back. Plain C11, all of it inline.
//!
//! With `penumbra_channel.h` the header also has functions that send and receive (`c/calls.rs`).
//!
//! Wrong orders compile in C. The names of the states are there for programs that keep track.

mod calls;

use crate::error::side_name;
use crate::model::{Contract, Endpoint, Field, Message, Type};
use crate::names::sentence;
use std::fmt::Write;

/// Returns the header of a contract; `source` is the file that it says it was made from.
pub fn header(contract: &Contract, source: &str) -> String {
    let (name, symbol) = (contract.full_name(), contract.symbol());
    let upper = symbol.to_uppercase();
    let mut code = format!(
        "/* Contract {name}, made by `./pen contract c {}`; do not edit.\n * {} */\n\n\
         #ifndef PENUMBRA_{upper}_H\n#define PENUMBRA_{upper}_H\n\n\
         #include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n",
        inside(source),
        inside(&contract.about)
    );
    let hash = contract.hash().0.map(|byte| format!("{byte:#04x}"));
    let (first, second) = hash.split_at(8);
    let (first, second) = (first.join(", "), second.join(", "));
    // Writing to a String cannot fail.
    let _ = write!(
        code,
        "#define {upper}_NAME \"{name}\"\n\
         /* Both sides of a channel must have the same hash. */\n\
         #define {upper}_HASH {{ \\\n    {first}, \\\n    {second} }}\n\n"
    );
    let _ = write!(
        code,
        "/* The contract as the system takes it. */\n\
         static const unsigned char {symbol}_contract[] = {{\n{}}};\n\n",
        crate::encode::rows(&contract.bytes)
    );
    code += &states(contract, &upper);
    code += &tags(contract, &upper);
    for message in &contract.messages {
        code += "\n";
        code += &structure(message, &symbol);
        code += &functions(message, &symbol);
    }
    let _ = write!(code, "\n#endif /* PENUMBRA_{upper}_H */\n");
    code + &calls::calls(contract)
}

/// Returns a text as it can be in a comment: on one line, because a compiler joins the lines `*\`
/// and `/` before it looks for the end of the comment.
fn inside(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("*/", "* /").replace("/*", "/ *")
}

fn states(contract: &Contract, upper: &str) -> String {
    let mut code = "/* The states, and the side that may send in each. */\nenum {\n".to_string();
    for (number, state) in contract.states.iter().enumerate() {
        let turn = state.side.map_or("none: an end", side_name);
        let name = state.name.to_uppercase();
        let _ = writeln!(code, "    {upper}_STATE_{name} = {number}, /* {turn} */");
    }
    let start = contract.states[contract.start].name.to_uppercase();
    code + &format!("    {upper}_START = {upper}_STATE_{start},\n}};\n\n")
}

fn tags(contract: &Contract, upper: &str) -> String {
    let mut code = "/* The messages, and the side that sends each. */\nenum {\n".to_string();
    for (tag, message) in contract.messages.iter().enumerate() {
        let (name, from) = (message.name.to_uppercase(), side_name(message.from));
        let _ = writeln!(code, "    {upper}_TAG_{name} = {tag}, /* {from} */");
    }
    code + "};\n"
}

/// The parts of a struct in order: fields, and the padding between and after them.
enum Part<'a> {
    Field(&'a Field),
    /// Its offset and its length.
    Padding(usize, usize),
}

fn parts(message: &Message) -> Vec<Part<'_>> {
    let (mut parts, mut end) = (Vec::new(), 0);
    for field in &message.fields {
        if field.offset > end {
            parts.push(Part::Padding(end, field.offset - end));
        }
        parts.push(Part::Field(field));
        end = field.offset + field.kind.size();
    }
    if message.inline > end {
        parts.push(Part::Padding(end, message.inline - end));
    }
    parts
}

fn structure(message: &Message, symbol: &str) -> String {
    let (name, bytes) = (&message.name, message.inline);
    let (prefix, upper) = (symbol.to_uppercase(), name.to_uppercase());
    let about = inside(&sentence(&message.about, "A message"));
    let mut code = format!("/* {name}: {about}{} */\n", extras(message));
    let _ = writeln!(code, "#define {prefix}_BYTES_{upper} {bytes}");
    if let Some(most) = message.block {
        let _ = writeln!(code, "#define {prefix}_BLOCK_{upper} {most}");
    }
    if !message.endpoints.is_empty() {
        let count = message.endpoints.len();
        let _ = writeln!(code, "#define {prefix}_ENDPOINTS_{upper} {count}");
    }
    if message.fields.is_empty() {
        return code;
    }
    let tag = format!("{symbol}_{name}");
    let _ = writeln!(code, "struct {tag} {{");
    for part in parts(message) {
        code += &member(&part);
    }
    let size = format!("{prefix}_BYTES_{upper}");
    let _ = writeln!(code, "}};\n_Static_assert(sizeof(struct {tag}) == {size}, \"size\");");
    for field in &message.fields {
        let (field_name, offset) = (first_member(field), field.offset);
        let _ = writeln!(
            code,
            "_Static_assert(offsetof(struct {tag}, {field_name}) == {offset}, \"{field_name}\");"
        );
    }
    code
}

/// Returns sentences on what the message has besides its fields.
fn extras(message: &Message) -> String {
    let block = message.block.map(|most| format!(" With a block of at most {most} bytes."));
    let carried = |it: &Endpoint| {
        format!(" Carries {}: the {}'s end, by {}.", it.name, side_name(it.side), it.contract)
    };
    block.into_iter().chain(message.endpoints.iter().map(carried)).collect()
}

fn first_member(field: &Field) -> String {
    match field.kind {
        Type::Bytes(_) => format!("{}_length", field.name),
        _ => field.name.clone(),
    }
}

fn member(part: &Part<'_>) -> String {
    let field = match part {
        Part::Field(field) => field,
        Part::Padding(at, length) => return format!("    uint8_t padding_{at}[{length}];\n"),
    };
    let (name, about) = (&field.name, inside(&field.about));
    let about = if about.is_empty() { String::new() } else { format!(" /* {about} */") };
    match field.kind {
        Type::Number { bytes, is_signed } => {
            let sign = if is_signed { "" } else { "u" };
            format!("    {sign}int{}_t {name};{about}\n", 8 * bytes)
        }
        Type::Array(count) => format!("    uint8_t {name}[{count}];{about}\n"),
        Type::Bytes(most) => {
            format!("    uint16_t {name}_length;\n    uint8_t {name}[{most}];{about}\n")
        }
    }
}

fn functions(message: &Message, symbol: &str) -> String {
    if message.fields.is_empty() {
        return String::new();
    }
    let tag = format!("{symbol}_{}", message.name);
    let bytes = format!("{symbol}_BYTES_{}", message.name).to_uppercase();
    let mut code = format!(
        "\n/* Writes the fields to `bytes`. False if a length is invalid. */\n\
         static inline bool {tag}_encode(\n\
         \x20   const struct {tag} *message, uint8_t bytes[{bytes}])\n{{\n"
    );
    code += &lengths(message);
    let _ = writeln!(code, "    memset(bytes, 0, {bytes});");
    message.fields.iter().for_each(|field| code += &encode(field));
    code += "    return true;\n}\n";
    let _ = write!(
        code,
        "\n/* Reads the fields from `length` bytes. False if a length is invalid. */\n\
         static inline bool {tag}_decode(\n\
         \x20   struct {tag} *message, const uint8_t *bytes, size_t length)\n{{\n\
         \x20   if (length != {bytes})\n        return false;\n\
         \x20   memset(message, 0, sizeof(*message));\n"
    );
    message.fields.iter().for_each(|field| code += &decode(field));
    code += &lengths(message);
    code + "    return true;\n}\n"
}

/// Returns the checks of all lengths.
fn lengths(message: &Message) -> String {
    let check = |field: &Field| match field.kind {
        Type::Bytes(most) => {
            let name = &field.name;
            format!("    if (message->{name}_length > {most})\n        return false;\n")
        }
        _ => String::new(),
    };
    message.fields.iter().map(check).collect()
}

fn encode(field: &Field) -> String {
    let (name, at) = (&field.name, field.offset);
    match field.kind {
        Type::Number { bytes, .. } => put(name, at, bytes),
        Type::Array(count) => format!("    memcpy(bytes + {at}, message->{name}, {count});\n"),
        Type::Bytes(_) => {
            let content = at + 2;
            put(&format!("{name}_length"), at, 2)
                + &format!(
                    "    memcpy(bytes + {content}, message->{name}, message->{name}_length);\n"
                )
        }
    }
}

/// Returns stores of the bytes of a number, so that the order of the machine does not matter.
fn put(name: &str, at: usize, bytes: usize) -> String {
    let byte = |index: usize| {
        let shift = 8 * index;
        format!("    bytes[{}] = (uint8_t)((uint64_t)message->{name} >> {shift});\n", at + index)
    };
    (0..bytes).map(byte).collect()
}

fn decode(field: &Field) -> String {
    let (name, at) = (&field.name, field.offset);
    match field.kind {
        Type::Number { bytes, is_signed } => get(name, at, bytes, is_signed),
        Type::Array(count) => format!("    memcpy(message->{name}, bytes + {at}, {count});\n"),
        Type::Bytes(most) => {
            let content = at + 2;
            get(&format!("{name}_length"), at, 2, false)
                + &format!("    memcpy(message->{name}, bytes + {content}, {most});\n")
        }
    }
}

fn get(name: &str, at: usize, bytes: usize, is_signed: bool) -> String {
    let byte = |index: usize| match index {
        0 => format!("(uint64_t)bytes[{at}]"),
        _ => format!("(uint64_t)bytes[{}] << {}", at + index, 8 * index),
    };
    let sum = (0..bytes).map(byte).collect::<Vec<_>>().join("\n        | ");
    let kind = format!("{}int{}_t", if is_signed { "" } else { "u" }, 8 * bytes);
    format!("    message->{name} = ({kind})({sum});\n")
}
