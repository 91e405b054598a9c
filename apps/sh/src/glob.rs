//! Path name expansion.

use crate::pattern::Pattern;
use crate::shell::Shell;
use crate::system::System;
use penumbra::Kind;

/// Maximum number of names for one pattern.
const MOST: usize = 16 * 1024;

impl<S: System> Shell<S> {
    /// Appends the names that match a field, sorted; or the field itself if it is not a pattern or
    /// nothing matches.
    pub(crate) fn names(&mut self, field: &[(char, bool)], into: &mut Vec<String>) {
        let special = |(c, quoted): &(char, bool)| !quoted && matches!(c, '*' | '?' | '[');
        let text: String = field.iter().map(|(c, _)| *c).collect();
        if !field.iter().any(special) {
            into.push(text);
            return;
        }
        let parts: Vec<Vec<(char, bool)>> =
            field.split(|(c, _)| *c == '/').map(<[(char, bool)]>::to_vec).collect();
        let mut found = vec![String::new()];
        for (index, part) in parts.iter().enumerate() {
            found = self.step(&found, part, index, index + 1 == parts.len());
            if found.is_empty() {
                into.push(text);
                return;
            }
        }
        found.sort();
        into.append(&mut found);
    }

    /// Extends each path by `/` and each matching name.
    fn step(
        &mut self,
        paths: &[String],
        part: &[(char, bool)],
        index: usize,
        last: bool,
    ) -> Vec<String> {
        let pattern = Pattern::new(part);
        let mut found = Vec::new();
        for path in paths {
            let before = if index == 0 { String::new() } else { format!("{path}/") };
            if pattern.is_plain() {
                let name: String = part.iter().map(|(c, _)| *c).collect();
                let next = format!("{before}{name}");
                if !last || self.exists(&next) {
                    found.push(next);
                }
                continue;
            }
            let folder = if before.is_empty() { "." } else { before.as_str() };
            let folder = crate::path::absolute(&self.state.folder, folder);
            for name in self.system.folder(&folder).unwrap_or_default() {
                let chars: Vec<char> = name.chars().collect();
                let hidden = name.starts_with('.') && pattern.first() != Some('.');
                if hidden || !pattern.fits(&chars) || found.len() >= MOST {
                    continue;
                }
                let next = format!("{before}{name}");
                if last || self.is_folder(&next) {
                    found.push(next);
                }
            }
        }
        found
    }

    fn exists(&mut self, path: &str) -> bool {
        let path = crate::path::absolute(&self.state.folder, path);
        self.system.stat(&path, false).is_ok()
    }

    fn is_folder(&mut self, path: &str) -> bool {
        let path = crate::path::absolute(&self.state.folder, path);
        self.system.stat(&path, true).is_ok_and(|s| s.kind == Kind::Directory)
    }
}
