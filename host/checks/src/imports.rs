//! Finds what the modules of a crate import from each other, by scanning their tokens.
//!
//! It understands comments, literals, `mod`, `use` trees and paths, and nothing else of Rust. A
//! path counts if it begins with `crate`, `self` or `super`, with a name imported by a `use` item
//! of the module, or with a child module. Macro expansions are not seen.

use super::pieces::{self, Piece, is_part_of_name};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as File;

/// Names from the root of a crate down to a module; the root itself is empty.
pub type Path = Vec<String>;

/// Maximum number of re-exports that a name is followed through.
const HOPS: usize = 8;

/// A file: its module, and its tokens without tests.
pub struct Source {
    module: Path,
    tokens: Vec<String>,
}

impl Source {
    /// Creates the file of the module `path`, written with `::`.
    #[cfg(test)]
    pub fn of(path: &str, text: &str) -> Source {
        let module = path.split("::").filter(|name| !name.is_empty()).map(String::from).collect();
        Source { module, tokens: without_tests(tokens(text)) }
    }
}

/// Reads all files of the crate whose root is `root`.
pub fn read(root: &File) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut queue = vec![(Path::new(), root.to_path_buf(), true)];
    while let Some((module, file, is_top)) = queue.pop() {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let source = Source { module, tokens: without_tests(tokens(&text)) };
        let beside = file.parent().unwrap_or(File::new(""));
        let below = if is_top { beside.to_path_buf() } else { file.with_extension("") };
        for (name, chosen) in declared(&source.tokens) {
            let module = source.module.iter().cloned().chain([name.clone()]).collect();
            let folder = below.join(&name).join("mod.rs");
            match chosen {
                Some(chosen) => queue.push((module, beside.join(chosen), true)),
                None if folder.exists() => queue.push((module, folder, true)),
                None => queue.push((module, below.join(name).with_extension("rs"), false)),
            }
        }
        sources.push(source);
    }
    Ok(sources)
}

/// Returns the names of `mod NAME;` items, each with the file in its `path` attribute.
fn declared(tokens: &[String]) -> Vec<(String, Option<String>)> {
    let starts = (0..tokens.len())
        .filter(|&at| tokens[at] == "mod" && tokens.get(at + 2).is_some_and(|token| token == ";"));
    let is_visibility =
        |token: &&String| ["pub", "(", "crate", "super", ")"].contains(&token.as_str());
    let one = |at: usize| {
        let before = tokens[..at].iter().rev().find(|token| !is_visibility(token));
        let file = before.and_then(|token| token.strip_prefix('"')).map(String::from);
        (tokens[at + 1].clone(), file)
    };
    starts.map(one).collect()
}

/// Returns identifiers, `::`, and other punctuation characters. Comments and literals are omitted,
/// except the file of a `path` attribute, with a quote before it.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut before = None;
    for (_, piece) in pieces::of(text) {
        let last = before.replace(piece);
        let Piece::Code(c) = piece else {
            if let (Piece::Text(file), [.., path, equals]) = (piece, &tokens[..])
                && (path.as_str(), equals.as_str()) == ("path", "=")
            {
                tokens.push(format!("\"{file}"));
            }
            continue;
        };
        // The name of a lifetime is an identifier.
        if c.is_whitespace() || c == '\'' {
            continue;
        }
        let goes_on = last.is_some_and(|last| match last {
            Piece::Code(last) if is_part_of_name(c) => is_part_of_name(last),
            Piece::Code(':') => c == ':' && tokens.last().is_some_and(|token| token == ":"),
            _ => false,
        });
        match tokens.last_mut().filter(|_| goes_on) {
            Some(token) => token.push(c),
            None => tokens.push(c.to_string()),
        }
    }
    tokens
}

/// Removes items that are compiled for tests only.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let inner = tokens.get(at + 1).is_some_and(|token| token == "!");
        let open = at + 1 + usize::from(inner);
        let is_attribute = tokens[at] == "#" && tokens.get(open).is_some_and(|token| token == "[");
        if !is_attribute {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = after_group(&tokens, open);
        let attribute = &tokens[open..end];
        let has = |word: &str| attribute.iter().any(|token| token == word);
        let is_test = attribute.get(1).is_some_and(|first| first == "cfg") && has("test");
        kept.extend(attribute.iter().find(|token| token.starts_with('"')).cloned());
        at = match is_test && !has("not") {
            true if inner => return Vec::new(),
            true => after_item(&tokens, end),
            false => end,
        };
    }
    kept
}

