//! `pen`: the single command of the tree. Parses the command line and dispatches; errors end here.
//!
//! The script `./pen` at the root of the tree builds and starts this binary.

mod bench;
mod commands;
mod console;
mod contract;
mod debug;
mod doctor;
mod forward;
mod fuzz;
mod new;
mod test;

use builds::apps;
use clap::{Parser, Subcommand};
use deploy::up::{self, How, Which};
use deploy::{exec, install, moves, reseal, transfer};
use records::figures;
use std::path::PathBuf;
use std::process::ExitCode;
use tree::place;

#[derive(Parser)]
#[command(name = "pen", about = "Penumbra: build, run, test and measure", version)]
struct Line {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build, boot and attach this terminal; ctrl-a x leaves and ends the board.
    Run(How),
    /// Build and boot in the background.
    Up(How),
    /// Attach this terminal to a running board; ctrl-a x leaves it running.
    Console {
        /// Board. Optional if only one is running.
        name: Option<String>,
    },
    /// End running boards.
    Down {
        /// Board. Optional if only one is running.
        name: Option<String>,
        /// End all of them.
        #[arg(long)]
        all: bool,
    },
    /// Put a file into a running board.
    Push {
        /// A file of the host.
        file: PathBuf,
        /// Its path on the board. By default, its own name; after a `/` at the end, its own name is
        /// added.
        path: Option<String>,
        /// Board. Optional if only one is running.
        #[arg(long)]
        name: Option<String>,
    },
    /// Get a file out of a running board.
    Pull {
        /// Its path on the board.
        path: String,
        /// A file of the host. By default, its own name.
        file: Option<PathBuf>,
        /// Board. Optional if only one is running.
        #[arg(long)]
        name: Option<String>,
    },
    /// Install a program on a running board, for each of its ISAs.
    Install(install::Line),
    /// Give an installed program another manifest, without compiling it again.
    Manifest(reseal::Line),
    /// Run a program on a board, with this terminal's input and output, and exit with its code.
    Exec(exec::Line),
    /// Move a running process or a shadowed service to another kernel, without interrupting it.
    Move(moves::Line),
    /// Say on which kernel of a board a program would start now, and why.
    Place(deploy::place::Line),
    /// Publish a port of a running board on this host.
    Forward(forward::Line),
    /// List boards that run, with the state of each domain, their addresses and published ports.
    Ps,
    /// Debug a kernel with gdb: a running one, or the memory of one that died.
    Debug(debug::Line),
    /// Build kernels and stage their images.
    Build(Which),
    /// Build programs that run on the boards: `target/apps/NAME.wasm`.
    Apps {
        /// Programs to build. By default, all of `apps/apps.toml`.
        names: Vec<String>,
    },
    /// Run the tests: on the host, then scenarios on boards.
    Test {
        /// Only tests whose name contains this; or the whole name of one scenario or lab check.
        filter: Option<String>,
        /// Run the long ones too, and print what this night and all nights have done.
        #[arg(long)]
        nightly: bool,
        /// Continue an interrupted nightly run of this commit: what has passed is not run again.
        #[arg(long, requires = "nightly")]
        resume: bool,
        /// Folder for the boards. By default, target/tests.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
    /// Run the checks that are not tests: formatting, style, words, layers, licences, lints, bans
    /// in services, what the fault path reaches, layouts of shared state, advisories.
    Check {
        /// Run only this check.
        name: Option<String>,
        /// `check words`: record the counts of rejected phrasings, which may only fall.
        #[arg(long)]
        update: bool,
    },
    /// Let libFuzzer search for inputs that break a rule: calls, images, packets, files and more.
    /// Needs a C++ compiler.
    Fuzz(fuzz::Line),
    /// Measure, and print a table next to Linux's values.
    Bench {
        /// Only records whose name begins with this.
        #[arg(default_value = "")]
        prefix: String,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
        /// Run the commands in the lab, and print where their cycles went, by function, instead of
        /// records.
        #[arg(long, conflicts_with = "json")]
        profile: bool,
    },
    /// Put records of measurements into the documentation's tables.
    Figures {
        /// Files of records, as `bench --json` prints them; `-` is standard input. Without any, the
        /// tables are written again.
        files: Vec<PathBuf>,
    },
    /// Run a scenario in exact chip time and energy; without one, list them.
    Lab(labrun::Line),
    /// Record which programs of a running board talk to which over channels, for `pen report`.
    Record(deploy::record::Line),
    /// Make one page from records of measurements.
    Report {
        /// Files of records, and folders whose .jsonl files are read. By default, target/lab.
        paths: Vec<PathBuf>,
        /// The page. By default, target/report.html.
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Create a program, a board, a scenario, a service or a contract from an example that works.
    New(new::Line),
    /// Check contracts of channels, and make code and pages of them.
    Contract(contract::Line),
    /// Check tools, disk space and leftovers, and say what to do.
    Doctor,
    /// Install what is missing (the script does this before the tools are built).
    Setup,
}

/// Makes `pen ... | head` end like other tools when its reader has gone: silently, with the exit
/// code of SIGPIPE. The signal itself stays ignored, so that a console that disappears is reported
/// as an error.
fn end_with_the_reader() {
    const CODE: i32 = 128 + 13;
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(CODE);
        }
        report(panic);
    }));
}

