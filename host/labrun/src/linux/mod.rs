//! `pen lab linux`: the baseline for comparison. `setup` downloads Debian's stock arm64 kernel and
//! builds our benchmarks for it; `run` boots it in the lab's time, one benchmark per QEMU, and
//! writes records.
//!
//! Everything is below `target/lab/linux`; of the machine's own packages only the cross compiler is
//! installed. docs/reference/lab-linux.md is the manual.

mod chip;
mod compile;
mod episode;
mod guest;
mod image;
mod layout;
mod measure;
mod packages;
mod records;
mod replay;
mod seat;
mod sources;
mod toolbox;

use crate::kit::LeftOut;
use clap::Subcommand;
use guest::{Choice, Images};
use std::path::PathBuf;
use std::process::ExitCode;
use tree::place::Place;

/// The board with the engine, doorbells and memory for the guest.
const BOARD: &str = "solo-1";

/// The subcommand.
#[derive(Subcommand)]
pub enum Verb {
    /// Download kernel and headers, build benchmarks and image. Quick if nothing is missing.
    Setup,
    /// Boot and measure; prints one JSON object per record.
    Run(Choice),
}

/// Folders of this lab.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Sources of the guest's programs, in the tree.
    sources: PathBuf,
    /// Everything here may be removed at any time.
    base: PathBuf,
}

impl Folders {
    fn new(place: &Place) -> Self {
        let base = place.target.join("lab").join("linux");
        Self { sources: place.root.join("lab").join("linux"), base }
    }

    /// Returns the private apt root.
    fn apt(&self) -> PathBuf {
        self.base.join("apt")
    }

    /// Returns the folder of downloaded packages.
    fn packages(&self) -> PathBuf {
        self.base.join("packages")
    }

    /// Returns the folder of unpacked packages.
    fn tree(&self) -> PathBuf {
        self.base.join("tree")
    }

    /// Returns the folder of compiled files.
    fn built(&self) -> PathBuf {
        self.base.join("built")
    }

    /// Returns the log of all commands.
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

/// Checks that Debian's kernel replays journals as ours does, on images cut at random moments. It
/// needs the set-up.
pub fn replays(place: &Place) -> anyhow::Result<()> {
    let place = Place { target: place.target.canonicalize()?, ..place.clone() };
    let folders = Folders::new(&place);
    let Ok(kernel) = packages::found(&folders) else {
        return Err(LeftOut("`./pen lab linux setup` fetches what it needs").into());
    };
    let disk = image::build(&folders, &kernel)?;
    replay::agrees(&place, &folders.base.join("replay"), Images { kernel: &kernel, disk: &disk })
}

/// Checks that two runs are the same, without a chip and with one. It needs the set-up.
pub fn repeats(place: &Place) -> anyhow::Result<()> {
    let place = Place { target: place.target.canonicalize()?, ..place.clone() };
    let folders = Folders::new(&place);
    let Ok(kernel) = packages::found(&folders) else {
        return Err(LeftOut("`./pen lab linux setup` fetches what it needs").into());
    };
    let disk = image::build(&folders, &kernel)?;
    measure::repeats(&place, &folders, Images { kernel: &kernel, disk: &disk })
}
