//! Scenarios derived from the tree's data; a new data file needs no code here.
//!
//! | data | scenario |
//! | --- | --- |
//! | a board of `boards/` that no scenario uses, `examples/board.toml` | `boot.BOARD`: it boots |
//! | a `check` in `apps/apps.toml` | `programs.PROGRAM`: its output on each kernel |
//! | checks in `apps/corpus.toml`, such as the examples' | the same in one: `programs.checks` |

use super::programs::{Running, wrong};
use super::{ALL, Failure, PATIENCE, Rig, Scenario, boot};
use builds::apps::{self, Built, Check};
use deploy::exec::Line;
use deploy::install;
use tree::place::Place;

/// The board that runs the programs.
const BOARD: &str = "duo";
/// The board for users to copy.
const EXAMPLE: &str = "examples/board.toml";
/// Prefix of the scenarios' names.
const BOOT: &str = "boot.";
const PROGRAM: &str = "programs.";
const CHECKS: &str = "programs.checks";

/// Returns all of them. They live as long as the process, like those of [`ALL`].
pub fn found(place: &Place) -> anyhow::Result<Vec<&'static Scenario>> {
    let mut all = Vec::new();
    let used = |board: &str| ALL.iter().any(|scenario| scenario.board == board);
    for name in place.boards().into_iter().filter(|name| !used(name)) {
        all.push(scenario(format!("{BOOT}{name}"), name, boot::to_prompt));
    }
    let example = place.root.join(EXAMPLE);
    let name = board::read(&example)?.name;
    all.push(scenario(format!("{BOOT}{name}"), example.display().to_string(), boot::to_prompt));
    for (name, _) in apps::checks(place)? {
        all.push(scenario(format!("{PROGRAM}{name}"), BOARD.to_string(), program));
    }
    all.push(scenario(CHECKS.to_string(), BOARD.to_string(), checks));
    Ok(all)
}

type Run = fn(&mut Rig) -> Result<(), Failure>;

fn scenario(name: String, board: String, run: Run) -> &'static Scenario {
    let (name, board): (&'static str, &'static str) = (name.leak(), board.leak());
    Box::leak(Box::new(Scenario { name, board, nightly: None, is_attached: false, run }))
}

/// Runs the program in the name of the scenario's folder.
fn program(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let place = Place::find()?;
    let folder = rig.instance.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wanted = folder.rsplit_once(PROGRAM).map_or("", |(_, name)| name);
    let all = apps::checks(&place).map_err(|why| wrong("apps", format!("{why:#}")))?;
    let Some((name, check)) = all.into_iter().find(|(name, _)| name == wanted) else {
        return Err(wrong("no such program", folder));
    };
    let built = apps::build(&place, std::slice::from_ref(&name));
    let built = built.map_err(|why| wrong(&name, format!("{why:#}")))?;
    built.iter().try_for_each(|built| on_each_kernel(rig, &place, built, &check))
}

fn checks(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let place = Place::find()?;
    let all = apps::test_checks(&place).map_err(|why| wrong("apps", format!("{why:#}")))?;
    for (name, check) in all {
        let built = apps::build_for_test(&place, &name);
        let built = built.map_err(|why| wrong(&name, format!("{why:#}")))?;
        on_each_kernel(rig, &place, &built, &check)?;
    }
    Ok(())
}

fn on_each_kernel(rig: &Rig, place: &Place, built: &Built, check: &Check) -> Result<(), Failure> {
    let name = built.name.as_str();
    let put = install::put(place, &rig.instance, &built.wasm, None, name);
    put.map_err(|why| wrong(name, format!("{why:#}")))?;
    let arguments: Vec<&str> = check.arguments.iter().map(String::as_str).collect();
    for domain in rig.instance.board()?.domains {
        let line = Line::on(&domain.name, name, &arguments);
        let ended = Running::of(&rig.instance, line, check.input.as_bytes()).end()?;
        if ended.out != check.output.as_bytes() || ended.code != check.code {
            let (out, err) = [&ended.out, &ended.err].map(|it| String::from_utf8_lossy(it)).into();
            let what = format!("{name} on {}: code {}", domain.name, ended.code);
            return Err(wrong(&what, (out, err, &check.output)));
        }
    }
    Ok(())
}
