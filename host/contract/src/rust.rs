//! Rust code of a contract: a type for each state, so that a wrong order does not compile.
//!
//! ```text
//!   pub mod message   a struct for each message, to bytes and back   (rust/messages.rs)
//!   pub mod client    a type for each state, as the client sees it   (rust/states.rs)
//!   pub mod server    the same for the server
//! ```
//! The code needs `penumbra::channel` and nothing else, allocates nothing and cannot panic. It is
//! not formatted as rustfmt would.

mod messages;
mod states;

use crate::model::Contract;
use kernel_contract::Side;
use std::fmt::Write;

/// Returns the module of a contract; `source` is the file that it says it was made from.
pub fn module(contract: &Contract, source: &str) -> String {
    let name = contract.full_name();
    let title = comment("", &format!("Contract `{name}`: {}", contract.about));
    // Writing to a String cannot fail.
    let mut code: String =
        title.lines().map(|line| line.replacen("///", "//!", 1) + "\n").collect();
    let _ = write!(code, "//!\n//! Made by `./pen contract rust {source}`; do not edit.\n\n");
    let hash = contract.hash().0.map(|byte| format!("{byte:#04x}"));
    let (first, second) = hash.split_at(8);
    let _ = write!(
        code,
        "/// The contract's name.\npub const NAME: &str = \"{name}\";\n\
         /// The contract's hash: both sides of a channel must have the same.\n\
         pub const HASH: [u8; 16] = [\n    {},\n    {},\n];\n\n",
        first.join(", "),
        second.join(", ")
    );
    code += "/// The contract as the system takes it.\npub static CONTRACT: &[u8] = &[\n";
    code += &crate::encode::rows(&contract.bytes);
    code += "];\n\n";
    code += &messages::module(contract);
    for side in [Side::Client, Side::Server] {
        code += "\n";
        code += &states::module(contract, side);
    }
    code
}

/// Returns comment lines of at most 96 columns. Brackets in `text` are no links.
fn comment(indent: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.replace('[', "\\[").split_whitespace() {
        if !line.is_empty() && indent.len() + 5 + line.len() + word.len() > 96 {
            lines += &format!("{indent}/// {line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &format!("{indent}/// {line}\n")
}
