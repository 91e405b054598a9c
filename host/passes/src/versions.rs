//! Versions of functions: beside a function `f`, a module may have `f@simd128`, which does the same
//! with SIMD. This pass selects one of the two for an ISA:
//!
//! | ISA | what led to | leads to |
//! | --- | --- | --- |
//! | with SIMD | `f` | `f@simd128` |
//! | without | `f@simd128` | `f`; the version itself becomes a trap |
//!
//! - Calls change, references (`ref.func`, elements of tables), exports, and the start function. No
//!   index of the module changes.
//! - In the two functions themselves direct calls of either stay, so the version can call the plain
//!   function for what it does not handle.
//! - A name is that of an export. For functions that are not exported it is the one in the name
//!   section.
//! - An export `f@x` of an unknown feature is refused, since it would never be called. The name
//!   section may have such names: compilers use them for other things.

use crate::{names, stop};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use thiserror::Error;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, Instruction, Module, NameSection};
use wasmparser::{
    BinaryReaderError, CompositeInnerType, ExportSectionReader, ExternalKind, FuncType,
    FunctionBody, ImportSectionReader, KnownCustom, NameSectionReader, Operator, Parser, Payload,
    TypeRef, TypeSectionReader,
};

/// The only feature that functions can have a version for.
const FEATURE: &str = "simd128";

/// Why no version can be selected, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WrongVersion {
    #[error(
        "the module exports \"{name}\", a version of a function for the feature \"{feature}\"; \
         there are versions for \"{FEATURE}\" only: rename it to \"{plain}@{FEATURE}\", or export \
         it without `@`"
    )]
    Feature { name: String, plain: String, feature: String },
    #[error(
        "the module has \"{name}\" and no function \"{plain}\", which is called where there is no \
         SIMD: export that as \"{plain}\", and keep the compiler from inlining it"
    )]
    NoPlain { name: String, plain: String },
    #[error(
        "the module has several functions called \"{plain}\", so it is unclear which of them \
         \"{name}\" is a version of: export that one as \"{plain}\""
    )]
    SeveralPlain { name: String, plain: String },
    #[error(
        "\"{plain}\" and \"{name}\" have different parameters or results: one replaces the other, \
         so give them the same ones"
    )]
    Type { name: String, plain: String },
    #[error(
        "\"{plain}\" has a further version \"{name}\": a function can have one, and a version none \
         of its own; rename or remove one of them"
    )]
    Further { name: String, plain: String },
}

/// Returns the module with the versions selected for an ISA; `None` if it has none. An invalid
/// module is left to the compiler.
pub fn selected(wasm: &[u8], has_simd: bool) -> Result<Option<Vec<u8>>, WrongVersion> {
    let Ok(found) = Found::in_module(wasm) else { return Ok(None) };
    let pairs = found.pairs()?;
    if pairs.is_empty() {
        return Ok(None);
    }
    let (mut module, mut selection) = (Module::new(), Selection::new(&found, pairs, has_simd));
    let made = selection.parse_core_module(&mut module, Parser::new(0), wasm);
    Ok(made.is_ok().then(|| module.finish()))
}

/// Splits the name of a version into that of the plain function and the feature; `None` for other
/// names, such as `wasi:cli/run@0.2.0#run`.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (plain, feature) = name.rsplit_once('@')?;
    let is_feature = feature.starts_with(|first: char| first.is_ascii_alphabetic())
        && feature.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_plain = !plain.is_empty() && !plain.ends_with('@');
    (is_plain && is_feature).then_some((plain, feature))
}

/// A plain function and its version, by index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pair {
    plain: u32,
    version: u32,
}

/// What a module says of its functions.
#[derive(Default)]
struct Found<'a> {
    /// By index; `None` is not a function type.
    types: Vec<Option<FuncType>>,
    /// The types of the functions, imported ones first.
    functions: Vec<u32>,
    imported: u32,
    /// Exported functions, and those of the name section.
    exports: Vec<(&'a str, u32)>,
    names: Vec<(&'a str, u32)>,
}

impl<'a> Found<'a> {
    fn in_module(wasm: &'a [u8]) -> Result<Found<'a>, BinaryReaderError> {
        let mut found = Found::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(types) => found.types(types)?,
                Payload::ImportSection(imports) => found.imports(imports)?,
                Payload::FunctionSection(kinds) => {
                    kinds.into_iter().try_for_each(|kind| {
                        found.functions.push(kind?);
                        Ok(())
                    })?;
                }
                Payload::ExportSection(exports) => found.exports(exports)?,
                Payload::CustomSection(custom) => {
                    if let KnownCustom::Name(section) = custom.as_known() {
                        found.names.extend(names::functions(section));
                    }
                }
                _ => {}
            }
        }
        let count = found.functions.len();
        found.names.retain(|(_, index)| (*index as usize) < count);
        Ok(found)
    }

    fn types(&mut self, types: TypeSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for group in types {
            self.types.extend(group?.into_types().map(|kind| match kind.composite_type.inner {
                CompositeInnerType::Func(function) => Some(function),
                _ => None,
            }));
        }
        Ok(())
    }

    fn imports(&mut self, imports: ImportSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for import in imports.into_imports() {
            if let TypeRef::Func(kind) | TypeRef::FuncExact(kind) = import?.ty {
                self.functions.push(kind);
                self.imported += 1;
            }
        }
        Ok(())
    }

    fn exports(&mut self, exports: ExportSectionReader<'a>) -> Result<(), BinaryReaderError> {
        for export in exports {
            let export = export?;
            if matches!(export.kind, ExternalKind::Func | ExternalKind::FuncExact) {
                self.exports.push((export.name, export.index));
            }
        }
        Ok(())
    }

    /// Returns all pairs, each once, those of exports first.
    fn pairs(&self) -> Result<Vec<Pair>, WrongVersion> {
        let known = Known { exports: by_name(&self.exports), names: by_name(&self.names) };
        let mut pairs = Pairs::default();
        for &(name, version) in &self.exports {
            let Some((plain, feature)) = parts(name) else { continue };
            if feature != FEATURE {
                let (name, plain, feature) = (name.into(), plain.into(), feature.into());
                return Err(WrongVersion::Feature { name, plain, feature });
            }
            self.pair(&known, &mut pairs, (name, plain), version)?;
        }
        let exported = pairs.versions.clone();
        for &(name, version) in &self.names {
            let is_decided = known.exports.contains_key(name) || exported.contains(&version);
            if let (Some((plain, FEATURE)), false) = (parts(name), is_decided) {
                self.pair(&known, &mut pairs, (name, plain), version)?;
            }
        }
        Ok(pairs.all)
    }

    /// Adds the pair of a version, if its plain function is another one.
    fn pair(
        &self,
        known: &Known<'_>,
        pairs: &mut Pairs,
        (name, plain_name): (&str, &str),
        version: u32,
    ) -> Result<(), WrongVersion> {
        let (name_of, plain_of) = (|| name.to_string(), || plain_name.to_string());
        let plain = match known.find(plain_name) {
            [] => return Err(WrongVersion::NoPlain { name: name_of(), plain: plain_of() }),
            &[plain] => plain,
            _ => return Err(WrongVersion::SeveralPlain { name: name_of(), plain: plain_of() }),
        };
        if plain == version {
            return Ok(());
        }
        if self.kind(plain) != self.kind(version) {
            return Err(WrongVersion::Type { name: name_of(), plain: plain_of() });
        }
        if pairs.add(Pair { plain, version }) {
            return Ok(());
        }
        Err(WrongVersion::Further { name: name_of(), plain: plain_of() })
    }

    fn kind(&self, function: u32) -> Option<&FuncType> {
        let kind = self.functions.get(function as usize)?;
        self.types.get(*kind as usize)?.as_ref()
    }
}

