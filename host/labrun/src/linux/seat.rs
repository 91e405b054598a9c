//! Linux's seat at the lab's table: the main domain of the board, with its costs and powers, at a
//! selected frequency. Linux's addresses are unknown: none of its code is a sync point, and the
//! plugin finds its exception entries itself.

use super::BOARD;
use board::Board;
use lab::marks;
use lab::model::{Lab, PAGE};
use lab::page::Page;
use lab::seats::Phase;
use std::path::{Path, PathBuf};
use thiserror::Error;
use workbench::model::{self, Choice};

/// The default frequencies in MHz.
pub const USUAL: [u32; 2] = [350, 1200];

/// Why there is no seat.
#[derive(Debug, Error)]
pub enum SeatError {
    /// The power table lacks this frequency.
    #[error("boards/{BOARD}.toml has no power at {0} MHz; --mhz takes one of {1:?}")]
    Frequency(u32, Vec<u32>),
    /// The model cannot be computed.
    #[error(transparent)]
    Image(#[from] builds::image::ImageError),
}

/// A seat.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The lab's model for plugin and soc.
    pub lab: Lab,
    plugin: PathBuf,
}

impl Seat {
    /// Creates the seat of `board`'s main domain at `mhz`.
    pub fn new(
        board: &Board,
        mhz: u32,
        no_costs: bool,
        plugin: PathBuf,
    ) -> Result<Seat, SeatError> {
        let choice = Choice { no_costs, ..Choice::default() };
        let mut lab = model::of(board, choice, |_| None)?;
        for domain in &mut lab.domains {
            // These belong to our kernel.
            (domain.frequency, domain.gate, domain.vectors) = (0, 0, (0, 0));
            domain.window = (0, 0);
            domain.khz = mhz * 1000;
            if domain.point(domain.khz).is_none() {
                let there = domain.powers.points.iter().map(|point| point.khz / 1000).collect();
                return Err(SeatError::Frequency(mhz, there));
            }
        }
        lab.hash = lab.fingerprint();
        Ok(Seat { lab, plugin })
    }

    /// Returns Linux's domain.
    pub fn domain(&self) -> &lab::model::Domain {
        self.lab.domains.first().expect("a board file without domains is refused when read")
    }

    /// Returns QEMU's options for the plugin; `folder` is the run folder as QEMU sees it.
    pub fn words(&self, folder: &Path) -> [String; 2] {
        let (plugin, folder) = (self.plugin.display(), folder.display());
        let slot = self.domain().slot;
        ["-plugin".to_string(), format!("{plugin},folder={folder},slot={slot}")]
    }

    /// Creates a table with this seat only: it has the turn and never passes it.
    pub fn lay(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        if let Err(e) = std::fs::remove_file(folder.join(marks::FILE))
            && e.kind() != std::io::ErrorKind::NotFound
        {
            return Err(e.into());
        }
        self.lab.write(folder)?;
        let (page, slot) = (Page::create(&folder.join(PAGE))?, self.domain().slot);
        page.set_phase(slot, Phase::Running);
        page.set_holder(slot as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        board::read(&Path::new(root).join(format!("boards/{BOARD}.toml"))).unwrap()
    }

    #[test]
    fn the_strong_core_at_a_frequency_of_its_table() {
        let seat = |mhz| Seat::new(&board(), mhz, false, PathBuf::from("/p.so"));
        let [slow, fast] = USUAL.map(|mhz| seat(mhz).unwrap());
        assert_eq!((slow.domain().khz, fast.domain().khz), (350_000, 1_200_000));
        assert_ne!(slow.lab.hash, fast.lab.hash);
        assert!(slow.domain().costs.entry > 0 && slow.domain().vectors == (0, 0));
        let told = seat(351).unwrap_err().to_string();
        assert!(told.contains("no power at 351 MHz; --mhz takes one of [350, 1200]"), "{told}");
        assert_eq!(slow.words(Path::new("/f"))[1], "/p.so,folder=/f,slot=1");
    }

    #[test]
    fn a_table_for_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(marks::FILE), "old").unwrap();
        let seat = Seat::new(&board(), 350, false, PathBuf::new()).unwrap();
        seat.lay(folder.path()).unwrap();
        assert_eq!(Lab::read(folder.path()).unwrap(), seat.lab);
        assert_eq!(marks::read(folder.path()).unwrap(), []);
        let page = Page::open(&folder.path().join(PAGE)).unwrap();
        assert_eq!(lab::seats::next(&page.seats()), Some(seat.domain().slot));
    }
}
