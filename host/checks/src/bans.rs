//! Tests the bans in `services/clippy.toml` for crates whose state kernels share: a crate that uses
//! each banned item once, on its own line, in which clippy must report every line and no other.

use super::{Verdict, tools};
use anyhow::Context;
use std::path::Path;
use std::process::Command;
use tree::place::Place;
use tree::progress::Step;

/// Bans that an ordinary program can violate: one line each.
const USES: [&str; 16] = [
    "pub fn a(socket: &mut smoltcp::socket::tcp::Socket) { socket.set_tsval_generator(None) }",
    "pub fn b() -> &'static str { core::any::type_name::<u8>() }",
    "pub fn c() -> u32 { core::panic::Location::caller().line() }",
    "pub fn d() -> alloc::sync::Arc<str> { Default::default() }",
    "pub fn e() -> usize { std::sync::Arc::<[u8]>::default().len() }",
    "pub fn f() -> usize { std::collections::HashMap::<u8, u8>::new().len() }",
    "pub fn g() -> usize { std::collections::HashSet::<u8>::new().len() }",
    "pub fn h(map: &hashbrown::HashMap) -> usize { map.iter() }",
    "pub fn i() -> impl core::hash::BuildHasher { std::hash::RandomState::new() }",
    "pub fn j() -> impl core::hash::Hasher { std::hash::DefaultHasher::new() }",
    "pub fn k() -> core::any::TypeId { todo!() }",
    "pub fn l(of: &dyn core::any::Any) { let _ = of; }",
    "pub fn m(at: &core::panic::Location<'_>) { let _ = at; }",
    "pub fn n(waker: &core::task::Waker) { let _ = waker; }",
    "pub fn o(table: &core::task::RawWakerVTable) { let _ = table; }",
    "pub fn p(it: share::shareable::Unchecked) { let _ = it; }",
];

/// Lines that use no banned item.
const FINE: &str = "extern crate alloc;
pub fn q() -> alloc::collections::BTreeMap<u8, alloc::rc::Rc<str>> { Default::default() }
";

/// Stubs of other crates' banned items.
const OTHERS: [(&str, &str); 3] = [
    (
        "smoltcp",
        "pub mod socket { pub mod tcp { pub struct Socket; impl Socket {
         pub fn set_tsval_generator(&mut self, _: Option<fn() -> u32>) {} } } }",
    ),
    ("hashbrown", "pub struct HashMap; impl HashMap { pub fn iter(&self) -> usize { 0 } }"),
    ("share", "pub mod shareable { pub struct Unchecked; }"),
];

/// Checks that each ban is effective.
pub fn check(place: &Place) -> anyhow::Result<Verdict> {
    if !tools::available("clippy") {
        return Ok(Verdict::Unknown("no cargo clippy here; rustup's toolchains have it".into()));
    }
    let step = Step::begin("bans");
    let found = lint(place)?;
    step.done();
    Ok(judge(&found).into())
}

/// Returns the lines of [`USES`] that clippy accepts, and those of [`FINE`] that it rejects.
fn judge(messages: &str) -> Vec<String> {
    let banned = |line: usize| {
        let place = format!("src/lib.rs:{line}:");
        let mut parts = messages.split("\n\n").filter(|part| part.contains(&place));
        parts.any(|part| part.contains("use of a disallowed"))
    };
    let fine = FINE.lines().count();
    let passed = (0..USES.len()).filter(|index| !banned(fine + index + 1));
    let passed = passed.map(|index| format!("services/clippy.toml does not find: {}", USES[index]));
    let wrong = (1..=fine).filter(|&line| banned(line));
    passed.chain(wrong.map(|line| format!("services/clippy.toml: line {line} is fine"))).collect()
}

/// Returns clippy's messages for a crate with all of them.
fn lint(place: &Place) -> anyhow::Result<String> {
    let folder = place.target.join("bans");
    let mut needs = String::new();
    for (name, source) in OTHERS {
        package(&folder.join(name), name, "", source)?;
        needs += &format!("{name} = {{ path = \"../{name}\" }}\n");
    }
    let shared = folder.join("shared");
    package(&shared, "shared", &needs, &(FINE.to_string() + &USES.join("\n") + "\n"))?;
    let rules = place.root.join("services/clippy.toml");
    std::fs::copy(&rules, shared.join("clippy.toml")).context("services/clippy.toml")?;
    // Clippy does not repeat messages for a crate that is up to date.
    let _ = std::fs::remove_dir_all(folder.join("target"));
    let output = Command::new("cargo")
        .args(["clippy", "--offline", "--color", "never", "--manifest-path"])
        .arg(shared.join("Cargo.toml"))
        .current_dir(&shared)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("RUSTC")
        .output()?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn package(folder: &Path, name: &str, needs: &str, source: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder.join("src"))?;
    let head = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
    let manifest = format!("{head}[workspace]\n[dependencies]\n{needs}");
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    Ok(std::fs::write(folder.join("src/lib.rs"), source)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: usize) -> String {
        format!("warning: use of a disallowed type `x`\n --> src/lib.rs:{line}:1\n  |\n\n")
    }

    #[test]
    fn a_ban_that_does_not_bite_is_found() {
        let first = FINE.lines().count() + 1;
        let all: String = (first..first + USES.len()).map(message).collect();
        assert_eq!(judge(&all), Vec::<String>::new());
        assert_eq!(judge("").len(), USES.len());
        let without: String = (first + 1..first + USES.len()).map(message).collect();
        assert!(judge(&without)[0].contains("set_tsval_generator"));
        assert_eq!(judge(&(all + &message(2))).len(), 1, "what is fine is found");
    }
}
