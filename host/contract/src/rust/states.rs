//! The states in Rust, as one side sees them: a type for each.
//!
//! A state in which this side sends has a method for each message, one in which the other side
//! sends has `receive`. Each consumes the state and returns the next one. `transport` lends the
//! end, so that a program can wait for several.

use super::comment;
use crate::error::side_name;
use crate::model::{Contract, Endpoint, Message, State};
use crate::names::{camel, sentence};
use kernel_contract::{ENDPOINTS, Side};
use std::fmt::Write;

/// Returns the module of `side`.
pub fn module(contract: &Contract, side: Side) -> String {
    let start = camel(&contract.states[contract.start].name);
    let name = side_name(side);
    let mut code = format!(
        "/// The {name}'s side of a channel: each state is a type.\n\
         pub mod {name} {{\n    use super::message;\n    use penumbra::channel;\n\n\
         \x20   /// Begins a conversation over a new channel.\n\
         \x20   pub fn start<T: channel::Transport>(transport: T) -> {start}<T> {{\n\
         \x20       {start}(transport)\n    }}\n"
    );
    for state in &contract.states {
        code += "\n";
        code += &structure(contract, state, side);
    }
    let receiving: Vec<&State> =
        contract.states.iter().filter(|state| state.side == Some(side.other())).collect();
    if !receiving.is_empty() {
        code += "\n    /// What can be received, for each state in which something can.\n";
        code += "    pub mod received {\n        use super::super::message;\n";
        code += "        use penumbra::channel;\n";
        for state in receiving {
            code += "\n";
            code += &alternatives(contract, state);
        }
        code += "    }\n";
    }
    code + "}\n"
}

fn structure(contract: &Contract, state: &State, side: Side) -> String {
    let name = camel(&state.name);
    let about = match (state.about.as_str(), state.side) {
        ("", _) if state.side.is_none() => "The end: only closing is left".to_string(),
        ("", _) => format!("State `{}`", state.name),
        (about, _) => format!("State `{}`: {about}", state.name),
    };
    let mut code = comment("    ", &sentence(&about, ""));
    let _ = write!(
        code,
        "    #[derive(Debug)]\n\
         \x20   #[must_use = \"a conversation that is dropped is broken off\"]\n\
         \x20   pub struct {name}<T: channel::Transport>(T);\n\n\
         \x20   impl<T: channel::Transport> {name}<T> {{\n"
    );
    let mut methods: Vec<String> = match state.side {
        Some(sender) if sender == side => {
            let methods = |&(message, next): &(usize, usize)| {
                let (message, next) = (&contract.messages[message], &contract.states[next]);
                let answers = next.side == Some(side.other());
                [Some(send(message, next)), answers.then(|| call(contract, message, next))]
            };
            state.transitions.iter().flat_map(methods).flatten().collect()
        }
        Some(_) => vec![receive(contract, state)],
        None => vec![],
    };
    methods.push(TRANSPORT.to_string());
    if state.side.is_none() || (state.may_close && state.side == Some(side)) {
        methods.push(CLOSE.to_string());
    }
    code + &methods.join("\n") + "    }\n"
}

const CLOSE: &str = "        /// Closes the channel.
        pub fn close(self) {
            self.0.close();
        }
";

const TRANSPORT: &str =
    "        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
";

fn send(message: &Message, next: &State) -> String {
    let (name, kind, next) = (&message.name, camel(&message.name), camel(&next.name));
    let about = comment("        ", &sentence(&message.about, "Sends the message"));
    let notes = notes(message);
    let (parameters, contents) = (parameters(message), contents(message));
    format!(
        "{about}{notes}        pub fn send_{name}(\n{parameters}        ) \
         -> Result<{next}<T>, channel::Error> {{\n{contents}\
         \x20           self.0.send(message::{kind}::TAG, &bytes, block, endpoints)?;\n\
         \x20           Ok({next}(self.0))\n        }}\n"
    )
}

/// Returns the method that sends a message and waits for what follows.
fn call(contract: &Contract, message: &Message, next: &State) -> String {
    let (name, kind, state) = (&message.name, camel(&message.name), camel(&next.name));
    let most = most_bytes(contract, next);
    let (parameters, contents) = (parameters(message), contents(message));
    format!(
        "        /// Sends as `send_{name}` does and waits for the answer, in one call.\n\
         \x20       pub fn call_{name}(\n{parameters}        ) \
         -> Result<received::{state}<T>, channel::Error> {{\n{contents}\
         \x20           let (tag, mut answer) = (message::{kind}::TAG, [0; {most}]);\n\
         \x20           let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;\n\
         \x20           {state}(self.0).read(&answer, incoming)\n        }}\n"
    )
}

/// Returns the parameters of a method that sends, a line each.
fn parameters(message: &Message) -> String {
    let kind = camel(&message.name);
    let mut parameters = vec!["mut self".to_string(), format!("message: &message::{kind}")];
    if message.block.is_some() {
        parameters.push("block: T::Block".to_string());
    }
    parameters.extend(message.endpoints.iter().map(|it| format!("{}: T::Endpoint", it.name)));
    parameters.iter().map(|parameter| format!("            {parameter},\n")).collect()
}

