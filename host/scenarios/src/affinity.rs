//! The kernel on which a program starts by its manifest: what a board says, and what it does. One
//! installed program is given one manifest after another.

use super::machine::demand;
use super::peers::wait_for;
use super::programs::{Running, install_as, ready, wrong};
use super::services::{exercised, whole};
use super::{Failure, Rig};
use abi::soc::state;
use deploy::exec::Line;
use deploy::install::Grants;
use deploy::place::{Answer, ask};
use deploy::reseal;
use deploy::transfer::Stream;
use tree::place::Place;

/// The program's name on the board.
const NAME: &str = "placed";

/// Platforms, required and preferred; names of kernels and of services; a program that requires
/// what no kernel has; another kernel on request.
pub fn platforms(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    install_as(rig, None, NAME)?;
    for (manifest, number, name) in [
        ("platforms = { required = [\"riscv64\"] }", "1", "shadow"),
        ("platforms = { required = [\"strong\"] }\nclass = \"light\"", "0", "main"),
        ("platforms = { preferred = [\"weak\", \"strong\"] }", "1", "shadow"),
        // No process serves it.
        ("endpoints = [{ contract = \"ping.v1\", affinity = \"negative\" }]", "0", "main"),
        ("endpoints = [{ name = \"kernel/shadow\", affinity = \"positive\" }]", "1", "shadow"),
        ("endpoints = [{ name = \"kernel/main\", affinity = \"negative\" }]", "1", "shadow"),
        ("", "0", "main"),
    ] {
        starts(rig, manifest, (number, name))?;
    }
    follows(rig)?;
    missing(rig)
}

/// A program starts where the network's requests are executed.
fn follows(rig: &mut Rig) -> Result<(), Failure> {
    const NEAR: &str = "endpoints = [{ name = \"service/net\", affinity = \"positive\" }]";
    for (home, at) in
        [("each", ("0", "main")), ("shadow", ("1", "shadow")), ("each", ("0", "main"))]
    {
        demand(rig, &format!("move service net {home}"), "")?;
        starts(rig, NEAR, at)?;
    }
    Ok(())
}

/// With this manifest the program starts on this kernel, and `pen place` says so.
fn starts(rig: &mut Rig, manifest: &str, (number, name): (&str, &str)) -> Result<(), Failure> {
    give(rig, manifest)?;
    let answer = place(rig)?;
    if answer.kernel.as_deref() != Some(name) {
        return Err(wrong(manifest, answer));
    }
    runs_on(rig, number, manifest)
}

/// A kernel that starts on demand does so for a program that requires its platform, and for nothing
/// else.
pub fn on_demand(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    install_as(rig, None, NAME)?;
    let is_off = |rig: &mut Rig| demand(rig, "peers", "off").map(|_| ());
    for manifest in ["", "class = \"light\"", "platforms = { preferred = [\"weak\"] }"] {
        give(rig, manifest)?;
        runs_on(rig, "0", manifest)?;
        is_off(rig)?;
    }
    demand(rig, "exercise 1 500", "digest")?;
    demand(rig, "ps", "")?;
    let requires = "platforms = { required = [\"riscv64\"] }";
    give(rig, requires)?;
    let answer = place(rig)?;
    if answer.kernel.as_deref() != Some("shadow") || !answer.explanation.contains("it starts") {
        return Err(wrong(requires, answer));
    }
    is_off(rig)?;
    runs_on(rig, "1", requires)?;
    wait_for(rig, "started", |epoch, now| (epoch, now) == (1, state::RUNNING))?;
    exercised(rig, "on shadow ", 1)?;
    whole(rig)
}

/// Runs the program where its manifest says: on the kernel of this number.
fn runs_on(rig: &Rig, number: &str, manifest: &str) -> Result<(), Failure> {
    let found = Running::of(&rig.instance, Line::anywhere(NAME, &["self"]), b"").end()?;
    match String::from_utf8_lossy(&found.out).lines().nth(3) == Some(number) {
        true => Ok(()),
        false => Err(wrong(manifest, found)),
    }
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
