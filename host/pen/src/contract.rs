//! `pen contract`: checks contracts of channels, and generates code and pages of them.

use anyhow::{Context, ensure};
use clap::Subcommand;
use contract::{Contract, FOLDER};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tree::place::Place;

/// `pen contract`
#[derive(clap::Args)]
pub struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check contracts, and print the bounds of their queues and their hashes.
    Check {
        /// Files of contracts. By default, all in contracts/.
        files: Vec<PathBuf>,
    },
    /// Draw the states of a contract.
    Draw {
        /// File of the contract.
        file: PathBuf,
        /// Where to write it: NAME.svg for the drawing, NAME.md for a page with tables, and the
        /// drawing beside it. By default, the drawing goes to standard output.
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Print Rust code in which a wrong order of messages does not compile.
    Rust {
        /// File of the contract.
        file: PathBuf,
    },
    /// Print a C header with the layouts of the messages.
    C {
        /// File of the contract.
        file: PathBuf,
    },
}

/// `pen contract`
pub fn contract(place: &Place, line: &Line) -> anyhow::Result<ExitCode> {
    match &line.verb {
        Verb::Check { files } if files.is_empty() => {
            let files = all(place)?;
            ensure!(
                !files.is_empty(),
                "there is no contract in {FOLDER}/: `./pen new contract NAME` makes one"
            );
            return Ok(check(&files));
        }
        Verb::Check { files } => return Ok(check(files)),
        Verb::Draw { file, output } => draw(place, file, output.as_deref())?,
        Verb::Rust { file } => {
            print!("{}", contract::module(&Contract::read(file)?, &shown(place, file)));
        }
        Verb::C { file } => {
            print!("{}", contract::header(&Contract::read(file)?, &shown(place, file)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the files of all contracts of the tree.
fn all(place: &Place) -> anyhow::Result<Vec<PathBuf>> {
    let folder = place.root.join(FOLDER);
    let cannot_list = || format!("cannot list {}", folder.display());
    let entries = std::fs::read_dir(&folder).with_context(cannot_list)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files = paths.collect::<std::io::Result<Vec<PathBuf>>>().with_context(cannot_list)?;
    files.retain(|file| file.extension().is_some_and(|it| it == "toml"));
    files.sort();
    Ok(files)
}

/// Checks every file, also after one that is wrong.
fn check(files: &[PathBuf]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for file in files {
        match Contract::read(file) {
            Ok(good) => println!("{}", contract::summary(&good)),
            Err(wrong) => {
                eprintln!("pen: {wrong}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn draw(place: &Place, file: &Path, output: Option<&Path>) -> anyhow::Result<()> {
    let contract = Contract::read(file)?;
    let drawing = contract::drawing(&contract);
    let Some(output) = output else {
        print!("{drawing}");
        return Ok(());
    };
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).with_context(|| {
            format!("cannot write {}: give --output a path that you may write", path.display())
        })?;
        println!("{}", path.display());
        anyhow::Ok(())
    };
    let extension = output.extension().unwrap_or_default();
    ensure!(
        extension == "svg" || extension == "md",
        "{}: --output must end with .svg (a drawing) or .md (a page)",
        output.display()
    );
    if extension == "md" {
        let svg = output.with_extension("svg");
        let name = svg.file_name().unwrap_or_default().to_string_lossy().into_owned();
        write(output, &contract::page(&contract, &shown(place, file), &name))?;
        return write(&svg, &drawing);
    }
    write(output, &drawing)
}

/// Returns a path as generated files mention it: from the root of the tree, if it is inside.
fn shown(place: &Place, file: &Path) -> String {
    let whole = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let root = place.root.canonicalize().unwrap_or_else(|_| place.root.clone());
    match whole.strip_prefix(root) {
        Ok(inside) => inside.display().to_string(),
        Err(_) => file.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Place {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        Place { root: root.into(), ..Place::find().unwrap() }
    }

    #[test]
    fn a_page_has_its_drawing_beside_it() {
        let (place, folder) = (tree(), tempfile::tempdir().unwrap());
        let file = place.root.join("contracts/ping.v1.toml");
        draw(&place, &file, Some(&folder.path().join("ping.md"))).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("ping.md").contains("](ping.svg)") && read("ping.svg").starts_with("<svg"));
        assert!(read("ping.md").contains("draw contracts/ping.v1.toml`"), "from the root");
        let wrong = draw(&place, &file, Some(Path::new("ping.png"))).unwrap_err().to_string();
        assert_eq!(wrong, "ping.png: --output must end with .svg (a drawing) or .md (a page)");
    }

    #[test]
    fn all_contracts_of_the_tree_are_checked_and_the_others_after_a_wrong_one() {
        let files = all(&tree()).unwrap();
        assert!(files.iter().any(|file| file.ends_with("contracts/ping.v1.toml")));
        assert_eq!(check(&files), ExitCode::SUCCESS);
        assert_eq!(check(&[Path::new("none.v1.toml").into(), files[0].clone()]), ExitCode::FAILURE);
    }
}
