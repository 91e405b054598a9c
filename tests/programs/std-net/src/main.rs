//! The network by nothing but Rust's std, for `./pen test sockets`. It is a Linux program, too.
//!
//! ```text
//!   echo PORT COUNT           answers so many connections, one after the other
//!   client PORT BYTES [HOST]  sends a pattern, and compares what comes back
//!   all                       streams, datagrams, time limits, names and the rest, in one process
//! ```

use std::collections::HashSet;
use std::error::Error;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs,
    UdpSocket,
};
use std::thread::sleep;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error>>;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LOCAL6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// A time limit that expires.
const SHORT: Duration = Duration::from_millis(40);

fn pattern(at: usize) -> u8 {
    ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8
}

/// Connects as soon as something listens there.
fn reach(to: SocketAddr) -> std::io::Result<TcpStream> {
    loop {
        match TcpStream::connect(to) {
            Err(why) if why.kind() == ErrorKind::ConnectionRefused => sleep(SHORT),
            other => return other,
        }
    }
}

fn echo(port: u16, count: usize) -> Outcome {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
    for stream in listener.incoming().take(count) {
        let stream = stream?;
        std::io::copy(&mut &stream, &mut &stream)?;
    }
    println!("all connections have ended");
    Ok(())
}

fn client(to: SocketAddr, bytes: usize) -> Outcome {
    let mut stream = reach(to)?;
    let sent: Vec<u8> = (0..bytes).map(pattern).collect();
    let mut back = vec![0; bytes];
    for (from, into) in sent.chunks(3000).zip(back.chunks_mut(3000)) {
        stream.write_all(from)?;
        stream.read_exact(into)?;
    }
    stream.shutdown(Shutdown::Write)?;
    assert!(sent == back, "other bytes came back");
    assert_eq!(stream.read(&mut [0])?, 0);
    println!("{bytes} of {bytes} bytes came back");
    Ok(())
}

fn streams(own: IpAddr) -> Outcome {
    let listener = TcpListener::bind((own, 0))?;
    let at = listener.local_addr()?;
    let mut near = TcpStream::connect(at)?;
    let (mut far, peer) = listener.accept()?;
    assert_eq!((peer, far.peer_addr()?), (near.local_addr()?, near.local_addr()?));
    near.write_all(b"two\nlines\n")?;
    let mut data = [0; 16];
    assert_eq!(far.peek(&mut data)?, 10);
    let lines: Result<Vec<String>, _> = BufReader::new(&far).lines().take(2).collect();
    assert_eq!(lines?, ["two", "lines"]);
    near.set_nodelay(true)?;
    assert!(near.nodelay()?);
    near.set_nonblocking(true)?;
    let nothing = near.read(&mut data).map_err(|why| why.kind());
    assert_eq!(nothing, Err(ErrorKind::WouldBlock));
    near.set_nonblocking(false)?;
    assert!(near.take_error()?.is_none());
    far.write_all(b"end")?;
    drop(far);
    let mut text = String::new();
    assert_eq!(near.read_to_string(&mut text)?, 3);
    println!("ok streams");
    Ok(())
}

fn datagrams(own: IpAddr) -> Outcome {
    let (one, other) = (UdpSocket::bind((own, 0))?, UdpSocket::bind((own, 0))?);
    let mut data = [0; 16];
    assert_eq!(one.send_to(b"datagram", other.local_addr()?)?, 8);
    assert_eq!(other.peek_from(&mut data)?, (8, one.local_addr()?));
    assert_eq!(other.recv_from(&mut data)?, (8, one.local_addr()?));
    one.connect(other.local_addr()?)?;
    assert_eq!((one.send(b"again")?, other.recv(&mut data)?), (5, 5));
    println!("ok datagrams");
    Ok(())
}

/// What waits ends in time: here a connection, and whatever else the system has limits for.
fn limits() -> Outcome {
    let listener = TcpListener::bind((LOCAL, 0))?;
    let near = TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(60))?;
    let (mut far, _) = listener.accept()?;
    near.set_read_timeout(Some(SHORT))?;
    assert_eq!(near.read_timeout()?, Some(SHORT));
    let begun = Instant::now();
    let nothing = (&near).read(&mut [0]).map_err(|why| why.kind());
    assert!(matches!(nothing, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{nothing:?}");
    assert!(begun.elapsed() >= SHORT);
    far.write_all(b"x")?;
    assert_eq!((&near).read(&mut [0])?, 1);
    println!("ok limits");
    Ok(())
}

/// Names and errors, and a set, whose seed std takes from elsewhere, as it does arguments.
fn others() -> Outcome {
    let found: HashSet<SocketAddr> = ("localhost", 80).to_socket_addrs()?.collect();
    assert!(found.contains(&(LOCAL, 80).into()), "{found:?}");
    let refused = TcpStream::connect((LOCAL, 1)).map(drop).map_err(|why| why.kind());
    assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
    let listener = TcpListener::bind((LOCAL, 0))?;
    let twice = TcpListener::bind(listener.local_addr()?).map(drop).map_err(|why| why.kind());
    assert_eq!(twice, Err(ErrorKind::AddrInUse));
    println!("ok others");
    Ok(())
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).map_or(Ok(0), |text| text.parse::<usize>());
    match arguments.get(1).map(String::as_str) {
        Some("echo") => echo(number(2)? as u16, number(3)?),
        Some("client") => {
            let host = arguments.get(4).map_or(Ok(LOCAL), |text| text.parse())?;
            client(SocketAddr::new(host, number(2)? as u16), number(3)?)
        }
        _ => {
            [LOCAL, LOCAL6]
                .into_iter()
                .try_for_each(|own| streams(own).and_then(|()| datagrams(own)))?;
            limits()?;
            others()
        }
    }
}
