//! Both ends of an echo over TCP, by the network of the process that runs them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// Returns the bytes that a client sends.
fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends a pattern to an echo, ends its side, and compares what comes back. A silence longer than
/// `patience` is an error.
pub fn talk(server: SocketAddr, count: usize, patience: Duration) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(patience))?;
    // Of the clone, too.
    stream.set_write_timeout(Some(patience))?;
    let mut sending = stream.try_clone()?;
    let sender = thread::spawn(move || {
        sending.write_all(&pattern(count))?;
        sending.shutdown(Shutdown::Write)
    });
    let mut back = Vec::new();
    let read = stream.read_to_end(&mut back);
    let sent = sender.join().expect("it does not panic");
    read.and(sent)?;
    match back == pattern(count) {
        true => Ok(()),
        false => Err(ErrorKind::InvalidData.into()),
    }
}

/// Sends back what a client sends, until its side ends.
pub fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            some => stream.write_all(&bytes[..some])?,
        }
    }
}
