//! The functions of a header that send and receive: for programs that include
//! `penumbra_channel.h` before.

use crate::model::{Contract, Message};
use kernel_contract::ENDPOINTS;
use std::fmt::Write;

/// Returns the part of the header after its guard.
pub fn calls(contract: &Contract) -> String {
    let symbol = contract.symbol();
    let upper = symbol.to_uppercase();
    let mut code = format!(
        "\n/* With penumbra_channel.h: functions that return 0 or an error number. */\n\
         #if defined(PENUMBRA_CHANNEL_H) && !defined(PENUMBRA_{upper}_CALLS_H)\n\
         #define PENUMBRA_{upper}_CALLS_H\n\n#include <errno.h>\n\n"
    );
    code += &ends(&symbol);
    code += &received(contract);
    code += &read(contract);
    code += &receive(&symbol, room(contract));
    for message in &contract.messages {
        code += &send(message, &symbol);
        if is_answered(contract, message) {
            code += &call(message, &symbol, room(contract));
        }
    }
    code + &format!("\n#endif /* PENUMBRA_{upper}_CALLS_H */\n")
}

/// Returns whether the other side has the turn after this message, in some state.
fn is_answered(contract: &Contract, message: &Message) -> bool {
    let is_it = |index: &usize| contract.messages[*index].name == message.name;
    let mut transitions = contract.states.iter().flat_map(|state| &state.transitions);
    transitions.any(|(index, next)| {
        is_it(index) && contract.states[*next].side == Some(message.from.other())
    })
}

/// Returns the length of an array for the fields of any message.
fn room(contract: &Contract) -> usize {
    contract.messages.iter().map(|message| message.inline).max().unwrap_or(0).max(1)
}

/// Returns the functions that make and use ends.
fn ends(symbol: &str) -> String {
    format!(
        "/* Creates a channel: ends[0] is the client's, ends[1] the server's. */\n\
         static inline int {symbol}_channel(uint32_t ends[2])\n{{\n\
         \x20   return penumbra_channel(\n\
         \x20       {symbol}_contract, sizeof({symbol}_contract), ends);\n}}\n\n\
         /* Uses an end that was received or inherited. `side`: enum penumbra_side. */\n\
         static inline int {symbol}_use(uint32_t end, uint32_t side)\n{{\n\
         \x20   return penumbra_channel_use(\n\
         \x20       end, {symbol}_contract, sizeof({symbol}_contract), side);\n}}\n\n"
    )
}

/// Returns the struct of a received message.
fn received(contract: &Contract) -> String {
    let symbol = contract.symbol();
    let mut members = String::new();
    for message in contract.messages.iter().filter(|message| !message.fields.is_empty()) {
        let name = &message.name;
        let _ = writeln!(members, "        struct {symbol}_{name} {name};");
    }
    if !members.is_empty() {
        members = format!("    union {{\n{members}    }} message;\n");
    }
    format!(
        "/* A received message: the member of `message` that `tag` says. `room` is the caller's,\n\
         \x20* for blocks; `block` is the part of it with the block, `ends` what it carries. */\n\
         struct {symbol}_received {{\n    struct penumbra_piece room;\n    uint16_t tag;\n\
         \x20   struct penumbra_piece block;\n\
         \x20   uint32_t ends[{ENDPOINTS}];\n{members}}};\n"
    )
}

/// Returns the function that makes a received message of what has come.
fn read(contract: &Contract) -> String {
    let (symbol, upper) = (contract.symbol(), contract.symbol().to_uppercase());
    let mut cases = String::new();
    for message in &contract.messages {
        let (name, tag) = (&message.name, message.name.to_uppercase());
        let good = match message.fields.is_empty() {
            true => "from->bytes.count == 0".to_string(),
            false => {
                format!("{symbol}_{name}_decode(&into->message.{name}, bytes, from->bytes.count)")
            }
        };
        cases += &format!("    case {upper}_TAG_{tag}:\n        good = {good};\n        break;\n");
    }
    format!(
        "\n/* Reads what came into `from`. EPROTO if it is not by the contract. */\n\
         static inline int {symbol}_read(\n\
         \x20   struct {symbol}_received *into, const struct penumbra_message *from,\n\
         \x20   const uint8_t *bytes)\n{{\n\
         \x20   into->tag = from->tag;\n    into->block = from->block;\n\
         \x20   memcpy(into->ends, from->ends, sizeof(into->ends));\n\
         \x20   bool good = false;\n    (void)bytes;\n    switch (from->tag) {{\n{cases}\
         \x20   default:\n        break;\n    }}\n    return good ? 0 : EPROTO;\n}}\n"
    )
}

