//! Detects import cycles between modules: each crate's modules form a graph by their `use` items
//! and paths; a strongly connected component is a cycle.
//!
//! Imports between a module and its ancestors do not count, nor do those of tests. Importing a
//! re-exported name counts as an import of the module that defines it. `tests/law.toml` says how
//! many modules of a crate may be in cycles; that number may only fall.

use super::Verdict;
use super::imports::{self, Path, Source};
use super::law::Law;
use anyhow::Context;
use cargo_metadata::{Metadata, TargetKind};
use std::collections::{BTreeMap, BTreeSet};
use tree::place::Place;

/// Imports of one module by another: from, to, and the paths as written.
type Edges = BTreeMap<(Path, Path), BTreeSet<String>>;

/// Modules that import each other, with the imports among them.
struct Cycle {
    modules: BTreeSet<Path>,
    edges: Edges,
}

/// Checks every library and binary of the workspace.
pub fn check(place: &Place, law: &Law, graph: &Metadata) -> anyhow::Result<Verdict> {
    let mut found = BTreeMap::new();
    let mut count = 0;
    for package in graph.workspace_packages() {
        let name = package.name.to_string();
        for target in package.targets.iter().filter(|target| is_ours(&target.kind)) {
            let sources = imports::read(target.src_path.as_std_path())?;
            let cycles = cycles(&edges(&sources));
            cycles.iter().for_each(|cycle| print!("{}", cycle.text(&name)));
            count += cycles.len();
            let modules: usize = cycles.iter().map(|cycle| cycle.modules.len()).sum();
            *found.entry(name.clone()).or_insert(0) += modules;
        }
    }
    println!("house.module_cycles {count}");
    println!("house.image_lines {}", lines(&place.root.join("kernel/image/src"))?);
    Ok(judge(&found, &law.cycles).into())
}

fn is_ours(kinds: &[TargetKind]) -> bool {
    let theirs =
        [TargetKind::Test, TargetKind::Bench, TargetKind::Example, TargetKind::CustomBuild];
    !kinds.iter().any(|kind| theirs.contains(kind))
}

/// Returns the number of lines of all Rust files below a folder.
fn lines(folder: &std::path::Path) -> anyhow::Result<usize> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            sum += lines(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sum += std::fs::read_to_string(&path)?.lines().count();
        }
    }
    Ok(sum)
}

/// Compares the number of modules in cycles with the allowed number, per crate.
fn judge(found: &BTreeMap<String, usize>, allowed: &BTreeMap<String, usize>) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, &count) in found {
        let most = allowed.get(name).copied().unwrap_or(0);
        if count > most {
            findings.push(format!(
                "crate {name}: {count} modules are in import cycles, {most} may be; \
                 move what both sides need below them, or pass it in"
            ));
        } else if count < most {
            findings
                .push(format!("tests/law.toml: [cycles] {name} = {count} from now on, not {most}"));
        }
    }
    for name in allowed.keys().filter(|name| !found.contains_key(*name)) {
        findings.push(format!("tests/law.toml: [cycles] names {name}, and there is no such crate"));
    }
    findings
}

/// Returns all imports that count.
fn edges(sources: &[Source]) -> Edges {
    let mut edges = Edges::new();
    for (from, to, written) in imports::resolve(sources) {
        if !from.starts_with(&to) && !to.starts_with(&from) {
            edges.entry((from, to)).or_default().insert(written);
        }
    }
    edges
}

/// Returns the strongly connected components with more than one module.
fn cycles(edges: &Edges) -> Vec<Cycle> {
    let mut next: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        next.entry(from).or_default().push(to);
    }
    let reach: BTreeMap<&Path, BTreeSet<&Path>> =
        next.keys().map(|&from| (from, reachable(from, &next))).collect();
    let mutual = |a: &Path, b: &Path| reach.get(b).is_some_and(|from_b| from_b.contains(a));
    let mut done: BTreeSet<&Path> = BTreeSet::new();
    let mut cycles = Vec::new();
    for (&module, reached) in &reach {
        if done.contains(module) || !reached.contains(module) {
            continue;
        }
        let modules: BTreeSet<&Path> =
            reached.iter().copied().filter(|other| mutual(module, other)).collect();
        done.extend(&modules);
        let inside = |((from, to), _): &(&(Path, Path), &BTreeSet<String>)| {
            modules.contains(from) && modules.contains(to)
        };
        let edges = edges.iter().filter(inside).map(|(key, paths)| (key.clone(), paths.clone()));
        let edges = edges.collect();
        cycles.push(Cycle { modules: modules.into_iter().cloned().collect(), edges });
    }
    cycles
}

/// Returns the modules that `from` imports, directly or not; itself only if it is in a cycle.
fn reachable<'a>(from: &Path, next: &BTreeMap<&'a Path, Vec<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut seen = BTreeSet::new();
    let mut queue: Vec<&Path> = next.get(from).cloned().unwrap_or_default();
    while let Some(module) = queue.pop() {
        if seen.insert(module) {
            queue.extend(next.get(module).into_iter().flatten());
        }
    }
    seen
}

impl Cycle {
    fn text(&self, name: &str) -> String {
        let mut text = format!("crate {name}: {} modules import each other\n", self.modules.len());
        for ((from, to), paths) in &self.edges {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            text += &format!("  {} -> {}: {}\n", shown(from), shown(to), paths.join(", "));
        }
        text
    }
}

fn shown(module: &Path) -> String {
    if module.is_empty() { "the root".to_string() } else { module.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(Vec<String>, usize)> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::of(path, text)).collect();
        let cycles = cycles(&edges(&sources));
        let shape = |cycle: &Cycle| {
            (cycle.modules.iter().map(shown).collect::<Vec<_>>(), cycle.edges.len())
        };
        cycles.iter().map(shape).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_a_cycle() {
        let files = [
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "pub struct B; fn f() { super::c::f(); }"),
            ("c", "use crate::{a::A, d}; pub fn f() {}"),
        ];
        let all = ["a", "b", "c"].map(String::from).to_vec();
        assert_eq!(found(&files), [(all, 3)]);
        assert!(found(&files[..3]).is_empty());
    }

    #[test]
    fn ancestors_do_not_count() {
        let files = [
            ("", "mod a; pub use a::b::B;"),
            ("a", "pub mod b; mod c; use b::B; pub struct A;"),
            ("a::b", "use super::A; use crate::a; pub struct B;"),
            ("a::c", "use super::{A, b::B};"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_re_export_is_an_import_of_what_defines_it() {
        let files = [
            ("", "mod a; mod b;"),
            ("a", "mod x; pub use x::{X, Y as Z};"),
            ("a::x", "use crate::b::B; pub struct X; pub struct Y;"),
            ("b", "use crate::a::Z; pub struct B;"),
        ];
        assert_eq!(found(&files), [(["a::x", "b"].map(String::from).to_vec(), 2)]);
    }

    #[test]
    fn what_is_only_for_tests_does_not_count() {
        let files = [
            ("", "mod a; mod b;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; fn f() { {} } }"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn the_number_may_only_fall() {
        let found = BTreeMap::from([("a".to_string(), 3), ("b".to_string(), 0)]);
        let allowed = |count| BTreeMap::from([("a".to_string(), count)]);
        assert!(judge(&found, &allowed(3)).is_empty());
        assert!(judge(&found, &allowed(2))[0].contains("3 modules are in import cycles"));
        assert!(judge(&found, &allowed(4))[0].contains("a = 3 from now on"));
        assert_eq!(judge(&BTreeMap::new(), &allowed(1)).len(), 1);
    }
}
