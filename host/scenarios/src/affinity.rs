//! The kernel on which a program starts by its manifest: what a board says, and what it does. One
//! installed program is given one manifest after another.

use super::programs::{Running, install_as, ready, wrong};
use super::{Failure, Rig};
use deploy::exec::Line;
use deploy::install::Grants;
use deploy::place::{Answer, ask};
use deploy::reseal;
use deploy::transfer::Stream;
use tree::place::Place;

/// The program's name on the board.
const NAME: &str = "placed";

/// Platforms, required and preferred; a program that requires what no kernel has; another kernel
/// on request.
pub fn platforms(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    install_as(rig, None, NAME)?;
    for (manifest, number, name) in [
        ("platforms = { required = [\"riscv64\"] }", "1", "shadow"),
        ("platforms = { required = [\"strong\"] }\nclass = \"light\"", "0", "main"),
        ("platforms = { preferred = [\"weak\", \"strong\"] }", "1", "shadow"),
        // No process serves it.
        ("endpoints = [{ contract = \"ping.v1\", affinity = \"negative\" }]", "0", "main"),
        ("", "0", "main"),
    ] {
        give(rig, manifest)?;
        let answer = place(rig)?;
        if answer.kernel.as_deref() != Some(name) {
            return Err(wrong(manifest, answer));
        }
        let found = Running::of(&rig.instance, Line::anywhere(NAME, &["self"]), b"").end()?;
        if String::from_utf8_lossy(&found.out).lines().nth(3) != Some(number) {
            return Err(wrong(manifest, found));
        }
    }
    missing(rig)
}

/// A platform that no kernel has is named by both answers. A requested kernel overrides it.
fn missing(rig: &Rig) -> Result<(), Failure> {
    const WHY: &str = "it requires the platform riscv64 strong, which no kernel of this board has";
    give(rig, "platforms = { required = [\"riscv64\", \"strong\"] }")?;
    let answer = place(rig)?;
    if answer.kernel.is_some() || !answer.explanation.contains(WHY) {
        return Err(wrong("a platform that is missing", answer));
    }
    match Running::of(&rig.instance, Line::anywhere(NAME, &["self"]), b"").end() {
        Err(Failure::Wrong(why)) if why.contains(WHY) => {}
        other => return Err(wrong("the start without its platform", other.is_ok())),
    }
    let found = Running::of(&rig.instance, Line::on("main", NAME, &["self"]), b"").end()?;
    match String::from_utf8_lossy(&found.out).lines().nth(3) {
        Some("0") => Ok(()),
        _ => Err(wrong("a requested kernel", found)),
    }
}

/// Gives the program another manifest.
fn give(rig: &Rig, manifest: &str) -> Result<(), Failure> {
    let file = rig.instance.path("placed.toml");
    std::fs::write(&file, manifest)?;
    let put = reseal::replace(&Place::find()?, &rig.instance, NAME, &file, Grants::Refused);
    put.map(|_| ()).map_err(|why| wrong(manifest, format!("{why:#}")))
}

fn place(rig: &Rig) -> Result<Answer, Failure> {
    let answer = Stream::open(&rig.instance).and_then(|stream| ask(stream, NAME));
    answer.map_err(|why| wrong("the question", format!("{why:#}")))
}
