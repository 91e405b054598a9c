//! A virus scanner: it gets data over channels, and looks for signatures in each.
//! `./pen test servers.mail` runs it: `mail-scan SIGNATURES [NAME]`.
//!
//! SIGNATURES is a file in ClamAV's syntax ([`signatures`]). It serves `scan.v1` by NAME, by
//! default `mail/scan`, and answers one client after the other: it computes, and has nothing to
//! wait for.

mod pattern;
mod signatures;

use mail_contracts::scan_v1::{CONTRACT, message, server};
use penumbra::channel::{Bytes, Channel, Door, Error};
use penumbra::ready::{self, Interest};
use signatures::Signatures;

/// Clients at the same time. Further ones wait at the door.
const MOST: usize = 16;
/// The name that it serves if it gets none.
const NAME: &str = "mail/scan";

type Client = server::Idle<Channel>;

/// Answers what a client has sent. Returns the conversation, if it continues.
fn answer(client: Client, signatures: &Signatures) -> Option<Client> {
    let server::received::Idle::Scan { block, next, .. } = client.receive().ok()? else {
        return None;
    };
    let answered = match signatures.find(&block) {
        None => next.send_clean(&message::Clean {}),
        Some(virus) => {
            next.send_infected(&message::Infected { virus: Bytes::cut(virus.as_bytes()) })
        }
    };
    answered.ok()
}

/// Serves clients for ever.
fn serve(door: &mut Door<'_>, signatures: &Signatures) -> Result<(), Error> {
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let ends = clients.iter().map(|client| client.transport().file());
        let mut what: Vec<Interest<'_>> = ends.map(Interest::Read).collect();
        if clients.len() < MOST {
            what.push(Interest::Read(door.file()));
        }
        let ready = ready::wait(&what, None)?;
        let is_asked = ready.contains(&clients.len());
        let all = clients.into_iter().enumerate();
        clients = all
            .filter_map(|(index, client)| match ready.contains(&index) {
                true => answer(client, signatures),
                false => Some(client),
            })
            .collect();
        if is_asked {
            match door.accept() {
                Ok(channel) => clients.push(server::start(channel)),
                // It left before it was accepted.
                Err(Error::Broken) => {}
                Err(why) => return Err(why),
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (file, name) = match &arguments[..] {
        [_, file] => (file, NAME),
        [_, file, name] => (file, name.as_str()),
        _ => return Err("usage: mail-scan SIGNATURES [NAME]".into()),
    };
    let text = std::fs::read_to_string(file).map_err(|why| format!("{file}: {why}"))?;
    let signatures = Signatures::read(&text).map_err(|why| format!("{file}: {why}"))?;
    let mut door = Door::open(name, CONTRACT)?;
    println!("{}", signatures.about());
    Ok(serve(&mut door, &signatures)?)
}
