//! Sockets: streams ([`TcpListener`], [`TcpStream`]) and datagrams ([`UdpSocket`]).
//!
//! A socket is of the family of its address. One that is bound to `[::]` hears IPv4 as well, and
//! has peers such as `[::ffff:10.0.2.2]:80` then. What can be reached is up to the board and the
//! program's manifest. With the feature `std`, streams implement
//! `std::io::Read` and `std::io::Write`.
//!
//! ```ignore
//! let listener = penumbra::net::TcpListener::bind("[::]:7".parse::<SocketAddr>()?)?;
//! let (stream, peer) = listener.accept()?;
//! ```

use crate::layout::{INET, INET6, SocketAddress, option, shut};
use crate::{Errno, File, ffi};
use core::net::{IpAddr, SocketAddr, SocketAddrV6};

/// Connections that may wait at a listener.
const BACKLOG: u32 = 128;
/// Kinds of sockets: WASI's file types.
const DATAGRAMS: u32 = 5;
const STREAM: u32 = 6;
/// Flag of receiving: leave the data.
const PEEK: u32 = 1;

impl From<SocketAddr> for SocketAddress {
    fn from(from: SocketAddr) -> SocketAddress {
        let (mut address, port) = ([0; 16], from.port());
        let family = match from.ip() {
            IpAddr::V4(ip) => {
                address[..4].copy_from_slice(&ip.octets());
                INET
            }
            IpAddr::V6(ip) => {
                address = ip.octets();
                INET6
            }
        };
        SocketAddress { family, port, flow: 0, address, scope: 0 }
    }
}

impl From<SocketAddress> for SocketAddr {
    fn from(from: SocketAddress) -> SocketAddr {
        let [a, b, c, d, ..] = from.address;
        let ip = match from.family {
            INET6 => IpAddr::from(from.address),
            _ => IpAddr::from([a, b, c, d]),
        };
        SocketAddr::new(ip, from.port)
    }
}

/// Which directions of a stream to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Receiving.
    Read,
    /// Sending: the peer reads to the end.
    Write,
    /// Both.
    Both,
}

/// A socket of any kind. Dropping it closes it.
#[derive(Debug)]
struct Socket(File);

impl Socket {
    /// Creates a socket of the family of `address`.
    fn new(kind: u32, address: &SocketAddress) -> Result<Socket, Errno> {
        ffi::socket(address.family.into(), kind).map(|number| Socket(File::adopt(number)))
    }

    fn number(&self) -> u32 {
        self.0.number()
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        ffi::local_address(self.number()).map(SocketAddr::from)
    }

    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        ffi::peer_address(self.number()).map(SocketAddr::from)
    }

    fn take_error(&self) -> Result<Option<Errno>, Errno> {
        let number = ffi::get_option(self.number(), option::ERROR)?;
        Ok(Errno::from_number(number as u16))
    }

    fn try_clone(&self) -> Result<Socket, Errno> {
        self.0.duplicate().map(Socket)
    }
}

/// Accepts connections at a port.
#[derive(Debug)]
pub struct TcpListener(Socket);

impl TcpListener {
    /// Listens at an address of this chip; port 0: any.
    pub fn bind(address: impl Into<SocketAddr>) -> Result<TcpListener, Errno> {
        TcpListener::listen(address.into(), false)
    }

    /// The same of IPv6 alone: another listener can have the port of IPv4.
    pub fn bind_v6_only(address: SocketAddrV6) -> Result<TcpListener, Errno> {
        TcpListener::listen(address.into(), true)
    }

    fn listen(address: SocketAddr, v6_only: bool) -> Result<TcpListener, Errno> {
        let address = address.into();
        let socket = Socket::new(STREAM, &address)?;
        if v6_only {
            ffi::set_option(socket.number(), option::V6ONLY, 1)?;
        }
        ffi::bind(socket.number(), &address)?;
        ffi::listen(socket.number(), BACKLOG)?;
        Ok(TcpListener(socket))
    }

    /// Takes ownership of a listener that the program was started with.
    pub const fn adopt(number: u32) -> TcpListener {
        TcpListener(Socket(File::adopt(number)))
    }

    /// Waits for a connection. Returns it, and the address of its peer.
    pub fn accept(&self) -> Result<(TcpStream, SocketAddr), Errno> {
        let (number, peer) = ffi::accept(self.0.number())?;
        Ok((TcpStream(Socket(File::adopt(number))), peer.into()))
    }

