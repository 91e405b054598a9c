//! `stat`, `du` and `clear`.

use crate::{Answer, put};
use penumbra::{Kind, Stat};
use std::path::Path;

/// Maximum depth of `du`.
const DEPTH: u32 = 64;

/// Returns the absolute path.
pub fn absolute(path: &str) -> Result<String, String> {
    let full = std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(full.to_string_lossy().into_owned())
}

/// `stat`: prints metadata of files.
pub fn stat(arguments: &[String]) -> Answer {
    let mut code = 0;
    for name in arguments {
        match Stat::of(&absolute(name)?, false) {
            Ok(stat) => code = code.max(put(&shown(name, &stat))?),
            Err(error) => {
                eprintln!("stat: {name}: {error}");
                code = 1;
            }
        }
    }
    Ok(code)
}

fn shown(name: &str, stat: &Stat) -> String {
    let kind = match stat.kind {
        Kind::Block => "block device",
        Kind::Character => "character device",
        Kind::Directory => "directory",
        Kind::File => "file",
        Kind::Stream => "pipe or socket",
        Kind::Link => "symbolic link",
        Kind::Other => "something else",
    };
    let (system, node) = stat.node;
    let (seconds, rest) = (stat.modified / 1_000_000_000, stat.modified % 1_000_000_000);
    format!(
        "{name}: {kind}, {} bytes, number {node} of file system {system}, written at \
         {seconds}.{rest:09}\n",
        stat.size
    )
}

/// `du`: prints the size in KiB of files and of directories with their contents.
pub fn du(arguments: &[String]) -> Answer {
    let short = arguments.iter().any(|a| a == "-s");
    let here = [".".to_string()];
    let named: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let named = if named.is_empty() { here.iter().collect() } else { named };
    let mut text = String::new();
    for name in named {
        let mut lines = Vec::new();
        let bytes = sum(Path::new(name), 0, &mut lines).map_err(|e| format!("{name}: {e}"))?;
        if short || lines.is_empty() {
            lines = vec![(bytes, name.clone())];
        }
        let shown = lines.iter().map(|(b, name)| format!("{:8} {name}\n", b.div_ceil(1024)));
        text.extend(shown);
    }
    put(&text)
}

/// Returns the bytes of a file or a directory; each directory adds a line.
fn sum(path: &Path, depth: u32, lines: &mut Vec<(u64, String)>) -> std::io::Result<u64> {
    let about = std::fs::symlink_metadata(path)?;
    if !about.is_dir() || depth >= DEPTH {
        return Ok(about.len());
    }
    let mut bytes = 0u64;
    for entry in std::fs::read_dir(path)? {
        bytes = bytes.saturating_add(sum(&entry?.path(), depth + 1, lines)?);
    }
    lines.push((bytes, path.display().to_string()));
    Ok(bytes)
}

/// `clear`: clears the terminal.
pub fn clear(_: &[String]) -> Answer {
    put("\x1b[H\x1b[2J")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_line() {
        let node = (1, 7);
        let stat = Stat { kind: Kind::File, links: 1, size: 12, modified: 5_000_000_001, node };
        let expected = "a: file, 12 bytes, number 7 of file system 1, written at 5.000000001\n";
        assert_eq!(shown("a", &stat), expected);
    }

    #[test]
    fn sums_of_folders() {
        let mut lines = Vec::new();
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let bytes = sum(own, 0, &mut lines).unwrap();
        assert!(bytes > 1000 && lines.len() >= 2, "{bytes} {lines:?}");
        assert!(sum(Path::new("nothing here"), 0, &mut lines).is_err());
    }
}
