//! The file of a contract as parsed: every key of the format. Only types are checked.
//!
//! Unknown keys are rejected. [`Spanned`] keeps the offset of a value so that later checks can
//! report its line. Keep in step with `docs/reference/contracts.md`.

use crate::error::{Place, Reason};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub about: String,
    pub start: Spanned<String>,
    #[serde(default)]
    pub message: Vec<Message>,
    #[serde(default)]
    pub state: Vec<State>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub name: Spanned<String>,
    #[serde(default)]
    pub about: String,
    pub from: Side,
    #[serde(default)]
    pub fields: Vec<Field>,
    pub block: Option<Spanned<String>>,
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    pub name: Spanned<String>,
    #[serde(rename = "type")]
    pub kind: Spanned<String>,
    #[serde(default)]
    pub about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub name: Spanned<String>,
    pub contract: Spanned<String>,
    pub side: Side,
    #[serde(default)]
    pub about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub name: Spanned<String>,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub close: bool,
    #[serde(default)]
    pub end: bool,
    pub perpetual: Option<String>,
    #[serde(default)]
    pub on: BTreeMap<String, Spanned<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Client,
    Server,
}

impl From<Side> for kernel_contract::Side {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => kernel_contract::Side::Client,
            Side::Server => kernel_contract::Side::Server,
        }
    }
}

/// Parses the text of a contract.
pub fn read(text: &str) -> Place<File> {
    toml::from_str(text).map_err(|e| {
        (e.span().map_or(0, |span| span.start), Reason::Syntax(e.message().trim().to_string()))
    })
}
