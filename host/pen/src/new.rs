//! `pen new WHAT NAME`: copies an example. The copy passes `./pen test NAME`, and a contract
//! `./pen contract check`.
//!
//! | what | copied from | to | named in |
//! | --- | --- | --- | --- |
//! | program | `examples/program-*` | `apps/NAME` | apps.toml; Rust: Cargo.toml, law.toml |
//! | board | `examples/board.toml` | `boards/NAME.toml` | nowhere |
//! | service | `examples/service` | `services/NAME` | Cargo.toml, law.toml |
//! | contract | `examples/contract.v1.toml` | `contracts/NAME.v1.toml` | nowhere |
//! | scenario | [`SCENARIO`] | `host/scenarios/src/NAME.rs` | `host/scenarios/src/lib.rs` |
//!
//! Everything is computed before anything is written, so an error leaves the tree unchanged.

use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tree::place::Place;

/// What to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// A WebAssembly program, in Rust or C.
    Program,
    /// A board file.
    Board,
    /// A system test.
    Scenario,
    /// A service: state machine, client, and a test against a model.
    Service,
    /// A contract: the messages of a channel, and their order.
    Contract,
}

/// `pen new`
#[derive(clap::Args)]
pub struct Line {
    what: What,
    /// Name: 1 to 15 of a-z, 0-9 and '-', beginning with a letter.
    name: String,
    /// Write the program in C instead of Rust.
    #[arg(long)]
    c: bool,
}

/// The file with the list of scenarios.
const SCENARIOS: &str = "host/scenarios/src/lib.rs";
/// Anchors in files, after which new entries are inserted.
const LAST_PROGRAM: &str = "\"apps/sh\", \"apps/system\",";
const LAST_LAYER: &str = "\nsystem = [\"penumbra\"]\n";
const LAST_SERVICE: &str = " \"services/processes\",";
const SERVICE_LAYER: &str = "\npermits = [\"base\", \"share\"]\n";
const FIRST_SCENARIO: &str = "pub const ALL: &[Scenario] = &[\n";
const MODULES_END: &str = "\npub use found::found;\n";

/// A scenario that passes, with instructions.
const SCENARIO: &str = "//! NAME: say in one line what this shows.

use super::{Failure, PATIENCE, Rig};

