//! From the file to the contract: names are checked, and references resolved.
//!
//! A contract that carries endpoints of others needs their hashes and levels, so their files, which
//! lie in the same folder, are read too.

use crate::check;
use crate::encode;
use crate::error::{ContractError, Place, Reason};
use crate::file::{self, File};
use crate::model::{Contract, Draft, Endpoint, Field, Message, State, Type};
use crate::names;
use kernel_contract::{BLOCK, ENDPOINTS, Hash, INLINE, MAX_LEVEL, MESSAGES, STATES};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Spanned;

impl Contract {
    /// Reads and checks the contract in the file at `path`.
    pub fn read(path: &Path) -> Result<Self, ContractError> {
        Reader::default().read(path)
    }

    /// Checks the text of a contract. `path` is its file, which need not exist; the contracts of
    /// carried endpoints are read from the same folder.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ContractError> {
        Reader::default().parse(path, text)
    }
}

/// Reads a contract, and those whose endpoints it carries.
#[derive(Default)]
struct Reader {
    /// The contracts that are being read; each carries an endpoint of the next.
    chain: Vec<String>,
    /// The contracts that have been read, so that each is read once: hash and level.
    known: BTreeMap<String, (Hash, u8)>,
}

impl Reader {
    fn read(&mut self, path: &Path) -> Result<Contract, ContractError> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            let reason = Reason::Unreadable(e.to_string());
            ContractError::at(&path.display().to_string(), "", (0, reason))
        })?;
        self.parse(path, &text)
    }

    fn parse(&mut self, path: &Path, text: &str) -> Result<Contract, ContractError> {
        let shown = path.display().to_string();
        let wrong = |wrong| ContractError::at(&shown, text, wrong);
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let named = file_name.strip_suffix(".toml").and_then(names::contract);
        let (name, version) =
            named.ok_or_else(|| wrong((0, Reason::FileName(file_name.to_string()))))?;
        let file = file::read(text).map_err(wrong)?;
        self.chain.push(format!("{name}.v{version}"));
        let carried = file.message.iter().map(|it| self.endpoints(path, it, wrong));
        let carried = carried.collect::<Result<_, _>>()?;
        self.chain.pop();
        let draft = draft(name, version, &file, carried).map_err(wrong)?;
        check::check(&draft).map_err(wrong)?;
        Ok(encode::finish(draft))
    }

    /// Returns the endpoints that a message carries, of contracts beside the file `path`.
    fn endpoints(
        &mut self,
        path: &Path,
        message: &file::Message,
        wrong: impl Fn((usize, Reason)) -> ContractError,
    ) -> Result<Vec<Endpoint>, ContractError> {
        let endpoint = |written: &file::Endpoint| {
            let (at, contract) = (written.contract.span().start, written.contract.get_ref());
            let (hash, level) = self.carried(path, contract, |reason| wrong((at, reason)))?;
            Ok(Endpoint {
                name: written.name.get_ref().clone(),
                about: written.about.clone(),
                contract: contract.clone(),
                hash,
                level,
                side: written.side.into(),
            })
        };
        message.endpoints.iter().map(endpoint).collect()
    }

    /// Returns hash and level of the contract `name`, beside the file `path`, of which the contract
    /// that is being read carries an endpoint.
    fn carried(
        &mut self,
        path: &Path,
        name: &str,
        wrong: impl Fn(Reason) -> ContractError,
    ) -> Result<(Hash, u8), ContractError> {
        if names::contract(name).is_none() {
            return Err(wrong(Reason::NoContract(name.to_string())));
        }
        let known = match self.known.get(name) {
            Some(&known) => known,
            None => self.read_carried(path, name, &wrong)?,
        };
        match self.chain.last() {
            Some(own) if known.1 == MAX_LEVEL => Err(wrong(Reason::Level(own.clone()))),
            _ => Ok(known),
        }
    }

    fn read_carried(
        &mut self,
        path: &Path,
        name: &str,
        wrong: impl Fn(Reason) -> ContractError,
    ) -> Result<(Hash, u8), ContractError> {
        if self.chain.last().is_some_and(|own| own == name) {
            return Err(wrong(Reason::OwnKind(name.to_string())));
        }
        if self.chain.iter().any(|it| it == name) {
            return Err(wrong(Reason::Circle(format!("{} -> {name}", self.chain.join(" -> ")))));
        }
        // A limit here also bounds the recursion.
        if self.chain.len() > MAX_LEVEL.into() {
            return Err(wrong(Reason::Level(self.chain[0].clone())));
        }
        let file = path.with_file_name(format!("{name}.toml"));
        if !file.exists() {
            let (name, known) = (name.to_string(), siblings(path).join(", "));
            return Err(wrong(Reason::Undefined { what: "contract", name, known }));
        }
        let contract = self.read(&file)?;
        let known = (contract.hash(), contract.automaton.level());
        self.known.insert(name.to_string(), known);
        Ok(known)
    }
}

/// Returns the names of the contracts in the folder of the file `beside`.
fn siblings(beside: &Path) -> Vec<String> {
    let folder = beside.parent().filter(|it| !it.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    let name = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().strip_suffix(".toml")?.to_string();
        names::contract(&name).is_some().then_some(name)
    };
    let mut names: Vec<String> = entries.flatten().filter_map(name).collect();
    names.sort();
    names
}