fn main() -> ExitCode {
    end_with_the_reader();
    match run(Line::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    let place = place::Place::find()?;
    match verb {
        Verb::Run(how) => commands::run(&place, &how),
        Verb::Up(how) => up::up(&place, &how).map(|_| ExitCode::SUCCESS),
        Verb::Console { name } => commands::console(&place, name.as_deref()),
        Verb::Down { name, all } => commands::down(&place, name.as_deref(), all),
        Verb::Push { file, path, name } => {
            commands::with_running(&place, name.as_deref(), |instance| {
                transfer::push(instance, &file, path.as_deref())
            })
        }
        Verb::Pull { path, file, name } => {
            commands::with_running(&place, name.as_deref(), |instance| {
                transfer::pull(instance, &path, file.as_deref())
            })
        }
        Verb::Install(line) => commands::with_running(&place, line.board.as_deref(), |instance| {
            install::install(&place, instance, &line)
        }),
        Verb::Manifest(line) => commands::with_running(&place, line.board.as_deref(), |instance| {
            reseal::manifest(&place, instance, &line)
        }),
        Verb::Exec(line) => Ok(exec::exec(&place, &line)),
        Verb::Move(line) => commands::with_running(&place, line.board.as_deref(), |instance| {
            moves::move_one(instance, &line)
        }),
        Verb::Place(line) => commands::with_running(&place, line.board.as_deref(), |instance| {
            deploy::place::place(instance, &line)
        }),
        Verb::Forward(line) => commands::with_running(&place, line.board(), |instance| {
            forward::forward(instance, &line)
        }),
        Verb::Ps => commands::ps(&place),
        Verb::Debug(line) => debug::debug(&place, &line),
        Verb::Build(which) => commands::build(&place, &which),
        Verb::Apps { names } => apps::apps(&place, &names),
        Verb::Test { filter, nightly, resume, folder } => {
            let wanted = test::Wanted::new(&place, filter.as_deref(), (nightly, resume), folder)?;
            test::test(&place, &wanted)
        }
        Verb::Check { name, update } => checks::check(&place, name.as_deref(), update),
        Verb::Fuzz(line) => fuzz::fuzz(&place, &line),
        Verb::Bench { prefix, profile: true, .. } => bench::profile::bench(&place, &prefix),
        Verb::Bench { prefix, json, .. } => bench::bench(&place, &prefix, json),
        Verb::Figures { files } => figures::figures(&place, &files),
        Verb::Record(line) => commands::with_running(&place, line.board.as_deref(), |instance| {
            deploy::record::record(&place, instance, &line)
        }),
        Verb::Lab(line) => labrun::lab(&place, &line),
        Verb::Report { paths, output } => report::report(&place, &paths, output.as_deref()),
        Verb::New(line) => new::new(&place, &line),
        Verb::Contract(line) => contract::contract(&place, &line),
        Verb::Doctor => doctor::doctor(&place),
        Verb::Setup => Ok(ExitCode::SUCCESS),
    }
}