/// Returns the index after the bracket that closes the one at `open`.
fn after_group(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "[" | "{" | "(" => depth += 1,
            "]" | "}" | ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Returns the index after an item, field or arm that begins at `at`.
fn after_item(tokens: &[String], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "{" => return after_group(tokens, at),
            "(" | "[" => at = after_group(tokens, at),
            ";" | "," => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// A path as written, and the (possibly inline) module that contains it.
struct Written {
    at: Path,
    path: Path,
}

/// The modules of a crate, their imported names, and all paths.
#[derive(Default)]
struct Crate {
    files: BTreeSet<Path>,
    modules: BTreeSet<Path>,
    names: BTreeMap<Path, BTreeMap<String, Path>>,
    written: Vec<(Path, Written)>,
}

/// Returns all imports: the file's module, the module that defines the name, and the path as
/// written.
pub fn resolve(sources: &[Source]) -> Vec<(Path, Path, String)> {
    let mut all = Crate::default();
    for source in sources {
        all.files.insert(source.module.clone());
        all.modules.insert(source.module.clone());
    }
    sources.iter().for_each(|source| all.scan(source));
    let one = |(from, written): &(Path, Written)| {
        let path = all.absolute(&written.at, &written.path)?;
        let to = all.file_of(&all.find(path, HOPS));
        Some((from.clone(), to, written.path.join("::")))
    };
    all.written.iter().filter_map(one).collect()
}

impl Crate {
    fn scan(&mut self, source: &Source) {
        let tokens = &source.tokens;
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        let mut module = source.module.clone();
        // Nesting depths at which inline modules began.
        let (mut inline, mut depth, mut at) = (Vec::new(), 0, 0);
        while at < tokens.len() {
            match token(at) {
                "mod" if token(at + 2) == "{" => {
                    module.push(token(at + 1).to_string());
                    self.modules.insert(module.clone());
                    inline.push(depth);
                    at += 1;
                }
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if inline.pop_if(|begun| *begun == depth).is_some() {
                        module.pop();
                    }
                }
                "use" if token(at + 1) != "<" => {
                    let mut leaves = Vec::new();
                    at = leaves_of(tokens, at + 1, &mut Path::new(), &mut leaves);
                    self.import(source, &module, leaves);
                }
                _ if token(at + 1) == "::" && is_start(tokens, at) => {
                    let path: Path = segments(tokens, at);
                    at += 2 * (path.len() - 1);
                    let written = Written { at: module.clone(), path };
                    self.written.push((source.module.clone(), written));
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn import(&mut self, source: &Source, module: &Path, leaves: Vec<(Path, String)>) {
        for (path, name) in leaves {
            let names = self.names.entry(module.clone()).or_default();
            names.insert(name, path.clone());
            let written = Written { at: module.clone(), path };
            self.written.push((source.module.clone(), written));
        }
    }

    /// Returns the path from the crate's root; `None`: it leads to another crate, or not to a
    /// module.
    fn absolute(&self, at: &Path, path: &[String]) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let joined = |base: &[String]| Some(base.iter().chain(rest).cloned().collect());
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => joined(at),
            "super" => {
                let parent = &at[..at.len().checked_sub(1)?];
                match rest.first().is_some_and(|next| next == "super") {
                    true => self.absolute(&parent.to_vec(), rest),
                    false => joined(parent),
                }
            }
            _ => {
                let child: Path = at.iter().chain([first]).cloned().collect();
                let by_name = self.names.get(at).and_then(|names| names.get(first));
                match by_name.filter(|path| path.first() != Some(first)) {
                    _ if self.modules.contains(&child) => joined(&child),
                    Some(path) => joined(&self.absolute(at, path)?),
                    None => None,
                }
            }
        }
    }

    /// Returns the module that defines the name at a path from the root, following re-exports.
    fn find(&self, path: Path, hops: usize) -> Path {
        let mut module = Path::new();
        for (index, name) in path.iter().enumerate() {
            let mut child = module.clone();
            child.push(name.clone());
            if self.modules.contains(&child) {
                module = child;
                continue;
            }
            let named = self.names.get(&module).and_then(|names| names.get(name));
            let named = named.and_then(|named| self.absolute(&module, named));
            let Some(mut onward) = named.filter(|_| hops > 0) else { break };
            onward.extend(path[index + 1..].iter().cloned());
            return self.find(onward, hops - 1);
        }
        module
    }

    fn file_of(&self, module: &Path) -> Path {
        let mut file = module.clone();
        while !self.files.contains(&file) && file.pop().is_some() {}
        file
    }
}

/// Returns whether a path begins at this identifier.
fn is_start(tokens: &[String], at: usize) -> bool {
    let is_name = tokens[at].starts_with(|c: char| c.is_alphabetic() || c == '_');
    is_name && (at == 0 || tokens[at - 1] != "::")
}

/// Returns the names of the path that begins at `at`.
fn segments(tokens: &[String], mut at: usize) -> Path {
    let mut path = vec![tokens[at].clone()];
    while tokens.get(at + 1).is_some_and(|token| token == "::")
        && let Some(name) = tokens.get(at + 2)
        && name.starts_with(is_part_of_name)
    {
        path.push(name.clone());
        at += 2;
    }
    path
}

/// Adds the paths of a `use` tree, each with its local name. Returns where the tree ends.
fn leaves_of(
    tokens: &[String],
    mut at: usize,
    prefix: &mut Path,
    leaves: &mut Vec<(Path, String)>,
) -> usize {
    let before = prefix.len();
    let mut alias = None;
    let mut is_group = false;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            // A path from the root of all crates.
            "::" if prefix.len() == before && before == 0 => prefix.push("::".to_string()),
            "::" | "*" => {}
            "as" => {
                alias = tokens.get(at + 1).cloned();
                at += 1;
            }
            "{" => {
                is_group = true;
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = leaves_of(tokens, at, prefix, leaves);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
            }
            "," | "}" | ";" => break,
            // `{self, ...}` is the path so far.
            "self" if before > 0 => {}
            name => prefix.push(name.to_string()),
        }
        at += 1;
    }
    if !is_group && let Some(last) = prefix.last() {
        leaves.push((prefix.clone(), alias.unwrap_or_else(|| last.clone())));
    }
    prefix.truncate(before);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_tokens() {
        let text = r##"a /* b /* c */ d */ "e\" f" r#"g" h"# b"i" 'j' '\'' '\u{41}' k::<'l> // m"##;
        assert_eq!(tokens(text), ["a", "k", "::", "<", "l", ">"]);
    }

    #[test]
    fn a_use_tree_has_leaves() {
        let text = "use crate::{a::{self, B as C}, d, e::*}; f";
        let (all, mut leaves) = (tokens(text), Vec::new());
        let end = leaves_of(&all, 1, &mut Path::new(), &mut leaves);
        assert_eq!(all[end..], [";", "f"]);
        let shown: Vec<String> =
            leaves.iter().map(|(path, name)| format!("{} {name}", path.join("::"))).collect();
        assert_eq!(shown, ["crate::a a", "crate::a::B C", "crate::d d", "crate::e e"]);
    }

    #[test]
    fn paths_are_resolved_where_they_are_written() {
        let sources = [
            Source::of("", "mod a; mod b;"),
            Source::of("a", "use crate::b; fn f() { b::c(); } mod x { use super::super::b::D; }"),
            Source::of("b", "fn g() { ::std::a(); std::a::b(); let s = a::b; }"),
        ];
        let found: Vec<(String, String, String)> = resolve(&sources)
            .into_iter()
            .map(|(from, to, written)| (from.join("::"), to.join("::"), written))
            .collect();
        let one = |written: &str| ("a".to_string(), "b".to_string(), written.to_string());
        let expected = ["crate::b", "b::c", "super::super::b::D"].map(one);
        assert_eq!(found, expected);
    }

    #[test]
    fn no_text_makes_it_panic() {
        let text = "#[path = \"x\"] mod z; #[cfg(test)] mod a { use b::{c, r#\"d\"#, 'e'}; } \
                    '\\'' /* \" */ # ! [ ( :: use";
        for end in 0..text.len() {
            let source = Source::of("", &text[..end]);
            resolve(&[source]);
        }
    }
}
