//! Measures a mail server by where its virus scanners run, after Helios' figures 10 and 11:
//! `./pen bench helios.mail` runs it on main.
//!
//! ```text
//!   mails --SMTP--> mail --mail_store.v1--> mail-store --scan.v1--> mail-scan, one or two
//!            all of these are on main                    on main, or as its manifest says
//! ```
//! For each placement, clients send mails in a closed loop, alone or while an indexer runs on main
//! again and again. It prints records in ms a mail: all of the time divided by the mails.

mod client;
mod inputs;

use client::send;
use inputs::{Size, mails, signatures};
use mail_contracts::{mail_store_v1, scan_v1};
use offload::texts;
use penumbra::channel::connect_when_served;
use penumbra::process::{list, signal};
use penumbra::{Child, Command, File};

/// Kernels of the board.
const MAIN: u32 = 0;
const SHADOW: u32 = 1;
/// Mails of text and large ones: the latter have to fit on the disk. Those before the measured
/// ones bring programs into memory.
const COUNTS: [(Size, &str, usize); 2] = [(Size::Text, "", 100), (Size::Large, "large_", 20)];
const BEFORE: usize = 4;
const FOLDER: &str = "/mails";
const SIGNATURES: &str = "/mails.signatures";
/// The indexer's, as in the program `offload`.
const INDEX: &str = "/corpus.index";
const TEXTS: &str = "/corpus";
const SEED: u64 = 1;
const NAMES: [&str; 2] = ["mail/scan", "mail/scan2"];

type Failure = Box<dyn std::error::Error>;

/// A placement: its name, and the kernels of the scanners; `by_manifest`: they start where their
/// manifest says, which must be there.
struct Placement {
    name: &'static str,
    scanners: &'static [u32],
    by_manifest: bool,
}

const PLACEMENTS: [Placement; 3] = [
    Placement { name: "beside", scanners: &[MAIN], by_manifest: false },
    Placement { name: "apart", scanners: &[SHADOW], by_manifest: true },
    Placement { name: "two", scanners: &[SHADOW, MAIN], by_manifest: true },
];

/// The programs of a mail server.
struct Office(Vec<Child>);

/// Checks that a program runs on a kernel.
fn is_on(child: &Child, kernel: u32) -> Result<(), Failure> {
    let all = list()?;
    let listed = all.iter().find(|process| process.pid == child.pid());
    match listed.is_some_and(|process| u32::from(process.kernel) == kernel) {
        true => Ok(()),
        false => Err(format!("a scanner does not run on kernel {kernel}").into()),
    }
}

impl Office {
    fn open(placement: &Placement) -> Result<Office, Failure> {
        let names = NAMES.get(..placement.scanners.len()).unwrap_or(&NAMES);
        let store = Command::new("/bin/mail-store").arg(FOLDER).args(names.iter().copied());
        let mut all = vec![store.kernel(MAIN).spawn()?];
        drop(connect_when_served("mail/store", mail_store_v1::CONTRACT)?);
        for (kernel, name) in placement.scanners.iter().zip(names) {
            let command = Command::new("/bin/mail-scan").args([SIGNATURES, name]);
            let command = if placement.by_manifest { command } else { command.kernel(*kernel) };
            let scanner = command.spawn()?;
            drop(connect_when_served(name, scan_v1::CONTRACT)?);
            is_on(&scanner, *kernel)?;
            all.push(scanner);
        }
        all.push(Command::new("/bin/mail").arg(inputs::DOMAIN).kernel(MAIN).spawn()?);
        Ok(Office(all))
    }

    fn close(self) -> Result<(), Failure> {
        for child in self.0 {
            child.kill(signal::KILL)?;
            child.wait()?;
        }
        Ok(())
    }
}

/// Removes the mails that were kept, of which there must be `wanted`.
fn remove(wanted: usize) -> Result<(), Failure> {
    let mut count = 0;
    for kept in std::fs::read_dir(format!("{FOLDER}/new"))? {
        std::fs::remove_file(kept?.path())?;
        count += 1;
    }
    match count == wanted {
        true => Ok(()),
        false => Err(format!("{count} mails were kept, not {wanted}").into()),
    }
}

/// An indexer that starts again when it has ended.
pub struct Indexer {
    child: Child,
    output: File,
}

impl Indexer {
    fn start() -> Result<Indexer, Failure> {
        let (output, input) = File::pipe()?;
        let command = Command::new("/bin/index").args(["add", INDEX, TEXTS]);
        let child = command.file(input.number(), 1).kernel(MAIN).spawn()?;
        Ok(Indexer { child, output })
    }

    /// Reads what it has printed.
    fn proceed(&mut self) -> Result<(), Failure> {
        if self.output.read(&mut [0; 512])? == 0 {
            let before = std::mem::replace(self, Indexer::start()?);
            let ended = before.child.wait()?;
            if !ended.end.success() {
                return Err(format!("the indexer: {ended:?}").into());
            }
        }
        Ok(())
    }

    fn end(self) -> Result<(), Failure> {
        self.child.kill(signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }
}

/// Sends mails and prints the record of it.
fn measure(name: &str, mails: &[String], clients: usize, is_beside: bool) -> Result<(), Failure> {
    let mut indexer = if is_beside { Some(Indexer::start()?) } else { None };
    let ns = send(mails, clients, indexer.as_mut())?;
    println!("record helios.mail_{name} {:.3} ms", ns as f64 / 1e6 / mails.len() as f64);
    indexer.map_or(Ok(()), Indexer::end)?;
    remove(mails.len())
}

fn main() -> Result<(), Failure> {
    std::fs::create_dir_all(TEXTS)?;
    for (name, text) in texts(SEED, 100, 600) {
        std::fs::write(format!("{TEXTS}/{name}"), text)?;
    }
    std::fs::write(SIGNATURES, signatures())?;
    for (size, prefix, count) in COUNTS {
        let mails = mails(size, count);
        for placement in &PLACEMENTS {
            let name = format!("{prefix}{}", placement.name);
            let office = Office::open(placement)?;
            send(mails.get(..BEFORE).unwrap_or(&mails), 2, None)?;
            remove(BEFORE)?;
            measure(&format!("{name}_one"), &mails, 1, false)?;
            measure(&name, &mails, 2, false)?;
            measure(&format!("{name}_index"), &mails, 2, true)?;
            office.close()?;
        }
    }
    Ok(())
}
