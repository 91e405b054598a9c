//! Checks that every link in a Markdown file, and every mention of a page under `docs/`, refers to
//! a file of the tree.
//!
//! A link is `](TARGET)` outside a code block: its path must exist, and its anchor must be a
//! heading of the page. A mention is the path of a page in any text file, from the root of the
//! tree. Web addresses are not checked.

use super::{Verdict, style};
use std::collections::{BTreeMap, BTreeSet};
use tree::place::Place;

/// The files of the tree, each with the anchors of its headings if it is Markdown.
type Tree = BTreeMap<String, BTreeSet<String>>;

/// The folder whose tests contain paths that do not exist.
const EXAMPLES: &str = "host/checks/src/";
/// In a path: a name that the reader substitutes.
const PLACEHOLDER: &str = "NAME";

/// Checks every text file of the tree.
pub fn check(place: &Place) -> anyhow::Result<Verdict> {
    let (mut names, mut texts, mut tree) = (Vec::new(), Vec::new(), Tree::new());
    style::collect(&place.root, &place.root, &mut names)?;
    names.sort();
    for name in names {
        let bytes = std::fs::read(place.root.join(&name))?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        tree.insert(name.clone(), anchors(&name, &text));
        texts.push((name, text));
    }
    let findings = texts.iter().flat_map(|(name, text)| file(name, text, &tree));
    Ok(findings.collect::<Vec<String>>().into())
}

/// Lines of Markdown that are not in a code block, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

fn anchors(name: &str, text: &str) -> BTreeSet<String> {
    if !name.ends_with(".md") {
        return BTreeSet::new();
    }
    let headings =
        prose(text).filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' '));
    headings.map(anchor).collect()
}

/// Returns the anchor that repository web pages give to a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let lower = heading.trim().to_lowercase();
    lower.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the findings in one file.
fn file(name: &str, text: &str, tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    if name.ends_with(".md") {
        for (number, line) in prose(text) {
            let broken = links(line).filter(|target| !leads_somewhere(name, target, tree));
            findings.extend(
                broken.map(|target| {
                    format!("{name}:{}: the link {target} leads nowhere", number + 1)
                }),
            );
        }
    }
    if !name.starts_with(EXAMPLES) {
        for (number, line) in text.lines().enumerate() {
            let missing = mentions(line).filter(|page| !tree.contains_key(*page));
            findings.extend(
                missing.map(|page| format!("{name}:{}: there is no page {page}", number + 1)),
            );
        }
    }
    findings
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn leads_somewhere(name: &str, target: &str, tree: &Tree) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let page = if path.is_empty() { name.to_string() } else { resolved(name, path) };
    match tree.get(&page) {
        Some(anchors) => anchor.is_empty() || !page.ends_with(".md") || anchors.contains(anchor),
        None => {
            let folder = format!("{}/", page.trim_end_matches('/'));
            tree.keys().any(|file| file.starts_with(&folder))
        }
    }
}

/// Returns `path`, a link target in the file `name`, relative to the root of the tree.
fn resolved(name: &str, path: &str) -> String {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_some() => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn mentions(line: &str) -> impl Iterator<Item = &str> {
    let of_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    line.match_indices("docs/").filter_map(move |(at, _)| {
        if line[..at].chars().next_back().is_some_and(of_path) {
            return None;
        }
        let rest = &line[at..];
        let path = &rest[..rest.find(|c| !of_path(c)).unwrap_or(rest.len())];
        let path = path.trim_end_matches('.');
        (path.ends_with(".md") && !path.contains(PLACEHOLDER)).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> usize {
        let pages = [
            ("README.md", "# Top"),
            ("docs/README.md", "# The book"),
            ("docs/design/a.md", "# A\n```\n# no heading\n```\n## How `it` works, in 2 steps"),
            ("boards/duo.toml", "name = 1"),
        ];
        let tree: Tree = pages.map(|(n, t)| (n.to_string(), anchors(n, t))).into();
        file(name, text, &tree).len()
    }

    #[test]
    fn a_link_must_lead_to_a_file_or_a_folder() {
        assert_eq!(
            found("docs/README.md", "[a](design/a.md) [up](../README.md) [b](../boards/)"),
            0
        );
        assert_eq!(found("docs/design/a.md", "[boards](../../boards/duo.toml) [book](..)"), 0);
        assert_eq!(found("docs/README.md", "[a](a.md) and [a](design/a.md) and [b](b.md)"), 2);
        assert_eq!(found("docs/README.md", "[up](../../README.md)"), 1, "above the tree");
    }

    #[test]
    fn an_anchor_must_be_a_heading() {
        assert_eq!(found("docs/README.md", "[a](design/a.md#how-it-works-in-2-steps)"), 0);
        assert_eq!(found("docs/design/a.md", "[here](#a)"), 0);
        assert_eq!(found("docs/design/a.md", "[here](#b)"), 1);
        assert_eq!(found("docs/README.md", "[a](design/a.md#no-heading)"), 1, "in a code block");
    }

    #[test]
    fn code_blocks_and_web_addresses_are_not_links() {
        assert_eq!(found("README.md", "```\n[a](b.md)\n```\n[w](https://web.example/a.md)"), 0);
        assert_eq!(found("README.md", "1. list\n   ```\n   [a](b.md)\n   ```\n[a](b.md)"), 1);
    }

    #[test]
    fn a_mention_must_be_a_page() {
        assert_eq!(found("a.rs", "//! See `docs/design/a.md`, and docs/README.md."), 0);
        assert_eq!(found("a.rs", "//! See `docs/a.md`."), 1);
        assert_eq!(found("a.rs", "include_str!(\"../docs/a.md\") docs/NAME.md"), 0);
        assert_eq!(found("host/checks/src/style.rs", "\"docs/a.md\""), 0);
    }
}
