//! The messages in Rust: a struct for each, with its tag, its length, `encode` and `decode`.

use super::comment;
use crate::model::{Contract, Field, Message, Type};
use crate::names::{camel, sentence};
use std::fmt::Write;

/// Returns the module of all messages.
pub fn module(contract: &Contract) -> String {
    let mut code = "/// The messages.\npub mod message {\n".to_string();
    let uses_bytes = contract.messages.iter().any(|it| !it.fields.is_empty());
    if uses_bytes {
        code += "    use penumbra::channel;\n";
    }
    for (tag, message) in contract.messages.iter().enumerate() {
        code += "\n";
        code += &structure(message);
        code += "\n";
        code += &implementation(message, tag);
    }
    code + "}\n"
}

fn structure(message: &Message) -> String {
    let name = camel(&message.name);
    let mut code = comment("    ", &sentence(&message.about, "A message"));
    code += "    #[derive(Clone, Debug, PartialEq, Eq)]\n";
    if message.fields.is_empty() {
        return code + &format!("    pub struct {name} {{}}\n");
    }
    let _ = writeln!(code, "    pub struct {name} {{");
    for field in &message.fields {
        code += &comment("        ", &sentence(&field.about, "A field"));
        let _ = writeln!(code, "        pub {}: {},", field.name, kind(field.kind));
    }
    code + "    }\n"
}

fn kind(kind: Type) -> String {
    match kind {
        Type::Number { .. } => kind.to_string(),
        Type::Array(count) => format!("[u8; {count}]"),
        Type::Bytes(most) => format!("channel::Bytes<{most}>"),
    }
}

fn implementation(message: &Message, tag: usize) -> String {
    let (name, bytes) = (camel(&message.name), message.inline);
    let mut code = format!(
        "    impl {name} {{\n\
         \x20       /// The number of the message.\n\
         \x20       pub const TAG: u16 = {tag};\n\
         \x20       /// Length of its fields in bytes.\n\
         \x20       pub const BYTES: usize = {bytes};\n\n\
         \x20       /// Returns the fields as bytes.\n\
         \x20       pub fn encode(&self) -> [u8; Self::BYTES] {{\n"
    );
    if message.fields.is_empty() {
        code += "            []\n";
    } else {
        code += "            let mut bytes = [0; Self::BYTES];\n";
        for field in &message.fields {
            let _ = writeln!(code, "            {};", put(field));
        }
        code += "            bytes\n";
    }
    code += "        }\n\n";
    code +=
        "        /// Returns the message in `bytes`; `None` if they have another length, or a\n";
    code += "        /// field has an invalid one.\n";
    code += "        pub fn decode(bytes: &[u8]) -> Option<Self> {\n";
    code += "            if bytes.len() != Self::BYTES {\n";
    code += "                return None;\n            }\n";
    if message.fields.is_empty() {
        code += "            Some(Self {})\n";
    } else {
        code += "            Some(Self {\n";
        for field in &message.fields {
            let _ = writeln!(code, "                {}: {},", field.name, read(field));
        }
        code += "            })\n";
    }
    code + "        }\n    }\n"
}

fn put(Field { name, kind, offset, .. }: &Field) -> String {
    match kind {
        Type::Number { .. } => {
            format!("channel::put(&mut bytes, {offset}, &self.{name}.to_le_bytes())")
        }
        Type::Array(_) => format!("channel::put(&mut bytes, {offset}, &self.{name})"),
        Type::Bytes(_) => format!("self.{name}.put(&mut bytes, {offset})"),
    }
}

fn read(Field { kind, offset, .. }: &Field) -> String {
    match kind {
        Type::Number { .. } => {
            format!("{kind}::from_le_bytes(channel::read(bytes, {offset})?)")
        }
        Type::Array(_) => format!("channel::read(bytes, {offset})?"),
        Type::Bytes(_) => format!("channel::Bytes::read(bytes, {offset})?"),
    }
}
