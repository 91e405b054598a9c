//! Keeps mails: it gets each over a channel, lets a scanner look for viruses, and writes it to the
//! disk. `./pen test servers.mail` runs it: `mail-store FOLDER [SCANNER...]`.
//!
//! It serves `mail_store.v1` by the name `mail/store`, and gives mails to the programs that
//! serve `scan.v1` by the names SCANNER, by default `mail/scan`; if there are several, at the same
//! time.
//!
//! ```text
//!   mail --mail--> a file in FOLDER/tmp --scan--> scanner --clean--> FOLDER/new --kept--> mail
//! ```
//! - [`spool`]: files of mails
//! - [`scanners`]: programs that look for viruses
//! - [`server`]: mails that wait for either

mod scanners;
mod server;
mod spool;

use server::Server;
use spool::Spool;

/// The name that it serves.
const NAME: &str = "mail/store";
/// The scanner, if it gets no names.
const SCANNER: &str = "mail/scan";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: mail-store FOLDER [SCANNER...]")?;
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names.push(SCANNER.to_string());
    }
    let spool = Spool::new(&folder).map_err(|why| format!("{folder}: {why}"))?;
    Ok(Server::open(NAME, spool, names)?.serve()?)
}
