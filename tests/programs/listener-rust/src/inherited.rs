//! The listener that the program was started with, and the only `unsafe` code of this program.
#![allow(unsafe_code, reason = "std makes sockets of descriptors by unsafe functions only")]

use std::env;
use std::error::Error;
use std::net::TcpListener;
use std::os::fd::FromRawFd;

/// Returns the first listener of the manifest. Must be called once.
pub fn listener() -> Result<TcpListener, Box<dyn Error>> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let first = match (number("LISTEN_FDS"), number("LISTEN_FDS_FIRST")) {
        (Some(1..), Some(first)) => first,
        _ => return Err("no listener; the manifest must have listen = [\"tcp:PORT\"]".into()),
    };
    // SAFETY: the descriptor is open, since the system says so, and this program's: `main` calls
    // this once, so nothing else has it.
    Ok(unsafe { TcpListener::from_raw_fd(first) })
}
