//! The manifest: a TOML file that says what a program may do. Every field is optional, and a
//! program without a manifest has an empty one.
//!
//! Keep in step with the table in `docs/reference/manifests.md`.

use crate::error::{ManifestError, Place, Reason};
use crate::fields::{self, Field, Fields};
use crate::placement::{Endpoint, Platforms, To, endpoints, platforms};
use abi::process::PROCESSES;
use abi::program::{IMAGE_STRINGS, class, right};
use abi::quota::HANDLES;
use abi::reach::{Rule, listener};
use kernel_seal::HASH;
use std::path::Path;

/// The fields of a manifest.
const FIELDS: &[&str] = &[
    "args",
    "class",
    "endpoints",
    "env",
    "grants",
    "limits",
    "listen",
    "memory",
    "movable",
    "net",
    "platforms",
    "preopens",
    "signals",
];
/// Descriptors of standard input, output and error.
const STREAMS: i64 = 3;
/// Memory is allocated in pages of this many bytes, at most 4 GiB.
const PAGE: u64 = 64 << 10;

/// The manifest of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Arguments appended to those of the parent.
    pub args: Vec<String>,
    /// Environment variables, which the parent's override.
    pub env: Vec<(String, String)>,
    /// Preopened directories, the only ones; `None`: those of the parent. The parent must have
    /// them.
    pub preopens: Option<Vec<Preopen>>,
    /// Preopened directories that it gets in addition, from any parent. The installer must have
    /// allowed that.
    pub grants: Vec<Preopen>,
    /// Rules of what it may reach ([`abi::reach`]); `None`: what its parent may.
    pub net: Option<Vec<String>>,
    /// Ports of the listeners that it starts with.
    pub listen: Vec<u16>,
    /// The processes that it may signal.
    pub signals: Signals,
    /// Memory limit in bytes; 0: only the board's limit.
    pub memory: u64,
    /// The cores that it prefers.
    pub class: Class,
    /// Whether it can move to another kernel while it runs. Its module is made for that.
    pub movable: Movable,
    /// The platforms that it requires or prefers.
    pub platforms: Platforms,
    /// Contracts that it uses or serves.
    pub endpoints: Vec<Endpoint>,
    /// Limits on files and processes.
    pub limits: Limits,
}

/// Limits on files and processes; 0: the usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of descriptors of each process.
    pub files: u32,
    /// Maximum number of processes of the tree or branch that it begins ([`abi::quota`]).
    pub tree_processes: u16,
    /// Maximum number of open files of that tree or branch.
    pub tree_files: u16,
}

/// The cores that a program prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Strong cores.
    #[default]
    Normal,
    /// Weak cores: in the background, or while the strong ones sleep.
    Light,
}

impl Class {
    /// Returns one of [`class`].
    pub const fn number(self) -> u32 {
        match self {
            Class::Normal => class::NORMAL,
            Class::Light => class::LIGHT,
        }
    }
}

/// Where a program can move to another kernel while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Movable {
    /// It cannot.
    #[default]
    No,
    /// Where it calls the kernel, or waits in it.
    Calls,
    /// There, and in loops.
    Anywhere,
}

/// The processes that a program may signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signals {
    /// Itself, its descendants, and its group.
    #[default]
    Own,
    /// Any process, if its parent may do so too.
    All,
}

/// A preopened directory of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preopen {
    /// Its path from the root.
    pub path: String,
    /// Its name for the program.
    pub name: String,
    /// Whether the program may change its contents.
    pub write: bool,
}

impl Manifest {
    /// Reads and checks the manifest at `path`.
    pub fn read(path: &Path) -> Result<Self, ManifestError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| ManifestError::at(&shown, "", (0, Reason::Unreadable(e.to_string()))))?;
        Self::parse(&shown, &text)
    }

    /// Parses and checks a manifest; `file` is the name used in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let checked = fields::read(text)
            .and_then(|table| Fields::of(table, FIELDS, String::new(), 0))
            .and_then(manifest);
        checked.map_err(|wrong| ManifestError::at(file, text, wrong))
    }

    /// Looks up the contracts of its endpoints: `hash_of` returns the hash of the one with a name.
    pub fn resolve<E>(
        &mut self,
        mut hash_of: impl FnMut(&str) -> Result<[u8; HASH], E>,
    ) -> Result<(), E> {
        for endpoint in &mut self.endpoints {
            if let To::Contract { name, hash } = &mut endpoint.to {
                *hash = Some(hash_of(name)?);
            }
        }
        Ok(())
    }

    /// Returns its [`right`]s.
    pub(crate) fn rights(&self) -> u32 {
        let folders = if self.preopens.is_none() { right::FOLDERS } else { 0 };
        let signals = if self.signals == Signals::All { right::SIGNALS } else { 0 };
        let net = if self.net.is_none() { right::NET } else { 0 };
        folders | signals | net
    }

    /// Iterates over all directories that it names; the grants, marked so, are the last ones.
    fn directories(&self) -> impl Iterator<Item = (&Preopen, bool)> {
        let preopens = self.preopens.iter().flatten().map(|it| (it, false));
        preopens.chain(self.grants.iter().map(|it| (it, true)))
    }

    /// Returns arguments, environment, preopens, endpoints, rules and listeners as stored in an
    /// image, each followed by a NUL.
    pub(crate) fn strings(&self) -> [Vec<u8>; 6] {
        let ended = |texts: &mut dyn Iterator<Item = String>| {
            texts.flat_map(|text| [text.as_str(), "\0"].concat().into_bytes()).collect()
        };
        [
            ended(&mut self.args.iter().cloned()),
            ended(&mut self.env.iter().map(|(name, value)| format!("{name}={value}"))),
            ended(&mut self.directories().map(|(it, is_grant)| {
                let (grant, rights) =
                    (if is_grant { "+" } else { "" }, if it.write { "rw" } else { "r" });
                format!("{grant}{rights} {}={}", it.path, it.name)
            })),
            ended(&mut self.endpoints.iter().map(Endpoint::text)),
            ended(&mut self.net.iter().flatten().cloned()),
            ended(&mut self.listen.iter().map(|port| format!("tcp:{port}"))),
        ]
    }
}

