//! `pen check words`: counts phrasings that make text hard to read, per crate. The counts may only
//! fall: `tests/words.toml` lists the phrasings and the counts at the last update.
//!
//! A crate is the folder of the nearest Cargo.toml above a file, or else the file's first folder.
//! An update lowers counts. Text may move from one crate to another, because the sum over all
//! crates is compared.

mod text;

use super::Verdict;
use super::style;
use anyhow::Context;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tree::place::Place;

/// The list of phrasings, and the recorded counts.
const FILE: &str = "tests/words.toml";
/// Marks the start of the recorded counts, which reach to the end of the file.
const COUNTS: &str = "\n[counts]\n";
/// Maximum number of occurrences listed per crate.
const SHOWN: usize = 40;

/// The rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// In prose: comments, strings, Markdown.
    phrase: Vec<Rule>,
    /// In code: parts of names.
    name: Vec<Rule>,
}

/// A phrasing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// In lower case, with single spaces.
    text: String,
    /// Suggested replacement.
    instead: String,
    /// Longer phrases that contain it and are allowed.
    #[serde(default)]
    except: Vec<String>,
}

/// Counts by crate.
type Counts = BTreeMap<String, usize>;

/// An occurrence of a phrasing.
struct Found<'a> {
    area: String,
    file: String,
    line: usize,
    rule: &'a Rule,
}

/// Compares the tree with the recorded counts.
pub fn check(place: &Place) -> anyhow::Result<Verdict> {
    let text = std::fs::read_to_string(place.root.join(FILE)).context(FILE)?;
    let (rules, recorded) = read(&text)?;
    let recorded = recorded.with_context(|| {
        format!("{FILE}: [counts] cannot be read; `./pen check words --update` writes it again")
    })?;
    let found = all(place, &rules)?;
    let now = tally(&found);
    let fallen = fallen(&now, &recorded);
    if fallen > 0 {
        println!("words: {fallen} fewer than recorded; `./pen check words --update` records that");
    }
    Ok(risen(&found, &now, &recorded).into())
}

/// Records the current counts of the tree.
pub fn update(place: &Place) -> anyhow::Result<Verdict> {
    let path = place.root.join(FILE);
    let text = std::fs::read_to_string(&path).context(FILE)?;
    let (rules, recorded) = read(&text)?;
    let now = tally(&all(place, &rules)?);
    let (sum, before) = (now.values().sum::<usize>(), recorded.map(|it| it.values().sum()));
    match before {
        // An empty table is a new list without counts to compare.
        Some(before) if before != 0 && sum > before => {
            let why = format!(
                "{FILE}: there are {sum}, {before} are recorded, and the sum may not rise; \
                 `./pen check words` says where. After adding a phrasing to the list, empty \
                 [counts] first"
            );
            return Ok(Verdict::Bad(vec![why]));
        }
        _ => {}
    }
    let head = text.split_once(COUNTS).map_or(text.as_str(), |(head, _)| head);
    std::fs::write(&path, format!("{head}{COUNTS}{}", table(&now)))?;
    println!("words: {sum} recorded, {} before", before.map_or("?".into(), |it| it.to_string()));
    Ok(Verdict::Good)
}

/// Parses the rules and the counts. The counts are `None` if they cannot be parsed (because of
/// merge conflict marks).
fn read(text: &str) -> anyhow::Result<(Rules, Option<Counts>)> {
    let (head, counts) = text
        .split_once(COUNTS)
        .with_context(|| format!("{FILE}: a line [counts] must follow the list of phrasings"))?;
    Ok((toml::from_str(head).context(FILE)?, toml::from_str(counts).ok()))
}

fn table(counts: &Counts) -> String {
    let mut text = String::new();
    for (area, count) in counts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\"{area}\" = {count}");
    }
    text
}

/// Returns every occurrence in every file of the tree.
fn all<'a>(place: &Place, rules: &'a Rules) -> anyhow::Result<Vec<Found<'a>>> {
    let files = style::files(place)?;
    let crates: BTreeSet<&str> =
        files.iter().filter_map(|f| f.strip_suffix("/Cargo.toml")).collect();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".rs") || file.ends_with(".md")) {
        let bytes = std::fs::read(place.root.join(file))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let area = area(file, &crates);
        let hit = |(line, rule)| Found { area: area.clone(), file: file.clone(), line, rule };
        found.extend(in_file(file, &text, rules).into_iter().map(hit));
    }
    Ok(found)
}

/// Returns the crate that a file belongs to.
fn area(file: &str, crates: &BTreeSet<&str>) -> String {
    let folders = file.match_indices('/').rev().map(|(at, _)| &file[..at]);
    let nearest = folders.into_iter().find(|folder| crates.contains(folder));
    let first = || file.split_once('/').map_or("(root)", |(first, _)| first);
    nearest.unwrap_or_else(first).to_string()
}

/// Returns the occurrences in a file: line and rule.
fn in_file<'a>(file: &str, text: &str, rules: &'a Rules) -> Vec<(usize, &'a Rule)> {
    let (prose, code) = match file.ends_with(".rs") {
        true => text::of_rust(text),
        false => (text::of_markdown(text), text::Extract::default()),
    };
    let mut found = Vec::new();
    for rule in &rules.phrase {
        found.extend(prose.phrase(&rule.text, &rule.except).map(|line| (line, rule)));
    }
    for rule in &rules.name {
        found.extend(code.name(&rule.text).map(|line| (line, rule)));
    }
    found
}

