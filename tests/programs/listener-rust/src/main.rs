//! An echo server with nothing but Rust's standard library, at the listener that its manifest
//! names, for `./pen test sockets.allowed`: `listener-rust COUNT` answers so many connections, one
//! after the other.

mod inherited;

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// Accepts a connection without waiting in the accept.
fn poll(listener: &TcpListener) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let stream = loop {
        match listener.accept() {
            Err(why) if why.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(2)),
            accepted => break accepted?.0,
        }
    };
    listener.set_nonblocking(false)?;
    Ok(stream)
}

/// Sends back what comes, and then the end.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut data = [0; 2048];
    loop {
        match stream.read(&mut data)? {
            0 => return stream.shutdown(Shutdown::Write),
            some => stream.write_all(&data[..some])?,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).ok_or("usage: listener-rust COUNT")?.parse::<usize>()?;
    let listener = inherited::listener()?;
    println!("listening");
    echo(poll(&listener)?)?;
    for stream in listener.incoming().take(count.saturating_sub(1)) {
        echo(stream?)?;
    }
    println!("all connections have ended");
    Ok(())
}
