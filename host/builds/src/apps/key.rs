//! The inputs of a program's build as a text: when it differs, the program is built again.

use super::compile::{Tools, settings};
use super::sums::sums;
use super::{App, AppError, Source};
use std::path::PathBuf;
use tree::place::Place;

/// Folders and files that count for every program of the tree.
const COMMON: &[&str] = &["sdk/c"];
/// The same for those with the sockets of std: what the linked module goes through.
const SOCKETS: &[&str] = &[super::compile::STD, "host/passes/src/imports.rs"];
/// The same for those in Rust.
const RUST: &[&str] = &["Cargo.toml", "Cargo.lock", "sdk/rust"];

/// The entry, the compilers and how they are called, and a sum of each source.
pub fn key(place: &Place, app: &App, tools: &Tools) -> Result<String, AppError> {
    let (tools, settings) = (&tools.versions, settings(app));
    let (source, features) = (&app.source, app.features());
    let mut text = format!("{source:?}\n{features:?}\n{tools}\n{settings}\nnames: {}\n", app.names);
    if matches!(app.source, Source::Go { .. }) {
        text += &super::go::version(app)?;
    }
    let own = match &app.source {
        Source::Rust { package, folder, .. } => {
            vec![super::crate_folder(package, folder.as_deref())]
        }
        Source::Crate { .. } => vec![],
        Source::C { folder, .. } => vec![folder.clone()],
        Source::Debian(it) => vec![it.port.clone()],
        Source::Go { folder } => vec![folder.clone()],
        // With the headers beside them.
        Source::Published(it) => {
            let folders = it.ours.iter().filter_map(|file| file.parent());
            let headers = folders.map(|folder| folder.join("include"));
            let headers = headers.filter(|folder| place.root.join(folder).exists());
            it.ours.iter().cloned().chain(headers).collect()
        }
    };
    let threads =
        matches!(app.source, Source::Rust { threads: true, .. } | Source::C { threads: true, .. });
    let has_sockets = app.source.has_sockets();
    let has_posix = app.source.is_c() || has_sockets;
    let posix = has_posix.then(|| PathBuf::from(super::compile::POSIX));
    let std = SOCKETS.iter().filter(|_| has_sockets).map(PathBuf::from);
    let port = threads.then(|| PathBuf::from(super::libc::PORT));
    let rust = matches!(app.source, Source::Rust { .. });
    let also = RUST.iter().filter(|_| rust);
    let roots =
        COMMON.iter().chain(also).map(PathBuf::from).chain(port).chain(posix).chain(std).chain(own);
    Ok(text + &sums(place, roots)?)
}