fn tally(found: &[Found<'_>]) -> Counts {
    let mut counts = Counts::new();
    for it in found {
        *counts.entry(it.area.clone()).or_default() += 1;
    }
    counts
}

/// Returns the total decrease over all crates whose counts fell.
fn fallen(now: &Counts, recorded: &Counts) -> usize {
    let less = |(area, &before): (&String, &usize)| {
        before.saturating_sub(now.get(area).copied().unwrap_or(0))
    };
    recorded.iter().map(less).sum()
}

/// Returns a finding for each crate whose count rose, with the occurrences.
fn risen(found: &[Found<'_>], now: &Counts, recorded: &Counts) -> Vec<String> {
    let mut findings = Vec::new();
    for (area, &count) in now {
        let before = recorded.get(area).copied().unwrap_or(0);
        if count <= before {
            continue;
        }
        let mut text = format!("{area}: {count} rejected phrasings, {before} are recorded:\n");
        for it in found.iter().filter(|it| it.area == *area).take(SHOWN) {
            let (rule, at) = (it.rule, format!("{}:{}", it.file, it.line));
            let _ = writeln!(text, "  {at}: \"{}\"; write {}", rule.text, rule.instead);
        }
        if count > SHOWN {
            let _ = writeln!(text, "  and {} more; `git diff` shows which are new", count - SHOWN);
        }
        text.push_str("  rephrase; text that moved here: `./pen check words --update`");
        findings.push(text);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "[[phrase]]\ntext = \"who\"\ninstead = \"a noun\"\n\
        [[phrase]]\ntext = \"is told\"\ninstead = \"receives\"\nexcept = [\"is told apart\"]\n\
        [[name]]\ntext = \"hoard\"\ninstead = \"cache\"\n";

    fn lines(file: &str, text: &str) -> Vec<(usize, String)> {
        let rules: Rules = toml::from_str(HEAD).unwrap();
        in_file(file, text, &rules).into_iter().map(|(l, r)| (l, r.text.clone())).collect()
    }

    fn counts(pairs: &[(&str, usize)]) -> Counts {
        pairs.iter().map(|&(area, count)| (area.to_string(), count)).collect()
    }

    #[test]
    fn prose_and_names_are_counted_with_their_lines() {
        let text = "//! Who asks.\nfn hoard_all(who: u32) {\n    // It is\n    // told; \
                    it is told apart.\n}\n";
        let found = lines("a/src/b.rs", text);
        let expected = [(1, "who"), (3, "is told"), (2, "hoard")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_string())));
        assert_eq!(lines("docs/a.md", "One who is\ntold `who`.\n").len(), 2);
    }

    #[test]
    fn a_file_belongs_to_the_nearest_crate() {
        let crates = BTreeSet::from(["kernel/mem", "arch", "arch/copy"]);
        assert_eq!(area("kernel/mem/src/a.rs", &crates), "kernel/mem");
        assert_eq!(area("arch/copy/src/lib.rs", &crates), "arch/copy");
        assert_eq!(area("arch/src/lib.rs", &crates), "arch");
        assert_eq!(area("docs/decisions/001.md", &crates), "docs");
        assert_eq!(area("README.md", &crates), "(root)");
    }

    #[test]
    fn a_count_that_rises_is_a_finding_and_one_that_falls_is_not() {
        let rule = Rule { text: "who".into(), instead: "a noun".into(), except: Vec::new() };
        let one = |area: &str| Found { area: area.into(), file: "f".into(), line: 7, rule: &rule };
        let found = [one("a"), one("b"), one("b")];
        let now = tally(&found);
        assert!(risen(&found, &now, &counts(&[("a", 1), ("b", 2)])).is_empty());
        let findings = risen(&found, &now, &counts(&[("a", 3), ("b", 1)]));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("b: 2 rejected") && findings[0].contains("f:7"));
        assert_eq!(risen(&found, &now, &Counts::new()).len(), 2, "a crate without a record has 0");
        assert_eq!(fallen(&now, &counts(&[("a", 3), ("b", 1), ("gone", 4)])), 6);
    }

    #[test]
    fn counts_survive_writing_and_a_failed_merge_is_noticed() {
        let before = counts(&[("(root)", 2), ("kernel/mem", 5)]);
        let text = format!("{HEAD}{COUNTS}{}", table(&before));
        assert_eq!(read(&text).unwrap().1, Some(before));
        let torn = format!("{HEAD}{COUNTS}<<<<<<< HEAD\na = 1\n=======\na = 2\n>>>>>>> b\n");
        assert_eq!(read(&torn).unwrap().1, None);
        assert!(read(HEAD).is_err(), "without [counts]");
    }

    #[test]
    fn the_list_of_the_tree_is_understood() {
        let (rules, counts) = read(include_str!("../../../tests/words.toml")).unwrap();
        assert!(counts.is_some() && !rules.phrase.is_empty() && !rules.name.is_empty());
        let plain = |it: &Rule| it.text == it.text.to_lowercase() && !it.text.contains("  ");
        assert!(rules.phrase.iter().chain(&rules.name).all(plain));
    }
}
