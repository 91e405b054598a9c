//! Textual operations on paths.

/// Returns the last component.
pub(crate) fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns an absolute path without `.`, `..` and empty components.
pub(crate) fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Returns `path`, relative to `folder`, as an absolute path; `.` and `..` are kept, except at the
/// root.
pub(crate) fn absolute(folder: &str, path: &str) -> String {
    let joined = if path.starts_with('/') {
        path.to_string()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    };
    let trailing = joined.len() > 1 && joined.ends_with('/');
    let normal = normal(&joined);
    if trailing && normal != "/" { normal + "/" } else { normal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_absolute() {
        assert_eq!(absolute("/a", "b"), "/a/b");
        assert_eq!(absolute("/", "b/"), "/b/");
        assert_eq!(absolute("/a/b", "../c/./d"), "/a/c/d");
        assert_eq!(absolute("/a", "/../.."), "/");
        assert_eq!(absolute("/a", "."), "/a");
        assert_eq!(normal("//x//y/"), "/x/y");
        assert_eq!((last("/a/b"), last("b"), last("a/")), ("b", "b", ""));
    }
}
