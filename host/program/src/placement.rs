//! The fields of a manifest that say on which kernels the program runs: `platforms` and
//! `endpoints`.

use crate::error::{Place, Reason};
use crate::fields::{Field, Fields};
use abi::names::Name;
use abi::platform;
use abi::program::{AFFINITY, OWN_CONTRACT};
use kernel_seal::HASH;

/// The platforms that a program requires or prefers ([`abi::platform`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platforms {
    /// The kernel must have all of them.
    pub required: u8,
    /// A kernel with one of them is preferred, the first most. Packed.
    pub preferred: u16,
}

/// Where a program wants to run relative to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Positive: near to them, negative: apart from them, 0: it does not matter.
    Value(i32),
    /// It serves the contract itself, and its instances start apart from each other.
    Own,
}

/// What a program talks to, or a contract that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub to: To,
    pub affinity: Affinity,
}

/// What an endpoint leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// The servers of the contract `NAME.vN`. Its hash, once it is known: without it, kernels
    /// ignore the endpoint.
    Contract { name: String, hash: Option<[u8; HASH]> },
    /// What is registered by this name, or by names below it.
    Name(String),
}

impl Endpoint {
    /// Bytes of `HASH` in an image, and of what precedes it.
    pub(crate) const HASH_TEXT: usize = 1 + 2 * HASH;

    /// Returns it as stored in an image: `AFFINITY CONTRACT HASH` or `AFFINITY /NAME`.
    pub(crate) fn text(&self) -> String {
        let affinity = match self.affinity {
            Affinity::Value(value) => value.to_string(),
            Affinity::Own => OWN_CONTRACT.to_string(),
        };
        let (name, hash) = match &self.to {
            To::Contract { name, hash } => (name, hash),
            To::Name(name) => return format!("{affinity} /{name}"),
        };
        let digits = hash.iter().flatten().map(|byte| format!("{byte:02x}"));
        let hash: String = digits.collect();
        let before = if hash.is_empty() { "" } else { " " };
        format!("{affinity} {name}{before}{hash}")
    }
}

/// Parses `{ required = [...], preferred = [...] }`.
pub fn platforms(field: Field) -> Place<Platforms> {
    const ALLOWED: &str = "a table such as { required = [\"aarch64\"], preferred = [\"weak\"] }";
    const LIST: &str = "a list of \"aarch64\", \"riscv64\", \"strong\" and \"weak\"";
    const ONE: &str = "without a contradiction: a kernel must have all of them, and has one ISA, \
                       and strong or weak cores";
    let mut fields = field.table(&["preferred", "required"], ALLOWED)?;
    let mut list = |name: &str| fields.take(name).map(|it| Ok((named(&it, LIST)?, it))).transpose();
    let (mut found, required, preferred) =
        (Platforms::default(), list("required")?, list("preferred")?);
    if let Some((all, field)) = required {
        found.required = all.iter().fold(0, |set, platform| set | platform);
        if !platform::can_be_one(found.required) {
            return field.wrong(ONE);
        }
    }
    if let Some((all, field)) = preferred {
        match platform::pack(&all) {
            Some(packed) => found.preferred = packed,
            None => return field.wrong(LIST),
        }
    }
    Ok(found)
}

/// Parses a list of platforms, none of them twice.
fn named(field: &Field, allowed: &'static str) -> Place<Vec<u8>> {
    let mut found = vec![];
    for item in field.list(allowed)? {
        let text = item.text(allowed)?;
        let Some(platform) = platform::named(text) else { return item.wrong(allowed) };
        if found.contains(&platform) {
            return Err((item.at(), twice(field, text)));
        }
        found.push(platform);
    }
    Ok(found)
}

/// Parses a list of `{ contract = "NAME.vN", affinity = ... }` and `{ name = "NAME", ... }`, each
/// contract and name once.
pub fn endpoints(field: Field) -> Place<Vec<Endpoint>> {
    const ALLOWED: &str = "a list of tables such as \
                           { contract = \"ping.v1\", affinity = \"positive\" }, or with a \
                           name instead of a contract";
    const OF_NAME: &str = "\"positive\", \"negative\" or a number: \"self\" is for contracts";
    let mut found: Vec<Endpoint> = vec![];
    for item in field.short_list(ALLOWED)? {
        let at = item.at();
        let mut fields = item.table(&["affinity", "contract", "name"], ALLOWED)?;
        let (to, shown) = leads_to(&mut fields)?;
        if found.iter().any(|other| other.to == to) {
            return Err((at, twice(&field, &shown)));
        }
        let affinity = match fields.take("affinity") {
            None => Affinity::Value(0),
            Some(field) => match (affinity(&field)?, &to) {
                (Affinity::Own, To::Name(_)) => return field.wrong(OF_NAME),
                (affinity, _) => affinity,
            },
        };
        found.push(Endpoint { to, affinity });
    }
    Ok(found)
}

/// Parses what an endpoint leads to, which is also returned for people.
fn leads_to(fields: &mut Fields) -> Place<(To, String)> {
    const CONTRACT: &str = "the name of a contract with its version, such as \"ping.v1\"";
    const EITHER: &str = "the name of a contract with its version, such as \"ping.v1\"; \
                          or \"name\" instead";
    const NAME: &str = "a name, or the first parts of names, such as \"mail/virus\", \
                        \"service/net\" or \"kernel/main\"";
    const ONE: &str = "left out beside a name: an endpoint has one of them";
    let Some(name) = fields.take("name") else {
        let contract = fields.need("contract", EITHER)?;
        let text = contract.text(CONTRACT)?;
        if contract::name_and_version(text).is_none() {
            return contract.wrong(CONTRACT);
        }
        let to = To::Contract { name: text.to_string(), hash: None };
        return Ok((to, format!("the contract {text:?}")));
    };
    if let Some(contract) = fields.take("contract") {
        return contract.wrong(ONE);
    }
    let text = name.text(NAME)?;
    match Name::new(text.as_bytes()) {
        Some(_) => Ok((To::Name(text.to_string()), format!("the name {text:?}"))),
        None => name.wrong(NAME),
    }
}

fn twice(field: &Field, found: &str) -> Reason {
    Reason::Twice { field: field.name.clone(), found: found.to_string() }
}

fn affinity(field: &Field) -> Place<Affinity> {
    const ALLOWED: &str = "\"positive\" (near to its servers), \"negative\" (apart from them), \
                           \"self\" (the program serves it; its instances apart from each other), \
                           or a number of -100 to 100";
    let value = match field.text("") {
        Ok("positive") => 1,
        Ok("negative") => -1,
        Ok(OWN_CONTRACT) => return Ok(Affinity::Own),
        _ => field.number((-AFFINITY).into()..=AFFINITY.into(), ALLOWED)?,
    };
    Ok(Affinity::Value(value as i32))
}
