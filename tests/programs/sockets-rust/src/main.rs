//! An echo server and a client with the SDK's sockets, for `./pen test sockets`.
//!
//! ```text
//!   echo PORT COUNT    answers so many connections, one after the other
//!   client PORT BYTES [HOST]  sends a pattern, and compares what comes back
//!   all                both, and datagrams, in one process, by IPv4 and by IPv6
//! ```

use penumbra::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use penumbra::ready::{self, Interest};
use penumbra::{Errno, File};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

type Outcome = Result<(), Box<dyn Error>>;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn pattern(at: u32) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// Connects as soon as something listens there.
fn reach(to: SocketAddr) -> Result<TcpStream, Errno> {
    loop {
        match TcpStream::connect(to) {
            Err(Errno::CONNREFUSED) => ready::sleep(10_000_000)?,
            other => return other,
        }
    }
}

fn echo(port: u16, count: u32) -> Outcome {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
    for _ in 0..count {
        let (mut stream, peer) = listener.accept()?;
        assert_eq!(peer, stream.peer_addr()?);
        let mut data = [0; 2048];
        loop {
            let some = Read::read(&mut stream, &mut data)?;
            if some == 0 {
                break;
            }
            Write::write_all(&mut stream, &data[..some])?;
        }
    }
    println!("all connections have ended");
    Ok(())
}

fn client(to: SocketAddr, bytes: u32) -> Outcome {
    let stream = reach(to)?;
    let (mut sent, mut received) = (0, 0);
    while received < bytes {
        let piece = (bytes - sent).min(3000);
        let data: Vec<u8> = (sent..sent + piece).map(pattern).collect();
        stream.write_all(&data)?;
        sent += piece;
        if sent == bytes {
            stream.shutdown(Shutdown::Write)?;
        }
        let mut back = vec![0; piece as usize];
        stream.read_exact(&mut back)?;
        assert!(back == data, "at {received}");
        received += piece;
    }
    assert_eq!(stream.read(&mut [0])?, 0);
    println!("{received} of {bytes} bytes came back");
    Ok(())
}

fn all(own: IpAddr) -> Outcome {
    let listener = TcpListener::bind((own, 0))?;
    let port = listener.local_addr()?.port();
    let near = TcpStream::connect((own, port))?;
    let (far, peer) = listener.accept()?;
    assert_eq!(peer, near.local_addr()?);
    near.write_all(b"hello")?;
    let mut data = [0; 8];
    assert_eq!((far.peek(&mut data)?, far.read(&mut data)?), (5, 5));
    assert_eq!(&data[..5], b"hello");
    let second = near.try_clone()?;
    drop(near);
    assert_eq!(far.write(b"back")?, 4);
    assert_eq!(second.read(&mut data)?, 4);
    second.set_nonblocking(true)?;
    assert_eq!(second.read(&mut data), Err(Errno::AGAIN));
    let (reads, writes) = File::pipe()?;
    let both = [Interest::Read(&reads), Interest::Read(second.file())];
    assert_eq!(ready::wait(&both, Some(5_000_000))?, []);
    writes.write(b"p")?;
    assert_eq!(ready::wait(&both, None)?, [0]);
    far.write_all(b"s")?;
    assert_eq!(ready::wait(&both, None)?, [0, 1]);
    drop(far);
    assert_eq!(second.read(&mut data)?, 1);
    assert_eq!(second.read(&mut data)?, 0);
    assert_eq!(second.take_error()?, None);
    println!("ok streams");
    let (one, other) = (UdpSocket::bind((own, 0))?, UdpSocket::bind((own, 0))?);
    one.send_to(b"datagram", other.local_addr()?)?;
    assert_eq!(other.recv_from(&mut data)?, (8, one.local_addr()?));
    one.connect(other.local_addr()?)?;
    assert_eq!(one.send(b"")?, 0);
    assert_eq!(other.recv(&mut data)?, 0);
    let second = other.try_clone()?;
    one.send(b"peeked")?;
    assert_eq!(second.peek_from(&mut data)?, (6, one.local_addr()?));
    data.fill(0);
    assert_eq!((second.peek(&mut data)?, &data[..6]), (6, &b"peeked"[..]));
    drop(second);
    assert_eq!(other.recv(&mut data)?, 6);
    other.set_nonblocking(true)?;
    assert_eq!(other.peek(&mut data), Err(Errno::AGAIN));
    println!("ok datagrams");
    Ok(())
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).map_or(Ok(0), |text| text.parse::<u32>());
    match arguments.get(1).map(String::as_str) {
        Some("echo") => echo(number(2)? as u16, number(3)?),
        Some("client") => {
            let host = arguments.get(4).map_or(Ok(LOCAL), |text| text.parse())?;
            client(SocketAddr::new(host, number(2)? as u16), number(3)?)
        }
        _ => all(LOCAL).and_then(|()| all(Ipv6Addr::LOCALHOST.into())),
    }
}
