//! Debian's kernel replays the journals of images that were cut at random moments, and must find
//! the same files in them as our own replay.
//!
//! ```text
//!   cargo test -p fs: NAME.image, NAME.list --> /images of a guest --> /replay mounts and lists
//! ```
//!
//! The images are of the disk model of ext2's tests (`services/fs/tests/fs/ext2/linux.rs`), which
//! also writes what our replay finds. They stay in the folder, so a failure can be looked into.

use super::guest::{Choice, Guest, Images, Interrupt, alone, last_lines};
use super::image;
use anyhow::{Context, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tree::place::Place;
use tree::progress::Step;

/// The test that makes the images.
const MAKER: &str = "ext2::linux::images_are_made_for_linux_to_replay";

/// What is in an image: a line for each file and directory.
type Listing = BTreeSet<String>;

/// Makes images, boots a guest with them, and compares.
pub fn agrees(place: &Place, folder: &Path, images: Images<'_>) -> anyhow::Result<()> {
    // What is there is of an earlier run.
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    make(place, folder, seed)?;
    let paths = with_ending(folder, "image")?;
    let disk = folder.join("initrd");
    let mut archive = std::fs::read(images.disk)?;
    image::add_images(&mut archive, &paths)?;
    std::fs::write(&disk, archive)?;
    let theirs = listed_by_linux(&Images { disk: &disk, ..images })?;
    std::fs::remove_file(&disk)?;
    ensure!(!paths.is_empty() && theirs.len() == paths.len(), "{} images", theirs.len());
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ours = std::fs::read_to_string(path.with_extension("list"))?;
        let ours = ours.lines().map(str::to_string).collect();
        let theirs = theirs.get(&*name).with_context(|| format!("Linux did not list {name}"))?;
        if let Some(difference) = difference(&ours, theirs) {
            bail!("{}: {difference}", path.display());
        }
    }
    Ok(())
}

/// Writes images and the lists of their contents.
fn make(place: &Place, folder: &Path, seed: u64) -> anyhow::Result<()> {
    let mut cargo = place.cargo();
    cargo.args(["test", "-q", "--release", "-p", "fs", "--test", "fs", "--", "--ignored"]);
    cargo.args(["--exact", MAKER]);
    cargo.env("PEN_EXT2_IMAGES", folder).env("PEN_EXT2_SEED", seed.to_string());
    let step = Step::begin("images for Linux");
    let output = cargo.output()?;
    step.done();
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn with_ending(folder: &Path, ending: &str) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == ending)).collect();
    paths.sort();
    Ok(paths)
}

/// Boots the guest. Returns the contents of each image by name.
fn listed_by_linux(images: &Images<'_>) -> anyhow::Result<BTreeMap<String, Listing>> {
    let choice = Choice { case: "replay".to_string(), ..Choice::default() };
    let step = Step::begin("Linux replays");
    let guest = Guest::start(&alone(images, &choice))?;
    let mut said = String::new();
    Interrupt::listen()?.lines(&guest.lines, &mut said, |_| Ok(()))?;
    step.done();
    read(&said).with_context(|| last_lines(&said))
}

/// Reads the guest's output.
fn read(said: &str) -> anyhow::Result<BTreeMap<String, Listing>> {
    let (mut all, mut current) = (BTreeMap::new(), None);
    let mut done = false;
    for line in said.lines().map(str::trim_end) {
        match (line.split_once(' '), &mut current) {
            (Some(("failed", why)), _) => bail!("the guest failed: {why}"),
            (Some(("image", name)), None) => current = Some((name.to_string(), Listing::new())),
            (Some(("end", _)), Some(_)) => all.extend(current.take()),
            (Some(("d" | "f" | "l", _)), Some((_, listing))) => {
                listing.insert(line.to_string());
            }
            _ if line.contains("EXT4-fs error") => bail!("Linux finds an error: {line}"),
            _ => done |= line == "lab: done",
        }
    }
    ensure!(done && current.is_none(), "the guest did not finish");
    Ok(all)
}

/// Returns how the listings differ.
fn difference(ours: &Listing, theirs: &Listing) -> Option<String> {
    let only = |some: &Listing, other: &Listing| {
        some.difference(other).take(5).cloned().collect::<Vec<_>>().join("\n  ")
    };
    (ours != theirs).then(|| {
        let (ours, theirs) = (only(ours, theirs), only(theirs, ours));
        format!("only our replay finds\n  {ours}\nonly Linux finds\n  {theirs}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "image a\nf x/y 3 0011\r\nd x\nend a\nimage b\nend b\nlab: done\n";

    #[test]
    fn the_listings_of_a_guest_are_read() {
        let all = read(SAID).unwrap();
        assert_eq!(all["a"], ["d x", "f x/y 3 0011"].map(String::from).into());
        assert!(all["b"].is_empty() && all.len() == 2);
    }

    #[test]
    fn a_guest_that_fails_or_stops_is_an_error() {
        for (there, instead) in [
            ("lab: done", "lab: failed"),
            ("end b\n", ""),
            ("d x", "failed open x: Input/output error"),
            ("d x", "[    3.1] EXT4-fs error (device ram0): bad block bitmap checksum"),
        ] {
            assert!(read(&SAID.replace(there, instead)).is_err(), "{instead}");
        }
    }

    #[test]
    fn every_difference_is_told() {
        let ours: Listing = ["f a 1 0011", "d b"].map(String::from).into();
        assert_eq!(difference(&ours, &ours), None);
        for other in ["f a 2 0011", "f a 1 0012", "f c 1 0011", "d a"] {
            let theirs: Listing = [other, "d b"].map(String::from).into();
            let told = difference(&ours, &theirs).unwrap();
            assert!(told.contains("f a 1 0011") && told.contains(other), "{told}");
        }
    }
}
