//! A mail server: SMTP by the crate `mailin`, over the SDK's sockets. `./pen test servers.mail`
//! runs it: `mail DOMAIN`.
//!
//! It takes mails for its domain at the listener that the system opens for it, and gives each to
//! the program `mail-store`, over a channel ([`store`]). One thread serves all connections
//! ([`connection`]): it waits for all of them at once.

mod connection;
mod delivery;
mod store;

use connection::Connection;
use penumbra::net::TcpListener;
use penumbra::ready::{self, Interest};
use std::error::Error;
use std::rc::Rc;
use store::Store;

/// Connections at the same time. Further ones wait until one has ended.
const MOST: usize = 32;
/// How often connections are looked at that send nothing, in ns.
const LOOK: u64 = 10_000_000_000;

/// Returns the listener that the manifest names.
fn inherited() -> Result<TcpListener, Box<dyn Error>> {
    let first = std::env::var("LISTEN_FDS_FIRST");
    let first = first.map_err(|_| "no listener; the manifest must have listen = [\"tcp:PORT\"]")?;
    Ok(TcpListener::adopt(first.parse()?))
}

fn serve(listener: &TcpListener, store: &Rc<Store>) -> Result<(), Box<dyn Error>> {
    let mut all: Vec<Connection> = Vec::new();
    loop {
        let mut what: Vec<Interest> = all.iter().map(Connection::interest).collect();
        if all.len() < MOST {
            what.push(Interest::Read(listener.file()));
        }
        let timeout = if all.is_empty() { None } else { Some(LOOK) };
        let ready = ready::wait(&what, timeout)?;
        for (index, connection) in all.iter_mut().enumerate() {
            connection.proceed(ready.contains(&index));
        }
        if ready.contains(&all.len()) {
            let (stream, peer) = listener.accept()?;
            all.push(Connection::new(stream, peer.ip(), store)?);
        }
        all.retain(Connection::is_open);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, domain] = &arguments[..] else {
        return Err("usage: mail DOMAIN".into());
    };
    serve(&inherited()?, &Rc::new(Store::new(domain)))
}
