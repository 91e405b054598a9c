//! The style check: formal properties of every file of the tree.

use super::Verdict;
use super::law::{Law, Style};
use super::pieces::{self, Piece, is_part_of_name};
use std::path::Path;
use tree::place::Place;

/// Folders that contain no source of ours.
const SKIPPED: &[&str] = &["target", "run", ".git"];
/// The file that contains the forbidden texts.
const LAW: &str = "tests/law.toml";

/// Checks every text file of the tree.
pub fn check(place: &Place, law: &Law) -> anyhow::Result<Verdict> {
    let files = files(place)?;
    let banned = law.style.banned();
    let mut findings = Vec::new();
    for name in &files {
        let bytes = std::fs::read(place.root.join(name))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        findings.extend(file(name, &text, &law.style, &banned));
    }
    for name in law.style.exceptions.keys().filter(|n| !files.contains(n)) {
        findings.push(format!("{LAW}: the exception {name} is no file"));
    }
    Ok(findings.into())
}

/// Returns every file of the tree, as a path from its root.
pub fn files(place: &Place) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(&place.root, &place.root, &mut files)?;
    files.sort();
    Ok(files)
}

pub(super) fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // In a git worktree `.git` is a file.
        if folder == root && SKIPPED.contains(&name.as_ref()) {
            continue;
        }
        if path.is_dir() {
            if name != "target" {
                collect(root, &path, files)?;
            }
        } else if let Ok(inside) = path.strip_prefix(root) {
            files.push(inside.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Returns the findings in one file.
fn file(name: &str, text: &str, style: &Style, banned: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    if name != LAW && name != "Cargo.lock" {
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = banned.iter().find(|w| line.contains(w.as_str())) {
                findings.push(format!("{name}:{}: \"{word}\" has no place here", number + 1));
            }
        }
    }
    let source = name.ends_with(".rs");
    if source && !style.exceptions.contains_key(name) {
        findings.extend(shape(name, text, style));
    }
    if source {
        findings.extend(words(name, text, style));
    }
    findings
}

fn shape(name: &str, text: &str, style: &Style) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!("{name}:1: a file opens with its contract (//!)"));
    }
    let lines = text.lines().take_while(|l| !l.starts_with("#[cfg(test)]")).count();
    if lines > style.lines {
        findings.push(format!("{name}: {lines} lines, at most {} (split it)", style.lines));
    }
    for (number, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > style.columns {
            findings.push(format!("{name}:{}: {columns} columns", number + 1));
        }
    }
    findings
}

/// Finds words that are allowed in some files only: `unsafe`, asm, cfg(target_arch).
fn words(name: &str, text: &str, style: &Style) -> Vec<String> {
    let mut findings = Vec::new();
    let may_unsafe = home(name, &style.unsafe_homes);
    let may_asm = home(name, &style.asm_homes);
    for (number, line) in text.lines().enumerate() {
        let code = code_of(line);
        if !may_unsafe && has_word(&code, "unsafe") {
            findings.push(format!("{name}:{}: `unsafe` outside its homes", number + 1));
        }
        let asm = ["asm!", "target_arch"].iter().find(|w| code.contains(*w));
        if let (false, Some(word)) = (may_asm, asm) {
            findings.push(format!("{name}:{}: {word} outside arch", number + 1));
        }
    }
    findings
}

fn home(name: &str, homes: &[String]) -> bool {
    homes.iter().any(|h| if h.ends_with('/') { name.starts_with(h) } else { name == h })
}

/// Returns `line` without its comment, strings and character literals.
fn code_of(line: &str) -> String {
    let code = pieces::of(line).filter_map(|(_, piece)| match piece {
        Piece::Code(c) => Some(c),
        _ => None,
    });
    code.collect()
}

fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_part_of_name) && !after.is_some_and(is_part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style() -> Style {
        Style {
            unsafe_homes: vec!["arch/".to_string(), "kernel/raw.rs".to_string()],
            asm_homes: vec!["arch/".to_string()],
            lines: 5,
            columns: 20,
            exceptions: Default::default(),
            forbidden: vec!["badword".to_string()],
            hosts: vec![vec!["mirror".to_string(), "example".to_string()]],
            folders: vec!["mine".to_string()],
        }
    }

    fn found(name: &str, text: &str) -> usize {
        file(name, text, &style(), &style().banned()).len()
    }

    #[test]
    fn a_good_file_passes() {
        assert_eq!(found("kernel/a.rs", "//! One.\nfn a() {}\n"), 0);
        assert_eq!(found("arch/a.rs", "//! One.\nunsafe { asm!() }\n"), 0);
        assert_eq!(found("kernel/raw.rs", "//! One.\nunsafe { b() }\n"), 0);
    }

    #[test]
    fn each_rule_is_seen_broken() {
        assert_eq!(found("kernel/a.rs", "fn a() {}\n"), 1, "no contract");
        assert_eq!(found("kernel/a.rs", "//! A\n\n\n\n\n\n"), 1, "too long");
        assert_eq!(found("kernel/a.rs", "//! A\nlet a = 1000000000000;\n"), 1, "too wide");
        assert_eq!(found("kernel/a.rs", "//! A\nunsafe {}\n"), 1, "unsafe");
        assert_eq!(found("kernel/a.rs", "//! A\nasm!();\n"), 1, "asm");
        assert_eq!(found("kernel/a.rs", "//! A\ncfg(target_arch)\n"), 1, "arch");
        assert_eq!(found("docs/a.md", "see mirror.example\n"), 1, "a host");
        assert_eq!(found("docs/a.md", "see /mine/a.md\n"), 1, "a path of one machine");
        assert_eq!(found("docs/a.md", "a badword\n"), 1, "a word");
    }

    #[test]
    fn tests_comments_and_quotes_do_not_count() {
        assert_eq!(found("kernel/a.rs", "//! A\n\n#[cfg(test)]\n\n\n\n\n"), 0);
        assert_eq!(found("kernel/a.rs", "//! unsafe\n// asm!\n\"unsafe\"\n"), 0);
        assert_eq!(found("kernel/a.rs", "//! A\nunsafe_code\n"), 0);
    }
}
