//! The doorbell fabric: an ivshmem server with fixed slots, and the soc's own doorbells.
//!
//! Each domain's QEMU connects to a socket of its own. The eventfds of all peers are made once and
//! live as long as the board; nobody is ever told that a peer came or went (QEMU's handling of a
//! disconnect is a use after free), and the handshake names the peers before the shared page
//! (otherwise QEMU loses rings that arrive while it starts). See PLATFORM.md, traps 3 and 4.

use crate::gate::Gate;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// The protocol of QEMU's ivshmem devices.
const PROTOCOL: i64 = 0;
/// Announces the shared page.
const SHARED_PAGE: i64 = -1;
/// A QEMU that does not take its handshake in this time is not one.
const HANDSHAKE: Duration = Duration::from_secs(1);

/// One doorbell: rings are edges and coalesce.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A doorbell that was not rung.
    pub fn new() -> std::io::Result<Doorbell> {
        Ok(Doorbell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Rings it. A full counter is rung already, so nothing can fail that matters.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes the rings so far: was it rung?
    pub fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// All doorbells of the chip. Clones share them.
#[derive(Clone, Debug)]
pub struct Fabric {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    soc_slot: usize,
    peers: Vec<Vec<Doorbell>>,
    page: OwnedFd,
    gate: Gate,
}

impl Fabric {
    /// A fabric of `peers` slots (the soc included) with `vectors` doorbells each.
    pub fn new(
        peers: usize,
        vectors: usize,
        soc_slot: usize,
        page_size: u64,
        gate: Gate,
    ) -> std::io::Result<Fabric> {
        let page = memfd_create("penumbra-doorbells", MemfdFlags::CLOEXEC)?;
        ftruncate(&page, page_size)?;
        let peers = (0..peers)
            .map(|_| (0..vectors).map(|_| Doorbell::new()).collect())
            .collect::<std::io::Result<_>>()?;
        Ok(Fabric { inner: Arc::new(Inner { soc_slot, peers, page, gate }) })
    }

    /// The soc's own doorbell `vector`.
    pub fn own(&self, vector: usize) -> Option<&Doorbell> {
        self.inner.peers.get(self.inner.soc_slot)?.get(vector)
    }

    /// Rings `vector` at the peer in `slot`; a ring for nobody is lost, as on the chip.
    pub fn ring(&self, slot: usize, vector: usize) {
        if self.inner.gate.ring(slot, vector) {
            return;
        }
        if let Some(doorbell) = self.inner.peers.get(slot).and_then(|peer| peer.get(vector)) {
            doorbell.ring();
        }
    }

    /// When the soc may act.
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Rings `vector` at every domain: interrupts are wired to all of them.
    pub fn ring_all(&self, vector: usize) {
        for slot in (0..self.inner.peers.len()).filter(|&slot| slot != self.inner.soc_slot) {
            self.ring(slot, vector);
        }
    }

    /// Forgets rings that nobody took.
    pub fn drain(&self, slot: usize) {
        if let Some(peer) = self.inner.peers.get(slot) {
            peer.iter().for_each(|doorbell| {
                doorbell.take();
            });
        }
    }

    /// Was a domain's doorbell rung since the last time?
    #[cfg(test)]
    pub fn take_for_test(&self, slot: usize, vector: usize) -> bool {
        self.inner.peers[slot][vector].take()
    }

    /// Tells the QEMU in `slot` about everybody, in the order that loses no ring.
    pub fn welcome(&self, slot: usize, stream: &UnixStream) -> std::io::Result<()> {
        self.drain(slot);
        stream.set_write_timeout(Some(HANDSHAKE))?;
        send(stream, PROTOCOL, None)?;
        send(stream, slot as i64, None)?;
        for peer in (0..self.inner.peers.len()).filter(|&peer| peer != slot) {
            self.introduce(stream, peer)?;
        }
        send(stream, SHARED_PAGE, Some(self.inner.page.as_raw_fd()))?;
        self.introduce(stream, slot)
    }

    fn introduce(&self, stream: &UnixStream, peer: usize) -> std::io::Result<()> {
        let Some(doorbells) = self.inner.peers.get(peer) else { return Ok(()) };
        doorbells.iter().try_for_each(|d| send(stream, peer as i64, Some(d.0.as_raw_fd())))
    }
}

/// A message is 8 bytes, little endian, with or without a file descriptor.
fn send(stream: &UnixStream, value: i64, fd: Option<RawFd>) -> std::io::Result<()> {
    let bytes = value.to_le_bytes();
    let sent = stream
        .send_with_fds(&[&bytes[..]], fd.as_slice())
        .map_err(|e| std::io::Error::from_raw_os_error(e.errno()))?;
    if sent == bytes.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

/// The socket of one domain's slot. The connection is kept open, as QEMU expects.
#[derive(Debug)]
pub struct Slot {
    number: usize,
    listener: UnixListener,
    connection: Option<UnixStream>,
}

impl Slot {
    /// Listens; to be done before its QEMU starts.
    pub fn listen(number: usize, path: &Path) -> std::io::Result<Slot> {
        let listener = listen(path)?;
        Ok(Slot { number, listener, connection: None })
    }

    /// What becomes readable when a QEMU connects.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Serves a QEMU that connects; the one before it is gone.
    pub fn accept(&mut self, fabric: &Fabric) -> std::io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e),
        };
        stream.set_nonblocking(false)?;
        fabric.welcome(self.number, &stream)?;
        self.connection = Some(stream);
        Ok(())
    }
}

/// A listening socket that does not block, in place of whatever was there.
pub fn listen(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
