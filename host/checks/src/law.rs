//! The dependency rules: compares `tests/law.toml` with `cargo metadata`.

use anyhow::Context;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use serde::Deserialize;
use std::collections::BTreeMap;
use tree::place::Place;

/// The rules, as read from `tests/law.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Law {
    /// Our crates, and which of our crates each may import.
    pub layers: BTreeMap<String, Vec<String>>,
    /// Like `layers`, for tests only.
    pub test_layers: BTreeMap<String, Vec<String>>,
    /// Maximum number of a crate's modules in import cycles; 0 for crates not listed.
    pub cycles: BTreeMap<String, usize>,
    /// Direct dependencies on crates of others, each with its reason.
    pub external: BTreeMap<String, String>,
    /// Settings of the style check.
    pub style: Style,
    /// Allowed licences of dependencies.
    pub licences: Licences,
}

/// Settings of the style check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Style {
    /// Files and folders that may contain `unsafe`.
    pub unsafe_homes: Vec<String>,
    /// Files and folders that may contain asm and cfg(target_arch).
    pub asm_homes: Vec<String>,
    /// Maximum lines of a file, not counting its tests.
    pub lines: usize,
    /// Maximum columns of a line.
    pub columns: usize,
    /// Files that are exempt from a rule, with the reason.
    pub exceptions: BTreeMap<String, String>,
    /// Text that no file may contain.
    pub forbidden: Vec<String>,
    /// Hosts that no file may mention, as the words of their names.
    pub hosts: Vec<Vec<String>>,
    /// First folders of paths that no file may mention.
    pub folders: Vec<String>,
}

impl Style {
    /// Returns all forbidden texts. (The table itself may not mention a host or a path.)
    pub fn banned(&self) -> Vec<String> {
        let hosts = self.hosts.iter().map(|words| words.join("."));
        let folders = self.folders.iter().map(|folder| format!("/{folder}/"));
        self.forbidden.iter().cloned().chain(hosts).chain(folders).collect()
    }
}

/// Allowed licences.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licences {
    /// SPDX names.
    pub allowed: Vec<String>,
}

impl Law {
    /// Reads the rules.
    pub fn read(place: &Place) -> anyhow::Result<Self> {
        let path = place.root.join("tests/law.toml");
        let text = std::fs::read_to_string(&path).context("tests/law.toml")?;
        toml::from_str(&text).context("tests/law.toml")
    }
}

/// Returns the crate graph.
pub fn graph(place: &Place) -> anyhow::Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.cargo_path(&place.cargo).manifest_path(place.root.join("Cargo.toml"));
    if let Some(rustc) = &place.rustc {
        command.env("RUSTC", rustc);
    }
    Ok(command.exec()?)
}

/// Returns all violations.
pub fn check(law: &Law, graph: &Metadata) -> Vec<String> {
    let mut findings = Vec::new();
    let ours = graph.workspace_packages();
    let mut used: Vec<&str> = Vec::new();
    for package in &ours {
        let Some(allowed) = law.layers.get(package.name.as_str()) else {
            findings.push(format!("crate {}: tests/law.toml gives it no layer", package.name));
            continue;
        };
        check_package(law, package, allowed, &ours, &mut used, &mut findings);
    }
    for name in law.layers.keys().filter(|n| ours.iter().all(|p| p.name.as_str() != **n)) {
        findings.push(format!("tests/law.toml: there is no crate {name}"));
    }
    for name in law.external.keys().filter(|n| !used.contains(&n.as_str())) {
        findings.push(format!("tests/law.toml: nothing depends on {name} any more"));
    }
    findings
}

fn check_package<'a>(
    law: &Law,
    package: &'a Package,
    allowed: &[String],
    ours: &[&Package],
    used: &mut Vec<&'a str>,
    findings: &mut Vec<String>,
) {
    let for_tests = law.test_layers.get(package.name.as_str());
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        if ours.iter().all(|p| p.name.as_str() != name) {
            used.push(name);
            let stated = law.external.get(name).is_some_and(|reason| !reason.is_empty());
            if !stated {
                let from = &package.name;
                findings.push(format!("crate {from}: {name} is not in tests/law.toml [external]"));
            }
            continue;
        }
        let testing = dependency.kind == DependencyKind::Development;
        let extra = for_tests.filter(|_| testing).is_some_and(|l| l.iter().any(|n| n == name));
        if !allowed.iter().any(|n| n == name) && !extra {
            let from = &package.name;
            findings.push(format!("crate {from}: its layer may not import {name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_is_explained_in_the_docs() {
        let law: Law = toml::from_str(include_str!("../../../tests/law.toml")).unwrap();
        let docs = include_str!("../../../docs/dependencies.md");
        let (taken, _) = docs.split_once("## Considered and not taken").unwrap();
        let missing: Vec<&String> =
            law.external.keys().filter(|name| !taken.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/dependencies.md does not say why: {missing:?}");
    }
}
