//! The gateway as a process, between a chip, which smoltcp plays, and sockets of this host.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod chip;

use chip::{CHIP, Chip, GATEWAY, GATEWAY6};
use gateway::control::{AskError, Request, ask};
use gateway::forward::Forward;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a port that nothing uses now.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn socket(chip: &Chip) -> PathBuf {
    chip.folder.path().join("gateway.sock")
}

fn forward(text: String) -> Forward {
    text.parse().unwrap()
}

fn add(chip: &Chip, text: String) -> Result<Vec<Forward>, AskError> {
    ask(&socket(chip), &Request::Add { forward: forward(text) })
}

fn remove(chip: &Chip, text: String) -> Result<Vec<Forward>, AskError> {
    ask(&socket(chip), &Request::Remove { forward: forward(text) })
}

/// Bytes that differ at each place.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 + i / 251) as u8).collect()
}

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LOCAL6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Returns the addresses of this host's loopback; a container may have that of IPv4 alone.
fn families() -> Vec<IpAddr> {
    let has = |&address: &IpAddr| TcpListener::bind((address, 0)).is_ok();
    [LOCAL, LOCAL6].into_iter().filter(has).collect()
}

/// A client on this host: sends all, then reads to the end.
fn client(port: u16, data: Vec<u8>) -> std::thread::JoinHandle<std::io::Result<Vec<u8>>> {
    client_of(LOCAL, port, data)
}

fn client_of(
    address: IpAddr,
    port: u16,
    data: Vec<u8>,
) -> std::thread::JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect((address, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut writer = stream.try_clone()?;
        let writing = std::thread::spawn(move || {
            writer.write_all(&data)?;
            writer.shutdown(std::net::Shutdown::Write)
        });
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        writing.join().expect("writes do not panic")?;
        Ok(answer)
    })
}

#[test]
fn the_gateway_is_the_loopback_of_this_host() {
    for address in families() {
        let mut chip = Chip::start();
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 5];
            stream.read_exact(&mut asked).unwrap();
            stream.write_all(&pattern(1 << 20)).unwrap();
            asked
        });
        let gateway = if address.is_ipv4() { GATEWAY.into() } else { GATEWAY6.into() };
        let tcp = chip.connect(gateway, port);
        chip.send(tcp, b"hello");
        let answer = chip.read_to_end(tcp);
        assert_eq!(server.join().unwrap(), *b"hello");
        assert!(answer == pattern(1 << 20), "{} bytes of another text", answer.len());
    }
}

#[test]
fn a_port_where_nothing_listens_refuses() {
    let mut chip = Chip::start();
    let tcp = chip.connect(GATEWAY.into(), free_port());
    assert!(chip.is_refused(tcp));
}

#[test]
fn a_published_port_is_the_chips_until_it_is_removed() {
    for address in families() {
        publish_and_remove(address);
    }
}

fn publish_and_remove(address: IpAddr) {
    let mut chip = Chip::start();
    let port = free_port();
    let text = match address {
        LOCAL => format!("{port}:80"),
        other => format!("[{other}]:{port}:80"),
    };
    let published = add(&chip, text.clone()).unwrap();
    assert_eq!(published, [forward(format!("{}:80", SocketAddr::new(address, port)))]);
    // The chip has not sent a frame yet: the gateway asks for its address.
    for bytes in [1, 300_000] {
        let tcp = chip.listen(80);
        let client = client_of(address, port, pattern(bytes));
        chip.echo(tcp);
        assert!(client.join().unwrap().unwrap() == pattern(bytes));
    }
    assert_eq!(remove(&chip, text).unwrap(), []);
    assert!(TcpStream::connect((address, port)).is_err());
}

#[test]
fn many_clients_connect_at_once() {
    let mut chip = Chip::start();
    let port = free_port();
    add(&chip, format!("{port}:80")).unwrap();
    let sockets: Vec<_> = (0..40).map(|_| chip.listen(80)).collect();
    let clients: Vec<_> = (0..40).map(|i| client(port, pattern(100 + i))).collect();
    sockets.into_iter().for_each(|socket| chip.echo(socket));
    for (i, client) in clients.into_iter().enumerate() {
        assert!(client.join().unwrap().unwrap() == pattern(100 + i));
    }
}