fn by_name<'a>(all: &[(&'a str, u32)]) -> HashMap<&'a str, Vec<u32>> {
    let mut found: HashMap<&str, Vec<u32>> = HashMap::new();
    for &(name, function) in all {
        found.entry(name).or_default().push(function);
    }
    found
}

/// Functions by name.
struct Known<'a> {
    exports: HashMap<&'a str, Vec<u32>>,
    names: HashMap<&'a str, Vec<u32>>,
}

impl Known<'_> {
    /// Returns the functions with this name; an export decides.
    fn find(&self, name: &str) -> &[u32] {
        self.exports.get(name).or_else(|| self.names.get(name)).map_or(&[], Vec::as_slice)
    }
}

/// Pairs so far. Several functions may share a version (tools merge equal functions), but no
/// function has two versions, and no version has one.
#[derive(Default)]
struct Pairs {
    all: Vec<Pair>,
    version_of: HashMap<u32, u32>,
    versions: HashSet<u32>,
}

impl Pairs {
    /// Adds a pair; returns whether it fits to the others.
    fn add(&mut self, pair: Pair) -> bool {
        let Pair { plain, version } = pair;
        match self.version_of.get(&plain) {
            Some(known) => return *known == version,
            None if self.versions.contains(&plain) => return false,
            None if self.version_of.contains_key(&version) => return false,
            None => {}
        }
        self.version_of.insert(plain, version);
        self.versions.insert(version);
        self.all.push(pair);
        true
    }
}

/// Leads from one function of each pair to the other.
struct Selection {
    pairs: HashSet<Pair>,
    /// Where a function that was not selected leads to.
    to: HashMap<u32, u32>,
    /// Versions that become traps.
    dropped: HashSet<u32>,
    /// The function that is being written.
    body: u32,
}

impl Selection {
    fn new(found: &Found<'_>, pairs: Vec<Pair>, has_simd: bool) -> Selection {
        let (mut to, mut dropped) = (HashMap::new(), HashSet::new());
        for &Pair { plain, version } in &pairs {
            if has_simd {
                to.insert(plain, version);
            } else {
                to.entry(version).or_insert(plain);
                dropped.insert(version);
            }
        }
        Selection { pairs: pairs.into_iter().collect(), to, dropped, body: found.imported }
    }

    /// Returns whether a direct call of `function` stays where it is now.
    fn stays(&self, function: u32) -> bool {
        let body = self.body;
        let is_pair = |plain, version| self.pairs.contains(&Pair { plain, version });
        body == function || is_pair(body, function) || is_pair(function, body)
    }
}

impl Reencode for Selection {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Infallible>> {
        Ok(self.to.get(&function).copied().unwrap_or(function))
    }

    fn instruction<'a>(
        &mut self,
        operator: Operator<'a>,
    ) -> Result<Instruction<'a>, Error<Infallible>> {
        match operator {
            Operator::Call { function_index: it } if self.stays(it) => Ok(Instruction::Call(it)),
            Operator::ReturnCall { function_index: it } if self.stays(it) => {
                Ok(Instruction::ReturnCall(it))
            }
            other => utils::instruction(self, other),
        }
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Infallible>> {
        if self.dropped.contains(&self.body) {
            code.function(&stop::trap());
        } else {
            utils::parse_function_body(self, code, body)?;
        }
        self.body = self.body.saturating_add(1);
        Ok(())
    }

    /// A version that was dropped loses its name: it must not be found again.
    fn custom_name_section(
        &mut self,
        section: NameSectionReader<'_>,
    ) -> Result<NameSection, Error<Infallible>> {
        names::chosen(section, |function| !self.dropped.contains(&function))
    }
}

#[cfg(test)]
mod tests;