/// Checks each part alone, and resolves names. `carried` has the endpoints of each message.
fn draft(name: &str, version: u16, file: &File, carried: Vec<Vec<Endpoint>>) -> Place<Draft> {
    let messages = checked("message", file.message.iter().map(|it| &it.name))?;
    count("messages", messages.len(), MESSAGES)?;
    let states = checked("state", file.state.iter().map(|it| &it.name))?;
    count("states", states.len(), STATES)?;
    let start = index(&states, "state", file.start.get_ref(), file.start.span().start)?;
    let find = |state: &file::State| {
        let find = |(name, next): (&String, &Spanned<String>)| {
            let at = next.span().start;
            let message = index(&messages, "message", name, at)?;
            Ok((message, index(&states, "state", next.get_ref(), at)?))
        };
        let mut found = state.on.iter().map(find).collect::<Place<Vec<_>>>()?;
        found.sort_unstable();
        Ok(found)
    };
    let read = file.message.iter().zip(carried);
    let messages_read: Vec<Message> =
        read.map(|(written, endpoints)| message(written, endpoints)).collect::<Place<_>>()?;
    let state = |written: &file::State| {
        let transitions = find(written)?;
        let first = transitions.first().and_then(|&(message, _)| messages_read.get(message));
        Ok(State {
            name: written.name.get_ref().clone(),
            about: written.about.clone(),
            side: first.map(|message| message.from),
            may_close: written.close,
            perpetual: written.perpetual.clone().filter(|why| !why.trim().is_empty()),
            transitions,
            at: written.name.span().start,
        })
    };
    let states_read = file.state.iter().map(state).collect::<Place<Vec<State>>>()?;
    Ok(Draft {
        name: name.to_string(),
        version,
        about: file.about.clone(),
        messages: messages_read,
        states: states_read,
        ends: file.state.iter().map(|state| state.end).collect(),
        start,
    })
}

fn count(what: &'static str, count: usize, most: usize) -> Place<()> {
    let is_right = (1..=most).contains(&count);
    if is_right { Ok(()) } else { Err((0, Reason::Count { what, count, most })) }
}

/// Checks the names of things of one kind, and that they differ.
fn checked<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a Spanned<String>>,
) -> Place<Vec<String>> {
    let (mut list, mut seen) = (Vec::new(), BTreeSet::new());
    for name in names {
        let (at, name) = (name.span().start, name.get_ref());
        names::check(what, name).map_err(|reason| (at, reason))?;
        if !seen.insert(name) {
            return Err((at, Reason::Twice { what, name: name.clone() }));
        }
        list.push(name.clone());
    }
    Ok(list)
}

fn index(names: &[String], what: &'static str, name: &str, at: usize) -> Place<usize> {
    names.iter().position(|it| it == name).ok_or_else(|| {
        (at, Reason::Undefined { what, name: name.to_string(), known: names.join(", ") })
    })
}

fn message(written: &file::Message, endpoints: Vec<Endpoint>) -> Place<Message> {
    let (at, name) = (written.name.span().start, written.name.get_ref().clone());
    checked("field", written.fields.iter().map(|field| &field.name))?;
    checked("endpoint", written.endpoints.iter().map(|endpoint| &endpoint.name))?;
    if endpoints.len() > ENDPOINTS {
        return Err((at, Reason::Endpoints(name)));
    }
    let (fields, inline) = fields(written)?;
    if inline > INLINE {
        return Err((at, Reason::Inline { message: name, bytes: inline }));
    }
    lengths(written)?;
    Ok(Message {
        name,
        about: written.about.clone(),
        from: written.from.into(),
        fields,
        inline,
        block: written.block.as_ref().map(block).transpose()?,
        endpoints,
        at,
    })
}

/// Checks that no field is called like the length of another one in C.
fn lengths(written: &file::Message) -> Place<()> {
    let is_length = |name: &str| {
        let of = name.strip_suffix("_length").unwrap_or_default();
        let variable = |it: &file::Field| it.kind.get_ref().starts_with("bytes[");
        written.fields.iter().any(|it| it.name.get_ref() == of && variable(it))
    };
    match written.fields.iter().find(|field| is_length(field.name.get_ref())) {
        Some(field) => Err((field.name.span().start, Reason::Length(field.name.get_ref().clone()))),
        None => Ok(()),
    }
}

/// Returns the fields at their offsets, and the length of all, a multiple of the largest alignment.
fn fields(written: &file::Message) -> Place<(Vec<Field>, usize)> {
    let (mut end, mut align) = (0usize, 1);
    let mut fields = Vec::new();
    for field in &written.fields {
        let text = field.kind.get_ref();
        let unknown = || (field.kind.span().start, Reason::Type(text.clone()));
        let kind = Type::parse(text).ok_or_else(unknown)?;
        let offset = end.next_multiple_of(kind.align());
        end = offset + kind.size();
        align = align.max(kind.align());
        let (name, about) = (field.name.get_ref().clone(), field.about.clone());
        fields.push(Field { name, about, kind, offset });
    }
    Ok((fields, end.next_multiple_of(align)))
}

/// Parses `N B`, `N KiB` or `N MiB`.
fn block(written: &Spanned<String>) -> Place<u32> {
    let text = written.get_ref();
    let wrong = || (written.span().start, Reason::Block(text.clone()));
    let (number, unit) = text.split_once(' ').ok_or_else(wrong)?;
    let unit = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(wrong()),
    };
    let bytes = names::number(number).and_then(|number| number.checked_mul(unit));
    bytes.filter(|&bytes| bytes as usize <= BLOCK).ok_or_else(wrong)
}
