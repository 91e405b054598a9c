//! `pen lab linux`: what Penumbra is compared with. `setup` fetches Debian's stock arm64 kernel and
//! builds our benchmarks for it; `run` boots them, a case a QEMU, in the lab's time, and leaves
//! their records.
//!
//! Everything lies below `target/lab/linux`; the machine's own packages are touched for the cross
//! compiler alone. docs/reference/lab-linux.md is the manual.

mod chip;
mod compile;
mod episode;
mod guest;
mod image;
mod layout;
mod measure;
mod packages;
mod records;
mod seat;
mod sources;
mod toolbox;

use crate::lab::kit::LeftOut;
use crate::place::Place;
use clap::Subcommand;
use guest::{Choice, Images};
use std::path::PathBuf;
use std::process::ExitCode;

/// Whose engine, doorbells and memory the guest gets.
const BOARD: &str = "solo-1";

/// What to do.
#[derive(Subcommand)]
pub enum Verb {
    /// Fetch kernel and headers, build benchmarks and image. Quick when nothing is missing.
    Setup,
    /// Boot and measure; one JSON object a record.
    Run(Choice),
}

/// Where things of this lab are.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Sources of the guest's programs, in the tree.
    sources: PathBuf,
    /// All that can be removed at any time.
    base: PathBuf,
}

impl Folders {
    fn new(place: &Place) -> Self {
        let base = place.target.join("lab").join("linux");
        Self { sources: place.root.join("lab").join("linux"), base }
    }

    /// The private apt root.
    fn apt(&self) -> PathBuf {
        self.base.join("apt")
    }

    /// Fetched packages.
    fn packages(&self) -> PathBuf {
        self.base.join("packages")
    }

    /// The packages' files.
    fn tree(&self) -> PathBuf {
        self.base.join("tree")
    }

    /// What was compiled.
    fn built(&self) -> PathBuf {
        self.base.join("built")
    }

    /// What every command said.
    fn log(&self) -> PathBuf {
        self.base.join("setup.log")
    }
}

/// `pen lab linux`
pub fn linux(place: &Place, verb: &Verb) -> anyhow::Result<ExitCode> {
    // Commands run in folders of their own.
    std::fs::create_dir_all(&place.target)?;
    let place = Place { target: place.target.canonicalize()?, ..place.clone() };
    let folders = Folders::new(&place);
    match verb {
        Verb::Setup => {
            std::fs::create_dir_all(&folders.base)?;
            toolbox::compiler(&folders)?;
            let kernel = packages::setup(&folders)?;
            let image = image::build(&folders, &kernel)?;
            println!("Linux {} is ready: {}", kernel.release, image.display());
            Ok(ExitCode::SUCCESS)
        }
        Verb::Run(choice) => {
            let kernel = packages::found(&folders)?;
            let image = image::build(&folders, &kernel)?;
            let images = Images { kernel: &kernel, disk: &image };
            measure::run(&place, &folders, images, choice)
        }
    }
}

/// A check of the lab: two runs are the same, without a chip and with one. It needs the set-up.
pub fn repeats(place: &Place) -> anyhow::Result<()> {
    let place = Place { target: place.target.canonicalize()?, ..place.clone() };
    let folders = Folders::new(&place);
    let Ok(kernel) = packages::found(&folders) else {
        return Err(LeftOut("`./pen lab linux setup` fetches what it needs").into());
    };
    let disk = image::build(&folders, &kernel)?;
    measure::repeats(&place, &folders, Images { kernel: &kernel, disk: &disk })
}