    /// Returns its address.
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.0.local_addr()
    }

    /// With `on`, [`TcpListener::accept`] fails with [`Errno::AGAIN`] instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Errno> {
        self.file().set_nonblocking(on)
    }

    /// Returns its descriptor, for [`crate::ready::wait`].
    pub fn file(&self) -> &File {
        &self.0.0
    }
}

/// A connection.
#[derive(Debug)]
pub struct TcpStream(Socket);

impl TcpStream {
    /// Connects to a listener.
    pub fn connect(address: impl Into<SocketAddr>) -> Result<TcpStream, Errno> {
        let address = address.into().into();
        let socket = Socket::new(STREAM, &address)?;
        ffi::connect(socket.number(), &address)?;
        Ok(TcpStream(socket))
    }

    /// Connects once something listens there. Looks for that at intervals, for about so many ns;
    /// then it fails with [`Errno::CONNREFUSED`].
    pub fn connect_when_listening(
        address: impl Into<SocketAddr>,
        within: u64,
    ) -> Result<TcpStream, Errno> {
        const INTERVAL: u64 = 5_000_000;
        let (address, mut left) = (address.into(), within);
        loop {
            match TcpStream::connect(address) {
                Err(Errno::CONNREFUSED) if left > 0 => crate::ready::sleep(INTERVAL.min(left))?,
                connected => return connected,
            }
            left -= INTERVAL.min(left);
        }
    }

    /// Takes ownership of a connection that the program was started with.
    pub const fn adopt(number: u32) -> TcpStream {
        TcpStream(Socket(File::adopt(number)))
    }

    /// Receives what has arrived, or waits for it. Returns 0 at the end of the stream.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.file().read(into)
    }

    /// Fills the buffer. Fails with [`Errno::IO`] if the stream ends before.
    pub fn read_exact(&self, into: &mut [u8]) -> Result<(), Errno> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read(&mut into[filled..])? {
                0 => return Err(Errno::IO),
                some => filled += some,
            }
        }
        Ok(())
    }

    /// As [`TcpStream::read`], and leaves what has arrived in the socket.
    pub fn peek(&self, into: &mut [u8]) -> Result<usize, Errno> {
        ffi::receive(self.0.number(), into, PEEK).map(|(some, _)| some)
    }

    /// Sends bytes. Waits until all are sent, unless it must not wait. Returns how many.
    pub fn write(&self, data: &[u8]) -> Result<usize, Errno> {
        self.file().write(data)
    }

    /// Sends all bytes.
    pub fn write_all(&self, data: &[u8]) -> Result<(), Errno> {
        let mut sent = 0;
        while sent < data.len() {
            sent += self.write(&data[sent..])?;
        }
        Ok(())
    }

    /// Closes directions.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), Errno> {
        let how = match how {
            Shutdown::Read => shut::READ,
            Shutdown::Write => shut::WRITE,
            Shutdown::Both => shut::READ | shut::WRITE,
        };
        ffi::shutdown(self.0.number(), how)
    }

    /// Returns the address of this end.
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.0.local_addr()
    }

    /// Returns the address of the other end.
    pub fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        self.0.peer_addr()
    }

    /// Small pieces are sent at once in any case; the option is kept.
    pub fn set_nodelay(&self, on: bool) -> Result<(), Errno> {
        ffi::set_option(self.0.number(), option::NODELAY, on.into())
    }

    /// Returns an error of the connection that no call has returned yet.
    pub fn take_error(&self) -> Result<Option<Errno>, Errno> {
        self.0.take_error()
    }

    /// Returns a second descriptor of the same connection.
    pub fn try_clone(&self) -> Result<TcpStream, Errno> {
        self.0.try_clone().map(TcpStream)
    }

    /// With `on`, reads and writes fail with [`Errno::AGAIN`] instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Errno> {
        self.file().set_nonblocking(on)
    }

    /// Returns its descriptor, for [`crate::ready::wait`].
    pub fn file(&self) -> &File {
        &self.0.0
    }
}

#[cfg(feature = "std")]
mod io {
    use super::TcpStream;
    use crate::Errno;
    use std::io::{Error, Read, Result, Write};

    fn error(errno: Errno) -> Error {
        Error::from_raw_os_error(errno.number().into())
    }

