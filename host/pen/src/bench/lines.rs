//! Counts the source lines that a benchmark names: its command lists files and folders, those to
//! leave out with a `-` before them. Blank lines, comments and tests do not count.

use anyhow::Context;
use records::benches::Bench;
use records::said::Said;
use std::path::{Path, PathBuf};
use tree::place::Place;

const TEST: &str = "#[cfg(test)]";

/// Returns one record for each benchmark.
pub fn measure(place: &Place, group: &[Bench]) -> anyhow::Result<Vec<Said>> {
    let one = |bench: &Bench| {
        let (left_out, counted): (Vec<&str>, Vec<&str>) =
            bench.command.split_whitespace().partition(|word| word.starts_with('-'));
        let left_out = left_out.iter().map(|word| place.root.join(&word[1..])).collect();
        let mut count = Count { left_out, lines: 0 };
        for word in counted {
            count.add(&place.root.join(word))?;
        }
        Ok((bench.name.clone(), count.lines as f64, bench.unit.clone()))
    };
    group.iter().map(one).collect()
}

struct Count {
    left_out: Vec<PathBuf>,
    lines: usize,
}

impl Count {
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_tests = path.is_dir() && path.ends_with("tests");
        if is_tests || self.left_out.iter().any(|other| other == path) {
            return Ok(());
        }
        if path.is_dir() {
            let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            // A folder's own files say which of its modules are tests.
            paths.sort_by_key(|path| (path.is_dir(), path.clone()));
            let sources = paths.iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
            sources.clone().try_for_each(|path| self.find_tests(path))?;
            return paths.iter().try_for_each(|path| self.add(path));
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            self.lines += lines(&read(path)?);
        }
        Ok(())
    }

    /// Leaves out the modules that a file declares as tests.
    fn find_tests(&mut self, path: &Path) -> anyhow::Result<()> {
        let text = read(path)?;
        let folder = path.parent().unwrap_or(path);
        let own = path.with_extension("");
        let is_root = path.file_name().is_some_and(|name| name == "lib.rs" || name == "mod.rs");
        let folder = if is_root { folder } else { &own };
        for (first, second) in text.lines().zip(text.lines().skip(1)) {
            let name = second.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let name = name.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            if let Some(name) = name.filter(|_| first == TEST) {
                self.left_out.extend([folder.join(name), folder.join(format!("{name}.rs"))]);
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Returns the number of lines of code before the tests at a file's end.
fn lines(text: &str) -> usize {
    let all = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    all.lines().filter(is_code).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_comments_and_tests_do_not_count() {
        let text =
            "//! What.\n\nfn one() {\n    // why\n    two()\n}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines(text), 3);
    }

    #[test]
    fn modules_for_tests_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("src/lib.rs", "mod a;\n#[cfg(test)]\nmod fake;\n");
        write("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests;\n");
        write("src/a/tests.rs", "fn test() {}\n");
        write("src/fake.rs", "fn fake() {}\n");
        write("src/b/mod.rs", "fn b() {}\n");
        let mut count = Count { left_out: vec![folder.path().join("src/b")], lines: 0 };
        count.add(&folder.path().join("src")).expect("counted");
        // `mod a;`, and the attributes and names of what is left out, belong to the code.
        assert_eq!(count.lines, 3 + 3);
    }
}
