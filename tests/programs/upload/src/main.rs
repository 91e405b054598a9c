//! An HTTP server that makes thumbnails of PNG files: it lets the program `png` decode them, over a
//! channel. `./pen test servers.png` runs it: `upload [NAME]`, by default `png`.
//!
//! ```text
//!   curl --POST /thumbnail.ppm?size=N--> upload --png.v1--> png, which serves NAME
//! ```
//! The system opens its listener. One thread serves all connections: it waits for all of them, and
//! for the answers of `png`, at once.
//!
//! - [`http`]: requests and answers, as bytes
//! - [`connection`]: one client
//! - [`decoding`]: one conversation with `png`
//! - [`thumbnail`]: a picture made smaller, strip by strip

mod connection;
mod decoding;
mod http;
mod thumbnail;

use connection::{Connection, Server};
use penumbra::Errno;
use penumbra::net::TcpListener;
use penumbra::ready::{self, Interest};
use std::error::Error;
use std::rc::Rc;

/// Connections at the same time. Further ones wait until one has ended.
const MOST: usize = 32;
/// How often connections are looked at that send nothing, in ns.
const LOOK: u64 = 10_000_000_000;
/// The name of the decoder if it gets none.
const NAME: &str = "png";

/// Returns the listener that the manifest names.
fn inherited() -> Result<TcpListener, Box<dyn Error>> {
    let first = std::env::var("LISTEN_FDS_FIRST");
    let first = first.map_err(|_| "no listener; the manifest must have listen = [\"tcp:PORT\"]")?;
    Ok(TcpListener::adopt(first.parse()?))
}

fn serve(listener: &TcpListener, server: &Rc<Server>) -> Result<(), Errno> {
    let mut all: Vec<Connection> = Vec::new();
    loop {
        let mut what: Vec<Interest<'_>> = all.iter().map(Connection::interest).collect();
        if all.len() < MOST {
            what.push(Interest::Read(listener.file()));
        }
        let timeout = if all.is_empty() { None } else { Some(LOOK) };
        let ready = ready::wait(&what, timeout)?;
        let is_asked = ready.contains(&all.len());
        for (index, connection) in all.iter_mut().enumerate() {
            connection.proceed(ready.contains(&index));
        }
        if is_asked {
            all.push(Connection::new(listener.accept()?.0, server)?);
        }
        all.retain(Connection::is_open);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let name = match &arguments[..] {
        [_] => NAME,
        [_, name] => name,
        _ => return Err("usage: upload [NAME]".into()),
    };
    Ok(serve(&inherited()?, &Rc::new(Server::new(name)))?)
}