fn manifest(mut fields: Fields) -> Place<Manifest> {
    let mut made = Manifest {
        args: fields.take("args").map_or(Ok(vec![]), args)?,
        env: fields.take("env").map_or(Ok(vec![]), env)?,
        preopens: fields.take("preopens").map(|it| preopens(it, &[])).transpose()?,
        grants: vec![],
        net: fields.take("net").map(net).transpose()?,
        listen: fields.take("listen").map_or(Ok(vec![]), listen)?,
        signals: fields.take("signals").map_or(Ok(Signals::Own), signals)?,
        memory: fields.take("memory").map_or(Ok(0), memory)?,
        class: fields.take("class").map_or(Ok(Class::Normal), class_of)?,
        movable: fields.take("movable").map_or(Ok(Movable::No), movable)?,
        platforms: fields.take("platforms").map_or(Ok(Platforms::default()), platforms)?,
        endpoints: fields.take("endpoints").map_or(Ok(vec![]), endpoints)?,
        limits: Limits::default(),
    };
    if let Some(grants) = fields.take("grants") {
        made.grants = preopens(grants, made.preopens.as_deref().unwrap_or_default())?;
    }
    let own = made.preopens.as_ref().map_or(1, Vec::len) + made.grants.len();
    let least = STREAMS + (own + made.listen.len()) as i64;
    made.limits = fields.take("limits").map_or(Ok(Limits::default()), |it| limits(it, least))?;
    let known: usize = made.strings().iter().map(Vec::len).sum();
    let bytes = known + made.endpoints.len() * Endpoint::HASH_TEXT;
    if bytes > IMAGE_STRINGS {
        return Err((0, Reason::Large { bytes, most: IMAGE_STRINGS }));
    }
    Ok(made)
}

fn args(field: Field) -> Place<Vec<String>> {
    const ALLOWED: &str = "a list of texts without NUL, such as [\"-v\", \"/data\"]";
    let one = |item: Field| match item.text(ALLOWED)? {
        text if text.contains('\0') => item.wrong(ALLOWED),
        text => Ok(text.to_string()),
    };
    field.short_list(ALLOWED)?.into_iter().map(one).collect()
}

fn env(field: Field) -> Place<Vec<(String, String)>> {
    const ALLOWED: &str = "a table of texts without NUL, such as { HOME = \"/data\" }";
    const NAMES: &str = "a table whose names are not empty and have no '=' and no NUL";
    let entries = field.entries(ALLOWED)?;
    if entries.len() > fields::MOST {
        return field.wrong("a table of at most 64");
    }
    let one = |(name, item): (String, Field)| {
        let value = item.text(ALLOWED)?;
        if name.is_empty() || name.contains(['=', '\0']) {
            return item.wrong(NAMES);
        }
        if value.contains('\0') {
            return item.wrong(ALLOWED);
        }
        Ok((name, value.to_string()))
    };
    entries.into_iter().map(one).collect()
}

/// Parses a list of directories, none with a name of `others`.
fn preopens(field: Field, others: &[Preopen]) -> Place<Vec<Preopen>> {
    const ALLOWED: &str = "a list such as [\"/data:rw\", \"/bin=tools:r\"]";
    let mut found: Vec<Preopen> = vec![];
    for item in field.short_list(ALLOWED)? {
        let one = preopen(&item)?;
        if found.iter().chain(others).any(|other| other.name == one.name) {
            let name = format!("the name {:?}", one.name);
            return Err((item.at(), Reason::Twice { field: field.name, found: name }));
        }
        found.push(one);
    }
    Ok(found)
}

