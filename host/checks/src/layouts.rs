//! Checks that types of services have the same layout on all ISAs: compares what the compilers of
//! both ISAs report for every type of the crates in `PACKAGES`, by name.
//!
//! The compiler reports a type with everything it contains, so a service's state covers everything
//! in its memory, and requests and replies are covered. The crates are built as for the kernels. An
//! unchanged crate is not built again: its last report is used.

use super::Verdict;
use anyhow::{Context, ensure};
use board::Isa;
use builds::kernels;
use std::collections::{BTreeMap, BTreeSet};
use tree::place::Place;
use tree::progress::Step;

/// Crates whose types are in arenas or cross kernels, and a type of each that must be reported.
const PACKAGES: [(&str, &str); 5] = [
    ("fs", "vfs::Vfs"),
    ("names", "service::Names"),
    ("net", "Net"),
    ("processes", "service::Processes"),
    ("share", "raw::Head"),
];

/// Prefix of the compiler's lines.
const LINE: &str = "print-type-size ";

/// Layouts by the name of their type; a name may have several.
type Types = BTreeMap<String, BTreeSet<String>>;

/// Compares all layouts.
pub fn check(place: &Place) -> anyhow::Result<Verdict> {
    let (mut findings, mut count) = (Vec::new(), 0);
    let step = Step::begin("layouts");
    for (package, root) in PACKAGES {
        let [one, other] = [Isa::Aarch64, Isa::Riscv64].map(|isa| told(place, isa, package));
        let (one, other) = (types(&one?), types(&other?));
        for seen in [&one, &other] {
            ensure!(seen.keys().any(|name| is_of(name, root)), "{package}: no layout of {root}");
        }
        count += one.keys().filter(|name| other.contains_key(*name)).count();
        findings.extend(differences(package, &one, &other));
    }
    step.done();
    if findings.is_empty() {
        println!("layouts: {count} types are the same for both ISAs");
    }
    Ok(findings.into())
}

fn is_of(name: &str, root: &str) -> bool {
    name == root || name.strip_suffix(root).is_some_and(|path| path.ends_with("::"))
}

/// Returns the compiler's report for `isa` on the types of `package`, new or from its last build.
fn told(place: &Place, isa: Isa, package: &str) -> anyhow::Result<String> {
    let folder = place.target.join("layouts");
    let saved = folder.join(format!("{package}-{}", isa.name()));
    let mut cargo = kernels::cargo(place, &[isa], "rustc");
    cargo.arg("-q");
    cargo.args(["--package", package, "--lib", "--profile", kernels::CARGO_PROFILE]);
    cargo.env("RUSTC_BOOTSTRAP", "1").args(["--", "-Zprint-type-sizes"]);
    let output = cargo.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if output.stdout.is_empty() {
        let lost = || format!("{}: remove the build folder to have it again", saved.display());
        return std::fs::read_to_string(&saved).with_context(lost);
    }
    std::fs::create_dir_all(&folder)?;
    std::fs::write(&saved, &output.stdout)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns sizes, alignments, and fields and variants by offset, with the padding.
fn types(text: &str) -> Types {
    let mut types = Types::new();
    let lines = text.lines().filter_map(|line| line.strip_prefix(LINE));
    let mut under: Option<(String, String)> = None;
    let mut keep = |done: Option<(String, String)>| {
        if let Some((name, layout)) = done {
            types.entry(name).or_default().insert(layout);
        }
    };
    for line in lines {
        match line.strip_prefix("type: `").and_then(|rest| rest.rsplit_once("`: ")) {
            Some((name, size)) => keep(under.replace((name.to_string(), size.to_string()))),
            None => {
                if let Some((_, layout)) = &mut under {
                    *layout += &format!("; {}", line.trim());
                }
            }
        }
    }
    keep(under);
    types
}

fn differences(package: &str, one: &Types, other: &Types) -> Vec<String> {
    let both = one.iter().filter_map(|(name, here)| Some((name, here, other.get(name)?)));
    let differ = both.filter(|(_, here, there)| here != there);
    differ
        .map(|(name, here, there)| {
            let shown =
                |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(" | ");
            format!("{package}: {name} is {} and {}", shown(here), shown(there))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: &str = "print-type-size type: `a::Point`: 8 bytes, alignment: 4 bytes
print-type-size     field `.x`: 4 bytes
print-type-size     field `.y`: 4 bytes
print-type-size type: `core::option::Option<a::Point>`: 12 bytes, alignment: 4 bytes
print-type-size     discriminant: 4 bytes
print-type-size     variant `Some`: 8 bytes
print-type-size         field `.0`: 8 bytes
print-type-size     variant `None`: 0 bytes
";

    fn found(other: &str) -> usize {
        differences("a", &types(POINT), &types(other)).len()
    }

    #[test]
    fn layouts_that_differ_are_found() {
        assert_eq!(types(POINT).len(), 2);
        assert_eq!(found(POINT), 0);
        assert_eq!(found(&POINT.replace("alignment: 4", "alignment: 8")), 2);
        assert_eq!(found(&POINT.replace("`.x`", "`.z`")), 1, "fields in another order");
        assert_eq!(found(&POINT.replace("     discriminant: 4", "     discriminant: 2")), 1);
        assert_eq!(found(&POINT.replace("    variant `None`", "    variant `Nil`")), 1);
        assert_eq!(found(&POINT.replace("`.y`: 4", "`.y`: 2")), 1);
    }

    #[test]
    fn what_only_one_has_is_no_difference() {
        assert_eq!(found("print-type-size type: `b::Other`: 1 bytes, alignment: 1 bytes\n"), 0);
        assert_eq!(found(""), 0);
    }

    #[test]
    fn a_root_is_found_by_its_path() {
        assert!(is_of("vfs::Vfs", "vfs::Vfs") && is_of("fs::vfs::Vfs", "vfs::Vfs"));
        assert!(!is_of("another_vfs::Vfs", "vfs::Vfs"));
    }
}
