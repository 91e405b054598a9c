//! The contracts that a manifest names. A kernel knows them by their hashes, which are computed
//! from `contracts/NAME.vN.toml` beside the manifest or, if there is none, in the tree. And the
//! other way: the names of hashes.

use anyhow::bail;
use contract::{Contract, FOLDER};
use program::{HASH, Manifest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Looks up the contracts of a manifest, which was read from `file`. `root` is that of the tree.
pub fn resolve(root: &Path, file: &Path, manifest: &mut Manifest) -> anyhow::Result<()> {
    let beside = file.parent().unwrap_or(Path::new("")).join(FOLDER);
    manifest.resolve(|name| hash(&[beside.clone(), root.join(FOLDER)], file, name))
}

/// Where contracts of test programs are, in the tree.
const OF_TESTS: &str = "tests/contracts";

/// Returns the names of contracts by their hashes in hex digits: those in `contracts/` of the
/// current folder and of the tree, and of the tree's tests. Files that are no contracts are left
/// out.
pub fn names(root: &Path) -> BTreeMap<String, String> {
    let folders = [root.join(OF_TESTS), root.join(FOLDER), PathBuf::from(FOLDER)];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = files.flatten().map(|entry| entry.path());
    let named = paths.filter_map(|path| {
        let contract = Contract::read(&path).ok()?;
        Some((contract.digits(), contract.full_name()))
    });
    named.collect()
}

fn hash(folders: &[PathBuf], file: &Path, name: &str) -> anyhow::Result<[u8; HASH]> {
    let paths: Vec<PathBuf> =
        folders.iter().map(|folder| folder.join(format!("{name}.toml"))).collect();
    let Some(path) = paths.iter().find(|path| path.exists()) else {
        let shown: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
        bail!(
            "{}: its endpoints name the contract \"{name}\", and there is neither {}: correct the \
             name, or put the file there",
            file.display(),
            shown.join(" nor ")
        );
    };
    Ok(Contract::read(path)?.hash().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    fn resolved(root: &Path, file: &Path, contract: &str) -> anyhow::Result<Option<[u8; HASH]>> {
        let text = format!("endpoints = [{{ contract = \"{contract}\" }}]");
        let mut manifest = Manifest::parse("it.toml", &text)?;
        resolve(root, file, &mut manifest)?;
        match &manifest.endpoints[0].to {
            program::To::Contract { hash, .. } => Ok(*hash),
            other => anyhow::bail!("{other:?}"),
        }
    }

    #[test]
    fn a_contract_beside_the_manifest_is_taken_before_that_of_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it.toml");
        let of_tree = tree().join("contracts/ping.v1.toml");
        let ping = Contract::read(&of_tree).unwrap().hash().0;
        assert_eq!(resolved(tree(), &file, "ping.v1").unwrap(), Some(ping));
        let beside = folder.path().join(FOLDER);
        std::fs::create_dir(&beside).unwrap();
        let text = std::fs::read_to_string(of_tree).unwrap().replace("pong", "answer");
        std::fs::write(beside.join("ping.v1.toml"), text).unwrap();
        let own = Contract::read(&beside.join("ping.v1.toml")).unwrap().hash().0;
        assert_ne!(own, ping);
        assert_eq!(resolved(tree(), &file, "ping.v1").unwrap(), Some(own));
    }

    #[test]
    fn hashes_have_names() {
        let names = names(tree());
        for (file, name) in
            [("contracts/ping.v1.toml", "ping.v1"), ("tests/contracts/echo.v1.toml", "echo.v1")]
        {
            let hash = Contract::read(&tree().join(file)).unwrap().digits();
            assert_eq!(names.get(&hash).map(String::as_str), Some(name));
        }
    }

    #[test]
    fn a_contract_without_a_file_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it.toml");
        let why = resolved(tree(), &file, "missing.v1").unwrap_err().to_string();
        for part in
            ["it.toml: ", "\"missing.v1\"", "contracts/missing.v1.toml nor ", "put the file"]
        {
            assert!(why.contains(part), "{why}; {part:?} is missing");
        }
        std::fs::create_dir(folder.path().join(FOLDER)).unwrap();
        std::fs::write(folder.path().join("contracts/bad.v1.toml"), "about = 1").unwrap();
        let why = format!("{:#}", resolved(tree(), &file, "bad.v1").unwrap_err());
        assert!(why.contains("bad.v1.toml:1"), "{why}");
    }
}
