//! What kernels say of their power: the files `/proc/KERNEL/power`, and the tools that read them.

use super::programs::{Running, wrong};
use super::rest::{rests_long, starts, still_rests};
use super::{Failure, Rig, disk, programs};
use builds::{apps, compiler};
use deploy::exec::Line;
use deploy::install::{self, Source};
use std::collections::HashMap;
use tree::place::Place;

/// Cores of main on `duo-rest`.
const CORES: f64 = 2.0;
/// Power of its resting cores in W.
const RESTING: f64 = CORES * 0.0001;

/// Lines of a `power` file: the words after `DOMAIN NAME`.
struct Facts(HashMap<String, String>);

impl Facts {
    fn parse(text: &str) -> Facts {
        let fact = |line: &str| {
            let mut words = line.split_whitespace();
            let (domain, name, value) = (words.next()?, words.next()?, words.next()?);
            Some((format!("{domain} {name}"), value.to_owned()))
        };
        Facts(text.lines().filter_map(fact).collect())
    }

    fn text(&self, name: &str) -> Result<&str, Failure> {
        self.0.get(name).map(String::as_str).ok_or_else(|| wrong(name, &self.0))
    }

    fn number(&self, name: &str) -> Result<f64, Failure> {
        self.text(name)?.parse().map_err(|_| wrong(name, &self.0))
    }
}

/// Runs a program on the weak kernel and returns its output.
fn output(rig: &Rig, program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let line = Line::on("shadow", program, arguments);
    let ended = Running::of(&rig.instance, line, b"").end()?;
    if ended.code != 0 {
        return Err(wrong(program, ended));
    }
    Ok(String::from_utf8_lossy(&ended.out).into_owned())
}

fn demand(is: bool, what: &str, found: impl std::fmt::Debug) -> Result<(), Failure> {
    if is { Ok(()) } else { Err(wrong(what, found)) }
}

/// Both kernels' files agree about a main that rests, and reading shadow's does not wake it: its
/// state, the number and the time of its rests, the time of its cores, and their energy.
pub fn counts(rig: &mut Rig) -> Result<(), Failure> {
    disk::begin(rig, 1024)?;
    programs::install(rig)?;
    let woken = rests_long(rig, 0)?;
    let first = Facts::parse(&output(rig, "tool", &["type", "proc/shadow/power"])?);
    demand(first.text("main state")? == "resting", "a main that rests", &first.0)?;
    demand(first.text("shadow state")? == "running", "the kernel that reads", &first.0)?;
    rests_long(rig, 0)?;
    let second = Facts::parse(&output(rig, "tool", &["type", "proc/shadow/power"])?);
    let passed = |name: &str| Ok::<_, Failure>(second.number(name)? - first.number(name)?);
    demand(starts(rig, 0)? == woken, "reading shadow's file woke main", &second.0)?;
    demand(passed("main rests")? == 0.0, "main's rest has not ended", &second.0)?;
    let rested = passed("main resting")?;
    let others = (passed("main uptime")? - rested).abs();
    demand(rested > 0.9 && others < 1e-6, "nothing but rest", (rested, others))?;
    demand(passed("main active")? == 0.0 && passed("main idle")? == 0.0, "no work", &second.0)?;
    let watts = passed("main estimated")? / rested;
    demand((watts / RESTING - 1.0).abs() < 0.001, "the power of a rest", watts)?;
    own(rig, &second)
}

/// A key wakes main. Its own file says so, and continues what shadow's file has said.
fn own(rig: &mut Rig, before: &Facts) -> Result<(), Failure> {
    let wakes = starts(rig, 0)?;
    let text = super::machine::demand(rig, "fs cat proc/main/power", "main state running")?;
    let now = Facts::parse(&text);
    let rests = now.number("main rests")? - before.number("main rests")?;
    let ended = starts(rig, 0)? - wakes;
    demand(rests >= 1.0 && rests <= ended as f64, "rests that ended", (rests, ended))?;
    for name in ["main uptime", "main resting", "main active", "main estimated"] {
        demand(now.number(name)? > before.number(name)?, name, &now.0)?;
    }
    let [uptime, resting, active, idle] =
        ["uptime", "resting", "active", "idle"].map(|name| now.number(&format!("main {name}")));
    // The boot comes on top; while a core starts or stops, it is not counted.
    let (all, counted) = (CORES * uptime?, CORES * resting? + active? + idle?);
    demand((0.8..1.2).contains(&(counted / all)), "times that add up", (counted, all))
}

/// `top` and `ps -l` on the weak kernel show a main that rests, the energy of both kernels and of a
/// process that works, and do not wake main.
pub fn tools(rig: &mut Rig) -> Result<(), Failure> {
    programs::ready(rig)?;
    let failed = |why: anyhow::Error| wrong("system", format!("{why:#}"));
    let place = Place::find()?;
    let wasm = apps::build(&place, &["system".to_string()]).map_err(failed)?.remove(0).wasm;
    let source = Source::new(&wasm, None);
    install::put_by(compiler::chosen(), &place, &rig.instance, source, "system").map_err(failed)?;
    let works = Running::begin(&rig.instance, "shadow", &["spin"], b"");
    let before = rests_long(rig, 0)?;
    let top = output(rig, "system", &["top", "-n", "3", "-d", "1"])?;
    let listed = output(rig, "system", &["ps", "-l"])?;
    still_rests(rig, before, &format!("the tools, {top:?}"))?;
    let seen = [("main", "resting"), ("shadow", "running")].map(|it| count(&top, it));
    demand(seen == [3, 3], "each refresh shows both kernels", &top)?;
    // Before its name, both tools show a process's energy.
    let energy = |text: &str| {
        let words = text.lines().rev().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let spins = |words: &Vec<&str>| words.last() == Some(&"tool");
        let line = words.into_iter().find(spins)?;
        Some((line[0].to_owned(), line[line.len() - 2].parse::<f64>().ok()?))
    };
    let (pid, joules) = energy(&top).ok_or_else(|| wrong("top", &top))?;
    let (_, later) = energy(&listed).ok_or_else(|| wrong("ps -l", &listed))?;
    demand(joules > 0.001 && later >= joules, "energy of a process", (joules, later))?;
    super::machine::demand(rig, &format!("kill {pid}"), "")?;
    works.end().map(|_| ())
}

/// Returns the number of lines of `top` that show a kernel in a state, with its energy.
fn count(top: &str, (name, state): (&str, &str)) -> usize {
    let is_it = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kernel, found, _, _, _, _, joules, "estimated"] = words[..] else { return false };
        (kernel, found) == (name, state) && joules.parse::<f64>().is_ok_and(|it| it > 0.0)
    };
    top.lines().filter(is_it).count()
}