#[test]
fn datagrams_are_published_too() {
    for address in families() {
        let mut chip = Chip::start();
        let port = free_port();
        add(&chip, format!("{}:53/udp", SocketAddr::new(address, port))).unwrap();
        let client = UdpSocket::bind((address, 0)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect((address, port)).unwrap();
        let udp = chip.udp(53);
        client.send(b"name?").unwrap();
        chip.echo_datagram(udp);
        let mut answer = [0; 10];
        let length = client.recv(&mut answer).unwrap();
        assert_eq!(&answer[..length], b"name?");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let chip = Chip::start();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let refusal = |result: Result<Vec<Forward>, AskError>| result.unwrap_err().to_string();
    let text = refusal(add(&chip, format!("{port}:80")));
    assert!(text.contains(&format!("another program uses port {port}")), "{text}");
    let port = free_port();
    add(&chip, format!("{port}:80")).unwrap();
    let text = refusal(add(&chip, format!("0.0.0.0:{port}:81")));
    assert!(text.contains("publishes") && text.contains("already"), "{text}");
    let text = refusal(remove(&chip, format!("{port}:81")));
    assert!(text.contains("is not published"), "{text}");
    let text = refusal(add(&chip, format!("192.0.2.77:{port}:80")));
    assert!(text.contains("does not have the address"), "{text}");
    assert_eq!(ask(&socket(&chip), &Request::List {}).unwrap().len(), 1);
}

#[test]
fn nonsense_disturbs_nobody() {
    let mut chip = Chip::start();
    let connect = || std::os::unix::net::UnixStream::connect(socket(&chip)).unwrap();
    let mut asker = connect();
    asker.write_all(b"{\"op\":\"add\",\"forward\":\"99999:1\"}\n").unwrap();
    let mut answer = [0; 12];
    asker.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"{\"ok\":false,");
    let mut endless = connect();
    // It is disconnected at some point.
    while endless.write_all(&[b'x'; 1000]).is_ok() {}
    for length in [0, 14, 60, 1514] {
        chip.frame(&vec![0xff; length]);
        chip.frame(&vec![0x45; length]);
    }
    // The gateway detaches from this soc, and attaches again.
    chip.bytes(&[0xff; 8]);
    chip.reattach();
    let port = free_port();
    add(&chip, format!("{port}:80")).unwrap();
    let tcp = chip.listen(80);
    let client = client(port, b"still here".to_vec());
    chip.echo(tcp);
    assert_eq!(client.join().unwrap().unwrap(), b"still here");
}

#[test]
fn the_next_gateway_publishes_the_same_ports() {
    let mut chip = Chip::start();
    let (port, other) = (free_port(), free_port());
    add(&chip, format!("{port}:80")).unwrap();
    add(&chip, format!("{other}:81")).unwrap();
    chip.kill();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, other)).unwrap();
    chip.start_gateway();
    let published = ask(&socket(&chip), &Request::List {}).unwrap();
    assert_eq!(published, [forward(format!("{port}:80"))]);
    drop(taken);
    let tcp = chip.listen(80);
    let client = client(port, b"again".to_vec());
    chip.echo(tcp);
    assert_eq!(client.join().unwrap().unwrap(), b"again");
}

#[test]
fn a_chip_that_does_not_read_loses_nothing() {
    let mut chip = Chip::start();
    let port = free_port();
    add(&chip, format!("{port}:80")).unwrap();
    let tcp = chip.listen(80);
    let data = pattern(2 << 20);
    let client = client(port, data.clone());
    chip.establish(tcp);
    std::thread::sleep(Duration::from_millis(300));
    chip.echo(tcp);
    assert!(client.join().unwrap().unwrap() == data);
    assert_eq!(SocketAddrV4::new(CHIP, 80).to_string(), "10.0.2.15:80");
}