    impl Read for &TcpStream {
        fn read(&mut self, into: &mut [u8]) -> Result<usize> {
            TcpStream::read(self, into).map_err(error)
        }
    }

    impl Write for &TcpStream {
        fn write(&mut self, data: &[u8]) -> Result<usize> {
            TcpStream::write(self, data).map_err(error)
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    impl Read for TcpStream {
        fn read(&mut self, into: &mut [u8]) -> Result<usize> {
            Read::read(&mut &*self, into)
        }
    }

    impl Write for TcpStream {
        fn write(&mut self, data: &[u8]) -> Result<usize> {
            Write::write(&mut &*self, data)
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }
}

/// A socket for datagrams of at most 1,472 bytes.
#[derive(Debug)]
pub struct UdpSocket(Socket);

impl UdpSocket {
    /// Creates a socket at an address of this chip; port 0: any.
    pub fn bind(address: impl Into<SocketAddr>) -> Result<UdpSocket, Errno> {
        let address = address.into().into();
        let socket = Socket::new(DATAGRAMS, &address)?;
        ffi::bind(socket.number(), &address)?;
        Ok(UdpSocket(socket))
    }

    /// Sends one datagram.
    pub fn send_to(&self, data: &[u8], to: impl Into<SocketAddr>) -> Result<usize, Errno> {
        ffi::send(self.0.number(), data, Some(&to.into().into()))
    }

    /// Waits for a datagram. Returns how many bytes of it are in `into`, and where it came from.
    pub fn recv_from(&self, into: &mut [u8]) -> Result<(usize, SocketAddr), Errno> {
        self.receive(into, 0)
    }

    /// As [`UdpSocket::recv_from`], and leaves the datagram in the socket.
    pub fn peek_from(&self, into: &mut [u8]) -> Result<(usize, SocketAddr), Errno> {
        self.receive(into, PEEK)
    }

    fn receive(&self, into: &mut [u8], flags: u32) -> Result<(usize, SocketAddr), Errno> {
        let (some, from) = ffi::receive(self.0.number(), into, flags)?;
        Ok((some, from.into()))
    }

    /// Sets the only peer.
    pub fn connect(&self, address: impl Into<SocketAddr>) -> Result<(), Errno> {
        ffi::connect(self.0.number(), &address.into().into())
    }

    /// Sends one datagram to the peer.
    pub fn send(&self, data: &[u8]) -> Result<usize, Errno> {
        ffi::send(self.0.number(), data, None)
    }

    /// Waits for a datagram of the peer. Returns how many bytes of it are in `into`.
    pub fn recv(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.recv_from(into).map(|(some, _)| some)
    }

    /// As [`UdpSocket::recv`], and leaves the datagram in the socket.
    pub fn peek(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.peek_from(into).map(|(some, _)| some)
    }

    /// Returns a second descriptor of the same socket.
    pub fn try_clone(&self) -> Result<UdpSocket, Errno> {
        self.0.try_clone().map(UdpSocket)
    }

    /// Returns its address.
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.0.local_addr()
    }

    /// With `on`, calls fail with [`Errno::AGAIN`] instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Errno> {
        self.file().set_nonblocking(on)
    }

    /// Returns its descriptor, for [`crate::ready::wait`].
    pub fn file(&self) -> &File {
        &self.0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_bytes() {
        let address: SocketAddr = "127.1.2.3:4660".parse().unwrap();
        let raw = SocketAddress::from(address);
        assert_eq!((raw.family, raw.port, &raw.address[..5]), (1, 0x1234, &[127, 1, 2, 3, 0][..]));
        assert_eq!(SocketAddr::from(raw), address);
        let address: SocketAddr = "[fec0::ff02]:7".parse().unwrap();
        let raw = SocketAddress::from(address);
        assert_eq!((raw.family, raw.port, &raw.address[14..]), (2, 7, &[0xff, 2][..]));
        assert_eq!(SocketAddr::from(raw), address);
    }

    #[test]
    fn elsewhere_there_are_no_sockets() {
        let address: SocketAddr = "127.0.0.1:7".parse().unwrap();
        assert_eq!(TcpListener::bind(address).err(), Some(Errno::NOSYS));
        assert_eq!(TcpStream::connect(address).err(), Some(Errno::NOSYS));
        assert_eq!(UdpSocket::bind(address).err(), Some(Errno::NOSYS));
    }
}