/// Parses `PATH:RIGHTS` or `PATH=NAME:RIGHTS`.
fn preopen(item: &Field) -> Place<Preopen> {
    const ALLOWED: &str = "\"PATH:RIGHTS\" or \"PATH=NAME:RIGHTS\", where PATH begins with '/' and \
                           has no '..', and RIGHTS is r or rw";
    let text = item.text(ALLOWED)?;
    let Some((place, rights)) = text.rsplit_once(':') else { return item.wrong(ALLOWED) };
    let (path, name) = place.split_once('=').unwrap_or((place, place));
    let write = match rights {
        "r" => false,
        "rw" => true,
        _ => return item.wrong(ALLOWED),
    };
    let straight = path.starts_with('/') && path.split('/').all(|part| part != "..");
    if !straight || name.is_empty() || text.contains('\0') {
        return item.wrong(ALLOWED);
    }
    Ok(Preopen { path: path.to_string(), name: name.to_string(), write })
}

fn memory(field: Field) -> Place<u64> {
    const ALLOWED: &str = "a size such as \"64 MiB\" (KiB, MiB or GiB): a multiple of 64 KiB, 4 \
                           GiB at most";
    let size = |text: &str| {
        let (number, unit) = text.trim().split_once(' ')?;
        let shift = match unit.trim() {
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(1 << shift)
    };
    match size(field.text(ALLOWED)?) {
        Some(bytes) if (PAGE..=4 << 30).contains(&bytes) && bytes.is_multiple_of(PAGE) => Ok(bytes),
        _ => field.wrong(ALLOWED),
    }
}

fn class_of(field: Field) -> Place<Class> {
    const ALLOWED: &str = "\"normal\" (strong cores) or \"light\" (weak ones)";
    match field.text(ALLOWED)? {
        "normal" => Ok(Class::Normal),
        "light" => Ok(Class::Light),
        _ => field.wrong(ALLOWED),
    }
}

fn movable(field: Field) -> Place<Movable> {
    match (field.flag(), field.text("")) {
        (Some(true), _) => Ok(Movable::Anywhere),
        (Some(false), _) => Ok(Movable::No),
        (None, Ok("calls")) => Ok(Movable::Calls),
        _ => field.wrong("true, false, or \"calls\" (only where it calls the kernel)"),
    }
}

fn net(field: Field) -> Place<Vec<String>> {
    const ALLOWED: &str = "a list such as [\"connect:*:443\", \"listen:80\"]";
    const RULE: &str = "\"connect:HOST:PORT\" or \"listen:PORT\", where HOST is an IPv4 address or \
                        '*', and PORT a number or '*'";
    let one = |item: Field| match item.text(ALLOWED)? {
        text if Rule::parse(text.as_bytes()).is_none() => item.wrong(RULE),
        text => Ok(text.to_string()),
    };
    field.short_list(ALLOWED)?.into_iter().map(one).collect()
}

fn listen(field: Field) -> Place<Vec<u16>> {
    const ALLOWED: &str = "a list of \"tcp:PORT\", such as [\"tcp:80\"]";
    let one = |item: Field| match listener(item.text(ALLOWED)?.as_bytes()) {
        Some(port) => Ok(port),
        None => item.wrong(ALLOWED),
    };
    field.short_list(ALLOWED)?.into_iter().map(one).collect()
}

fn signals(field: Field) -> Place<Signals> {
    const ALLOWED: &str = "\"own\" (itself, what it began, its group) or \"all\" (any process)";
    match field.text(ALLOWED)? {
        "own" => Ok(Signals::Own),
        "all" => Ok(Signals::All),
        _ => field.wrong(ALLOWED),
    }
}

/// Parses `files` and `tree_files`, at least `least`, and `tree_processes`.
fn limits(field: Field, least: i64) -> Place<Limits> {
    const ALLOWED: &str = "a table such as { files = 32, tree_processes = 8 }";
    const FILES: &str = "a number with room for input, output, errors and the directories that it \
                         begins with (`/` where none are named), 1024 at most";
    const TREE_FILES: &str = "a number with room for one more than the program begins with, 8192 \
                              at most, for all that it starts together";
    const TREE_PROCESSES: &str = "a number of 1 (itself) to 128, for all that it starts together";
    const MOST_FILES: i64 = HANDLES as i64 / 2;
    const MOST_PROCESSES: i64 = PROCESSES as i64 / 2;
    let mut fields = field.table(&["files", "tree_files", "tree_processes"], ALLOWED)?;
    let mut number = |name, least, most, allowed| {
        fields.take(name).map_or(Ok(0), |it| it.number(least..=most, allowed))
    };
    Ok(Limits {
        files: number("files", least, 1024, FILES)? as u32,
        // The kernel opens the root to open the directories.
        tree_files: number("tree_files", least + 1, MOST_FILES, TREE_FILES)? as u16,
        tree_processes: number("tree_processes", 1, MOST_PROCESSES, TREE_PROCESSES)? as u16,
    })
}