/// Returns the function that waits for a message.
fn receive(symbol: &str, most: usize) -> String {
    format!(
        "\n/* Waits for a message. `flags`: PENUMBRA_NO_WAIT. After EMSGSIZE, `block` has the\n\
         \x20* count that is needed. */\n\
         static inline int {symbol}_receive(\n\
         \x20   uint32_t channel, struct {symbol}_received *into, uint32_t flags)\n{{\n\
         \x20   uint8_t bytes[{most}];\n\
         \x20   struct penumbra_message come = penumbra_message(0, bytes, sizeof(bytes));\n\
         \x20   come.block = into->room;\n\
         \x20   int error = penumbra_channel_receive(channel, &come, flags);\n\
         \x20   into->block = come.block;\n\
         \x20   return error ? error : {symbol}_read(into, &come, bytes);\n}}\n"
    )
}

fn send(message: &Message, symbol: &str) -> String {
    let name = &message.name;
    let (parameters, contents) = (parameters(message, symbol), contents(message, symbol));
    format!(
        "\n/* Sends `{name}`. */\n\
         static inline int {symbol}_{name}_send(\n    uint32_t channel{parameters})\n{{\n{contents}\
         \x20   return penumbra_channel_send(channel, &sent);\n}}\n"
    )
}

fn call(message: &Message, symbol: &str, most: usize) -> String {
    let name = &message.name;
    let (parameters, contents) = (parameters(message, symbol), contents(message, symbol));
    format!(
        "\n/* Sends `{name}` and waits for what follows. After EMSGSIZE it was sent. */\n\
         static inline int {symbol}_{name}_call(\n    uint32_t channel{parameters},\n\
         \x20   struct {symbol}_received *reply)\n{{\n{contents}\
         \x20   uint8_t answer[{most}];\n\
         \x20   struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));\n\
         \x20   come.block = reply->room;\n\
         \x20   int error = penumbra_channel_call(channel, &sent, &come);\n\
         \x20   reply->block = come.block;\n\
         \x20   return error ? error : {symbol}_read(reply, &come, answer);\n}}\n"
    )
}

/// Returns the parameters of a function that sends, after the first.
fn parameters(message: &Message, symbol: &str) -> String {
    let mut parameters = String::new();
    if !message.fields.is_empty() {
        let _ = write!(parameters, ",\n    const struct {symbol}_{} *message", message.name);
    }
    if message.block.is_some() {
        parameters += ",\n    struct penumbra_piece block";
    }
    for endpoint in &message.endpoints {
        let _ = write!(parameters, ",\n    uint32_t {}", endpoint.name);
    }
    parameters
}

/// Returns the lines that collect what is sent in `sent`.
fn contents(message: &Message, symbol: &str) -> String {
    let (name, upper) = (&message.name, symbol.to_uppercase());
    let (mut code, mut bytes) = (String::new(), "0, 0");
    if !message.fields.is_empty() {
        let _ = write!(
            code,
            "    uint8_t bytes[{}];\n    if (!{symbol}_{name}_encode(message, bytes))\n\
             \x20       return EINVAL;\n",
            message.inline
        );
        bytes = "bytes, sizeof(bytes)";
    }
    let tag = format!("{upper}_TAG_{}", name.to_uppercase());
    let _ = writeln!(code, "    struct penumbra_message sent = penumbra_message({tag}, {bytes});");
    if message.block.is_some() {
        code += "    sent.block = block;\n    sent.flags = PENUMBRA_HAS_BLOCK;\n";
    }
    for (index, endpoint) in message.endpoints.iter().enumerate() {
        let _ = writeln!(code, "    sent.ends[{index}] = {};", endpoint.name);
    }
    code
}
