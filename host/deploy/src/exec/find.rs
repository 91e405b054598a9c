//! Resolves a program name on a board: the program of this name in `/bin`, or the one that serves
//! it, as the board's shell does (`/bin/.applets`, lines `NAME PROGRAM`).

use crate::system;
use crate::transfer::Stream;
use abi::program::FOLDER;
use anyhow::{bail, ensure};
use builds::apps;
use std::io::{Error, Result, Write};
use tree::place::Place;
use workbench::instance::Instance;

/// Checks whether the program `name` will exist, before a board is started for it, which may take
/// minutes. `own`: the board's system folder.
pub fn check(place: &Place, own: &Instance, name: &str) -> anyhow::Result<()> {
    // An existing disk may have any programs installed.
    let may_be = system::is_at(own) || apps::names(place)?.iter().any(|known| known == name);
    ensure!(
        may_be,
        "the system has no program {name}, and no board runs that may have it; \
         `pen exec {name}.wasm` runs a file, `pen exec ls /bin` lists what there is"
    );
    Ok(())
}

/// Returns the program that `name` refers to on a board.
pub fn program(instance: &Instance, name: &str) -> anyhow::Result<String> {
    let board = instance.board()?;
    let is_there = |isa: &str| begins(instance, &format!("/{FOLDER}/{name}.{isa}"));
    if board.domains.iter().any(|domain| is_there(domain.isa.name())) {
        return Ok(name.to_string());
    }
    let mut list = vec![];
    // A board without a system has no list.
    let read = Stream::open(instance)?.pull(&format!("/{FOLDER}/.applets"), &mut list);
    let list = if read.is_ok() { list } else { vec![] };
    match server(&String::from_utf8_lossy(&list), name) {
        Some(program) => Ok(program.to_string()),
        None => bail!(
            "there is no program {name} on board {}; `pen install {name}.wasm` puts one there \
             while it runs, `pen exec {name}.wasm` does so and runs it",
            instance.name
        ),
    }
}

/// Returns the program that serves `name` according to a board's list.
fn server<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    let mut served = list.lines().filter_map(|line| line.split_once(' '));
    served.find(|(served, _)| *served == name).map(|(_, program)| program)
}

/// Records whether there are any bytes, and stops there.
#[derive(Default)]
struct First(bool);

impl Write for First {
    fn write(&mut self, _: &[u8]) -> Result<usize> {
        self.0 = true;
        Err(Error::other("that is enough"))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns whether there is a file that is not empty.
fn begins(instance: &Instance, path: &str) -> bool {
    let mut first = First::default();
    // The first bytes decide; the transfer's end does not matter.
    let _ = Stream::open(instance).and_then(|stream| stream.pull(path, &mut first));
    first.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_served_by_what_the_list_says() {
        let list = "ls coreutils\nps system\nodd\n";
        assert_eq!(server(list, "ps"), Some("system"));
        assert_eq!(server(list, "odd"), None);
        assert_eq!(server("", "ls"), None);
    }

    #[test]
    fn who_cannot_be_there_is_told_before_anything_is_built() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let place = Place { root: root.into(), ..Place::find().unwrap() };
        let folder = tempfile::tempdir().unwrap();
        let own = Instance::at(folder.path().join("none"));
        assert!(check(&place, &own, "sh").is_ok() && check(&place, &own, "ls").is_ok());
        let why = check(&place, &own, "quux").unwrap_err().to_string();
        assert!(why.contains("no program quux") && why.contains("quux.wasm"), "{why}");
    }
}