/// The board boots, and its monitor answers on every kernel. Replace this: a scenario reads like a
/// story, and fails when the behaviour that it is named after is broken.
pub fn answers(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect(\"main> \", PATIENCE)?;
    for domain in rig.instance.board()?.domains.iter().skip(1) {
        let answer = rig.ask(\"main\", &format!(\"on {} help\", domain.name), PATIENCE)?;
        if !answer.contains(\"peers\") {
            return Err(Failure::Wrong(format!(\"{} does not answer: {answer}\", domain.name)));
        }
    }
    Ok(())
}
";

/// Files to write: new ones, and changed ones.
#[derive(Default)]
struct Plan {
    files: Vec<(PathBuf, String)>,
}

impl Plan {
    /// Adds a file that must not exist yet.
    fn create(&mut self, place: &Place, path: PathBuf, text: String) -> anyhow::Result<()> {
        ensure!(!place.root.join(&path).exists(), "{} exists already", path.display());
        self.files.push((path, text));
        Ok(())
    }

    /// Changes a file: inserts `text` after (or before) `anchor`.
    fn insert(
        &mut self,
        place: &Place,
        path: &str,
        (anchor, text): Edit<'_>,
    ) -> anyhow::Result<()> {
        let before = std::fs::read_to_string(place.root.join(path)).context(path.to_string())?;
        self.files.push((path.into(), inserted(&before, anchor, text).context(path.to_string())?));
        Ok(())
    }

    fn write(&self, place: &Place) -> anyhow::Result<()> {
        for (path, text) in &self.files {
            let full = place.root.join(path);
            if let Some(folder) = full.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&full, text).with_context(|| path.display().to_string())?;
            println!("{}", path.display());
        }
        Ok(())
    }
}

/// An anchor, and the text to insert.
type Edit<'a> = (Anchor<'a>, &'a str);

#[derive(Clone, Copy)]
enum Anchor<'a> {
    /// After every occurrence of this text.
    After(&'a str),
    /// Before every occurrence of this text.
    Before(&'a str),
    End,
}

fn inserted(before: &str, anchor: Anchor<'_>, text: &str) -> anyhow::Result<String> {
    let (anchor, whole) = match anchor {
        Anchor::After(anchor) => (anchor, format!("{anchor}{text}")),
        Anchor::Before(anchor) => (anchor, format!("{text}{anchor}")),
        Anchor::End => return Ok(format!("{before}{text}")),
    };
    ensure!(before.contains(anchor), "{:?} is missing: add {text:?} by hand", anchor);
    Ok(before.replace(anchor, &whole))
}

/// `pen new`
pub fn new(place: &Place, line: &Line) -> anyhow::Result<ExitCode> {
    let name = line.name.as_str();
    check_name(line.what, name)?;
    ensure!(!line.c || line.what == What::Program, "--c is for programs only");
    plan(place, line.what, name, line.c)?.write(place)?;
    println!("{}", next(line.what, name));
    Ok(ExitCode::SUCCESS)
}

/// Words are joined by '-'; in contracts, whose names are those of generated code, by '_'.
fn check_name(what: What, name: &str) -> anyhow::Result<()> {
    let joint = if what == What::Contract { '_' } else { '-' };
    let good = (1..=15).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == joint);
    ensure!(good, "\"{name}\": use 1 to 15 of a-z, 0-9 and '{joint}', beginning with a letter");
    Ok(())
}

fn next(what: What, name: &str) -> String {
    let more = match what {
        What::Program => format!("; `./pen exec {name}` runs it; docs/howto/add-program.md"),
        What::Board => format!("; `./pen run {name}` boots it; docs/reference/boards.md"),
        What::Scenario => "; docs/howto/add-scenario.md".to_string(),
        What::Service => {
            "; how kernels come to have it: docs/tutorial/first-service.md".to_string()
        }
        What::Contract => {
            let file = format!("contracts/{name}.v1.toml");
            return format!("`./pen contract check {file}` checks it; docs/reference/contracts.md");
        }
    };
    format!("`./pen test {name}` tests it{more}")
}

fn plan(place: &Place, what: What, name: &str, c: bool) -> anyhow::Result<Plan> {
    match what {
        What::Program => program(place, name, c),
        What::Board => board(place, name),
        What::Scenario => scenario(place, name),
        What::Service => service(place, name),
        What::Contract => contract(place, name),
    }
}

fn read(place: &Place, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(place.root.join(path)).context(path.to_string())
}

fn program(place: &Place, name: &str, c: bool) -> anyhow::Result<Plan> {
    let taken = builds::apps::names(place)?.iter().any(|known| known == name);
    ensure!(!taken, "the system has a program {name} already (apps/apps.toml)");
    let (mut plan, folder) = (Plan::default(), Path::new("apps").join(name));
    let (kind, check) = if c {
        let text = read(place, "examples/program-c/program-c.c")?;
        plan.create(place, folder.join(format!("{name}.c")), copied(&text, "program-c", name))?;
        (
            format!("kind = \"c\"\nfolder = \"apps/{name}\"\n"),
            "check = { input = \"one\\ntwo\\n\", output = \"1 one\\n2 two\\n\" }\n",
        )
    } else {
        for file in ["Cargo.toml", "src/main.rs"] {
            let text = read(place, &format!("examples/program-rust/{file}"))?;
            plan.create(place, folder.join(file), copied(&text, "program-rust", name))?;
        }
        let member = format!(" \"apps/{name}\",");
        plan.insert(place, "Cargo.toml", (Anchor::After(LAST_PROGRAM), &member))?;
        let layer = format!("{name} = [\"penumbra\"]\n");
        plan.insert(place, "tests/law.toml", (Anchor::After(LAST_LAYER), &layer))?;
        (
            format!("kind = \"rust\"\npackage = \"{name}\"\n"),
            "check = { arguments = [\"notes\"], input = \"one two\\nthree\\n\", \
             output = \"notes: 2 lines, 3 words\\n\" }\n",
        )
    };
    let entry = format!("\n[[app]]\nname = \"{name}\"\n{kind}{check}");
    plan.insert(place, "apps/apps.toml", (Anchor::End, &entry))?;
    Ok(plan)
}

/// Returns the text without the parts that describe it as an example.
fn copied(text: &str, example: &str, name: &str) -> String {
    let told = |line: &&str| !line.contains("`./pen new program NAME");
    let lines: Vec<&str> = text.lines().filter(told).collect();
    let text = lines.join("\n").replace("//!\n\n", "\n").replace("An example to copy: a", "A");
    let text =
        text.replace("An example: counts", "Counts").replace(" *\n#include", " */\n#include");
    text.replace(example, name) + "\n"
}

fn board(place: &Place, name: &str) -> anyhow::Result<Plan> {
    let text = read(place, "examples/board.toml")?;
    let start = text.find("name = \"example\"\n").context("examples/board.toml has no name")?;
    let text = text[start..]
        .replacen("name = \"example\"", &format!("name = \"{name}\""), 1)
        .replacen(", to copy\"", "\"", 1);
    let path = Path::new("boards").join(format!("{name}.toml"));
    let text = format!("# docs/reference/boards.md describes this format.\n{text}");
    board::parse(&path.display().to_string(), &text)?;
    let mut plan = Plan::default();
    plan.create(place, path, text)?;
    Ok(plan)
}

fn service(place: &Place, name: &str) -> anyhow::Result<Plan> {
    ensure!(!name.contains('-'), "\"{name}\": a service's name has no '-'");
    let (mut plan, folder) = (Plan::default(), Path::new("services").join(name));
    let kind = name[..1].to_uppercase() + &name[1..];
    for file in ["Cargo.toml", "src/lib.rs", "src/client.rs", "tests/model.rs"] {
        let text = copied(&read(place, &format!("examples/service/{file}"))?, "permits", name);
        let text = text.replace("Permits", &kind).replace("An example of a service: a", "A");
        plan.create(place, folder.join(file), text)?;
    }
    let member = format!(" \"services/{name}\",");
    plan.insert(place, "Cargo.toml", (Anchor::After(LAST_SERVICE), &member))?;
    let layer = SERVICE_LAYER.trim_start().replace("permits", name);
    plan.insert(place, "tests/law.toml", (Anchor::After(SERVICE_LAYER), &layer))?;
    Ok(plan)
}

fn contract(place: &Place, name: &str) -> anyhow::Result<Plan> {
    let text = read(place, "examples/contract.v1.toml")?;
    let start = text.find("# docs/").context("examples/contract.v1.toml names no page")?;
    let mut plan = Plan::default();
    let path = Path::new(::contract::FOLDER).join(format!("{name}.v1.toml"));
    ::contract::Contract::parse(&path, &text[start..])?;
    plan.create(place, path, text[start..].to_string())?;
    Ok(plan)
}

fn scenario(place: &Place, name: &str) -> anyhow::Result<Plan> {
    let module = name.replace('-', "_");
    let list = read(place, SCENARIOS)?;
    if list.contains(&format!("\nmod {module};\n")) {
        bail!("there is a scenario {name} already ({SCENARIOS})");
    }
    let path = Path::new(SCENARIOS).with_file_name(format!("{module}.rs"));
    let mut plan = Plan::default();
    plan.create(place, path, SCENARIO.replace("NAME", name))?;
    let list = with_module(&list, &module)?;
    let entry = format!("    on(\"{name}.answers\", \"duo\", {module}::answers),\n");
    let list = inserted(&list, Anchor::After(FIRST_SCENARIO), &entry)?;
    plan.files.push((SCENARIOS.into(), list));
    Ok(plan)
}

/// Inserts a module in the order that rustfmt requires.
fn with_module(list: &str, module: &str) -> anyhow::Result<String> {
    let name = |line: &str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_string())
    };
    let later = list.lines().find(|line| name(line).is_some_and(|it| it.as_str() > module));
    let line = format!("mod {module};\n");
    match later {
        Some(later) => inserted(list, Anchor::Before(&format!("{later}\n")), &line),
        None => inserted(list, Anchor::Before(MODULES_END), &line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Place {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        Place { root: root.into(), ..Place::find().unwrap() }
    }

    fn planned(what: What, c: bool) -> Vec<(String, String)> {
        let plan = plan(&tree(), what, "quux", c).unwrap();
        plan.files.into_iter().map(|(path, text)| (path.display().to_string(), text)).collect()
    }

    /// The anchors exist in the tree, and the results are well-formed.
    #[test]
    fn a_program_is_named_wherever_programs_are() {
        let files = planned(What::Program, false);
        let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        let own = ["apps/quux/Cargo.toml", "apps/quux/src/main.rs"];
        assert_eq!(names, [own[0], own[1], "Cargo.toml", "tests/law.toml", "apps/apps.toml"]);
        assert!(files[0].1.contains("name = \"quux\"\n") && files[1].1.starts_with("//! A WASI"));
        assert!(files.iter().all(|(_, text)| !text.contains("pen new program NAME makes")));
        assert!(files[..2].iter().all(|(_, text)| !text.contains("xample")), "{}", files[1].1);
        assert_eq!(files[2].1.matches("\"apps/quux\"").count(), 2, "members, default-members");
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".toml")) {
            toml::from_str::<toml::Table>(text).unwrap_or_else(|why| panic!("{path}: {why}"));
        }
    }

    #[test]
    fn a_program_in_c_is_one_file_and_an_entry() {
        let files = planned(What::Program, true);
        let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["apps/quux/quux.c", "apps/apps.toml"]);
        assert!(files[0].1.starts_with("/* A WASI program in C."), "{}", files[0].1);
        assert_eq!(files[0].1.matches("*/").count(), 2, "{}", files[0].1);
    }

    #[test]
    fn a_board_is_good_and_a_scenario_is_listed() {
        let files = planned(What::Board, false);
        assert_eq!(files[0].0, "boards/quux.toml");
        assert_eq!(board::parse("quux", &files[0].1).unwrap().name, "quux");
        let files = planned(What::Scenario, false);
        assert!(files[1].1.contains("\nmod quux;\nmod reboot;\n"));
        assert!(files[1].1.contains("    on(\"quux.answers\", \"duo\", quux::answers),\n"));
    }

    #[test]
    fn a_service_is_a_crate_of_its_own_name() {
        let files = planned(What::Service, false);
        let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names[0], "services/quux/Cargo.toml");
        assert_eq!(names[4..], ["Cargo.toml", "tests/law.toml"]);
        assert!(files[1].1.contains("pub struct Quux {") && files[3].1.contains("fn quux_agree"));
        assert!(files[..4].iter().all(|(_, text)| !text.to_lowercase().contains("permits")));
        assert_eq!(files[4].1.matches("\"services/quux\"").count(), 2);
        assert!(files[5].1.contains("\nquux = [\"base\", \"share\"]\n"));
        assert!(plan(&tree(), What::Service, "a-b", false).is_err());
    }

    #[test]
    fn a_contract_is_one_file_that_passes_its_check() {
        let files = planned(What::Contract, false);
        assert_eq!((files.len(), files[0].0.as_str()), (1, "contracts/quux.v1.toml"));
        assert!(!files[0].1.contains("xample"), "{}", files[0].1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quux.v1.toml");
        std::fs::write(&path, &files[0].1).unwrap();
        assert_eq!(::contract::Contract::read(&path).unwrap().full_name(), "quux.v1");
    }

    #[test]
    fn what_is_there_already_is_refused() {
        assert!(plan(&tree(), What::Program, "hello", false).is_err());
        assert!(plan(&tree(), What::Program, "ls", false).is_err(), "an applet");
        assert!(plan(&tree(), What::Board, "duo", false).is_err());
        assert!(plan(&tree(), What::Service, "net", false).is_err());
        assert!(plan(&tree(), What::Scenario, "boot", false).is_err());
        assert!(plan(&tree(), What::Contract, "ping", false).is_err());
        assert!(plan(&tree(), What::Contract, "int", false).is_err(), "a keyword of C");
    }

    #[test]
    fn the_rule_for_names_fits_what_is_made() {
        assert!(check_name(What::Board, "a-b").is_ok() && check_name(What::Board, "a_b").is_err());
        assert!(check_name(What::Contract, "a_b").is_ok());
        for bad in ["a-b", "../b", "", "1a", "a234567890123456"] {
            assert!(check_name(What::Contract, bad).is_err(), "{bad}");
        }
        assert!(plan(&tree(), What::Contract, "a_b", false).is_ok());
    }
}
