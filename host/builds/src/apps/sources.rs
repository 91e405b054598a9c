//! Where the sources of a crate of others are: cargo fetches them as it does for any build.

use super::AppError;
use cargo_metadata::MetadataCommand;
use std::path::{Path, PathBuf};
use tree::place::Place;

/// The folder of a crate at one version.
pub fn of(place: &Place, package: &str, version: &str) -> Result<PathBuf, AppError> {
    let failed = |why: String| AppError::Sources(package.to_string(), why);
    let manifest = manifest(place, package, version).map_err(|e| failed(e.to_string()))?;
    let mut command = MetadataCommand::new();
    command.manifest_path(&manifest).cargo_path(&place.cargo);
    let found = command.exec().map_err(|e| failed(e.to_string()))?;
    let found = found.packages.iter().find(|it| it.name.as_str() == package);
    let folder = found.and_then(|it| it.manifest_path.parent());
    folder.map(|it| it.as_std_path().to_path_buf()).ok_or_else(|| failed("no sources".to_string()))
}

/// A crate that is nothing, and depends on that one; outside of our workspace.
fn manifest(place: &Place, package: &str, version: &str) -> std::io::Result<PathBuf> {
    let folder = place.target.join("apps/sources").join(format!("{package}-{version}"));
    std::fs::create_dir_all(&folder)?;
    put(&folder.join("lib.rs"), "")?;
    let text = format!(
        "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies]\n{package} = \"={version}\"\n"
    );
    let manifest = folder.join("Cargo.toml");
    put(&manifest, &text)?;
    Ok(manifest)
}

/// Only when it is not so.
fn put(path: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::read_to_string(path) {
        Ok(known) if known == text => Ok(()),
        _ => std::fs::write(path, text),
    }
}