/// Returns the lines that collect what is sent.
fn contents(message: &Message) -> String {
    let block = if message.block.is_some() { "Some(block)" } else { "None" };
    let endpoint = |index: usize| match message.endpoints.get(index) {
        Some(endpoint) => format!("Some({})", endpoint.name),
        None => "None".to_string(),
    };
    let endpoints: [String; ENDPOINTS] = std::array::from_fn(endpoint);
    let endpoints = endpoints.join(", ");
    format!(
        "            let bytes = message.encode();\n\
         \x20           let (block, endpoints) = ({block}, [{endpoints}]);\n"
    )
}

/// Returns sentences on the block and the endpoints of a message.
fn notes(message: &Message) -> String {
    let block =
        message.block.map(|most| format!("        /// `block` has at most {most} bytes.\n"));
    let carried = |it: &Endpoint| {
        let (name, side, contract) = (&it.name, side_name(it.side), &it.contract);
        comment(
            "        ",
            &format!("`{name}` is the {side}'s end of a new channel, by `{contract}`."),
        )
    };
    block.into_iter().chain(message.endpoints.iter().map(carried)).collect()
}

/// Returns the length of the longest message of a state.
fn most_bytes(contract: &Contract, state: &State) -> usize {
    let lengths = state.transitions.iter().map(|&(message, _)| contract.messages[message].inline);
    lengths.max().unwrap_or(0)
}

fn receive(contract: &Contract, state: &State) -> String {
    let (name, most) = (camel(&state.name), most_bytes(contract, state));
    let messages = || state.transitions.iter().map(|&(message, _)| &contract.messages[message]);
    let closed = match state.may_close {
        true => format!("return Ok(received::{name}::Closed)"),
        false => "return Err(channel::Error::Closed)".to_string(),
    };
    let mut code = format!(
        "        /// Waits for the next message.\n\
         \x20       pub fn receive(mut self) -> Result<received::{name}<T>, channel::Error> {{\n\
         \x20           let mut bytes = [0; {most}];\n\
         \x20           let incoming = self.0.receive(&mut bytes)?;\n\
         \x20           self.read(&bytes, incoming)\n        }}\n\n\
         \x20       fn read(\n            self,\n            bytes: &[u8],\n\
         \x20           incoming: channel::Incoming<T>,\n\
         \x20       ) -> Result<received::{name}<T>, channel::Error> {{\n\
         \x20           let Some(arrival) = incoming else {{\n\
         \x20               {closed};\n            }};\n"
    );
    let takes = |message: &Message| message.block.is_some() || !message.endpoints.is_empty();
    if messages().any(|message| !message.endpoints.is_empty()) {
        code += "            let mut endpoints = arrival.endpoints.into_iter();\n";
    }
    code += "            let wrong = channel::Error::Malformed(arrival.tag);\n";
    code += "            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;\n";
    code += "            match arrival.tag {\n";
    for &(index, next) in &state.transitions {
        let message = &contract.messages[index];
        let (kind, next) = (camel(&message.name), camel(&contract.states[next].name));
        let _ = write!(
            code,
            "                message::{kind}::TAG => Ok(received::{name}::{kind} {{\n\
             \x20                   message: message::{kind}::decode(bytes).ok_or(wrong)?,\n"
        );
        if takes(message) {
            code += &taken(message);
        }
        let _ = write!(code, "                    next: {next}(self.0),\n                }}),\n");
    }
    code += "                tag => Err(channel::Error::Unexpected(tag)),\n";
    code + "            }\n        }\n"
}

/// Returns the lines that take a message's block and endpoints.
fn taken(message: &Message) -> String {
    let mut code = String::new();
    if message.block.is_some() {
        code += "                    block: arrival.block.ok_or(wrong)?,\n";
    }
    for endpoint in &message.endpoints {
        let name = &endpoint.name;
        let line = format!("{name}: channel::take(&mut endpoints).ok_or(wrong)?,");
        let _ = writeln!(code, "                    {line}");
    }
    code
}

fn alternatives(contract: &Contract, state: &State) -> String {
    let name = camel(&state.name);
    let mut code = format!("        /// What can be received in state `{}`.\n", state.name);
    let _ = write!(
        code,
        "        #[derive(Debug)]\n\
         \x20       #[must_use = \"a conversation that is dropped is broken off\"]\n\
         \x20       pub enum {name}<T: channel::Transport> {{\n"
    );
    for &(index, next) in &state.transitions {
        let message = &contract.messages[index];
        let (kind, next) = (camel(&message.name), camel(&contract.states[next].name));
        code += &comment("            ", &sentence(&message.about, "A message"));
        let _ = writeln!(code, "            {kind} {{");
        let mut field = |about: &str, line: String| {
            code += &comment("                ", about);
            let _ = writeln!(code, "                {line},");
        };
        field("The message.", format!("message: message::{kind}"));
        if let Some(most) = message.block {
            field(&format!("Its block, of at most {most} bytes."), "block: T::Block".to_string());
        }
        for it in &message.endpoints {
            let (side, contract) = (side_name(it.side), &it.contract);
            let about = format!("The {side}'s end of a new channel, by `{contract}`.");
            field(&about, format!("{}: T::Endpoint", it.name));
        }
        field("The conversation, which continues.", format!("next: super::{next}<T>"));
        code += "            },\n";
    }
    if state.may_close {
        code += "            /// The other side has closed the channel.\n            Closed,\n";
    }
    code + "        }\n"
}
