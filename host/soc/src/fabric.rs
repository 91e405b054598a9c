//! The doorbell fabric: an ivshmem server with fixed slots, and the soc's own doorbells.
//!
//! Each domain's QEMU connects to a socket of its own. The eventfds of all peers are created once
//! and live as long as the board. No QEMU is notified that a peer came or went, because QEMU's
//! handling of a disconnect is a use after free; and the handshake names the peers before the
//! shared page, because QEMU otherwise loses rings that arrive while it starts. See PLATFORM.md,
//! traps 3 and 4.

use crate::config::REQUEST_KICK;
use crate::gate::Gate;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{ReadWriteFlags, preadv2};
use std::io::{ErrorKind, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// Protocol version of QEMU's ivshmem devices.
const PROTOCOL: i64 = 0;
/// Message that announces the shared page.
const SHARED_PAGE: i64 = -1;
/// A client that does not accept its handshake within this time is disconnected.
const HANDSHAKE: Duration = Duration::from_secs(1);
/// Pause after a failed handshake.
const RETRY: Duration = Duration::from_millis(100);

/// A doorbell: rings are edges and coalesce.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// Creates a doorbell without pending rings.
    pub fn new() -> std::io::Result<Doorbell> {
        Ok(Doorbell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Rings it. If the counter is full, a ring is already pending, so errors are ignored.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Clears pending rings. Returns whether there was one.
    ///
    /// It never waits, whatever the file's own flag says: a QEMU that receives a doorbell makes it
    /// a blocking one for a moment, for all that have it. Needs Linux 5.8.
    pub fn take(&self) -> bool {
        let (mut count, here) = ([0u8; 8], u64::MAX);
        preadv2(&self.0, &mut [IoSliceMut::new(&mut count)], here, ReadWriteFlags::NOWAIT).is_ok()
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

/// Which doorbells of the soc end the rest of the domain in a slot.
#[derive(Debug, Default)]
struct Rest {
    /// One bit each; 0: the domain does not rest.
    vectors: AtomicU64,
    /// One of them was rung.
    is_rung: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    soc_slot: usize,
    peers: Vec<Vec<Doorbell>>,
    rests: Vec<Rest>,
    page: OwnedFd,
    gate: Gate,
}

impl Fabric {
    /// Creates a fabric of `peers` slots (the soc included) with `vectors` doorbells each.
    pub fn new(
        peers: usize,
        vectors: usize,
        soc_slot: usize,
        page_size: u64,
        gate: Gate,
    ) -> std::io::Result<Fabric> {
        let rests = (0..peers).map(|_| Rest::default()).collect();
        let page = memfd_create("penumbra-doorbells", MemfdFlags::CLOEXEC)?;
        ftruncate(&page, page_size)?;
        let peers = (0..peers)
            .map(|_| (0..vectors).map(|_| Doorbell::new()).collect())
            .collect::<std::io::Result<_>>()?;
        Ok(Fabric { inner: Arc::new(Inner { soc_slot, peers, rests, page, gate }) })
    }

    /// Returns the soc's own doorbell `vector`.
    pub fn own(&self, vector: usize) -> Option<&Doorbell> {
        self.inner.peers.get(self.inner.soc_slot)?.get(vector)
    }

    /// Rings `vector` at the peer in `slot`; without such a peer the ring is lost, as on the chip.
    pub fn ring(&self, slot: usize, vector: usize) {
        self.end_rest(slot, vector);
        if self.inner.gate.ring(slot, vector) {
            return;
        }
        if let Some(doorbell) = self.inner.peers.get(slot).and_then(|peer| peer.get(vector)) {
            doorbell.ring();
        }
    }

    /// Sets which doorbells of the soc end the rest of the domain in `slot`, one bit each. A device
    /// rings after it has written what the domain looks at after this call.
    pub fn listen(&self, slot: usize, vectors: u64) {
        if let Some(rest) = self.inner.rests.get(slot) {
            rest.vectors.store(vectors, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    /// Returns whether one of them was rung since the last call.
    pub fn was_rung(&self, slot: usize) -> bool {
        self.inner.rests.get(slot).is_some_and(|rest| rest.is_rung.swap(false, Ordering::SeqCst))
    }

    /// Tells the supervisor if this ring ends a rest.
    fn end_rest(&self, slot: usize, vector: usize) {
        fence(Ordering::SeqCst);
        let Some(rest) = self.inner.rests.get(slot) else { return };
        if vector < 64 && rest.vectors.load(Ordering::SeqCst) >> vector & 1 != 0 {
            rest.is_rung.store(true, Ordering::SeqCst);
            self.inner.gate.expect(usize::from(REQUEST_KICK));
            if let Some(own) = self.own(usize::from(REQUEST_KICK)) {
                own.ring();
            }
        }
    }

    /// Returns the gate, which decides when the soc may act.
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Rings `vector` at every domain: interrupts are wired to all of them.
    pub fn ring_all(&self, vector: usize) {
        for slot in (0..self.inner.peers.len()).filter(|&slot| slot != self.inner.soc_slot) {
            self.ring(slot, vector);
        }
    }

    /// Clears pending rings of a peer.
    pub fn drain(&self, slot: usize) {
        if let Some(peer) = self.inner.peers.get(slot) {
            peer.iter().for_each(|doorbell| {
                doorbell.take();
            });
        }
    }

    /// Clears a domain's doorbell. Returns whether it was rung.
    #[cfg(test)]
    pub fn take_for_test(&self, slot: usize, vector: usize) -> bool {
        self.inner.peers[slot][vector].take()
    }

    /// Sends the QEMU in `slot` the doorbells of all peers, in the order that loses no ring.
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

/// Sends a message: 8 bytes, little endian, with or without a file descriptor.
fn send(stream: &UnixStream, value: i64, fd: Option<RawFd>) -> std::io::Result<()> {
    let bytes = value.to_le_bytes();
    let sent = stream
        .send_with_fds(&[&bytes[..]], fd.as_slice())
        .map_err(|e| std::io::Error::from_raw_os_error(e.errno()))?;
    if sent == bytes.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

/// The socket of a domain's slot. The connection is kept open, as QEMU expects.
#[derive(Debug)]
pub struct Slot {
    number: usize,
    listener: UnixListener,
    connection: Option<UnixStream>,
}

impl Slot {
    /// Listens; must be called before the QEMU starts.
    pub fn listen(number: usize, path: &Path) -> std::io::Result<Slot> {
        let listener = listen(path)?;
        listener.set_nonblocking(false)?;
        Ok(Slot { number, listener, connection: None })
    }

    /// Serves every QEMU that connects, in a thread of its own. A QEMU that starts waits for its
    /// doorbells, and in the lab all others, the soc included, may be waiting for that QEMU's turn.
    pub fn serve(mut self, fabric: Fabric) -> std::io::Result<()> {
        let server = std::thread::Builder::new().name(format!("slot {}", self.number));
        server.spawn(move || {
            loop {
                if let Err(e) = self.accept(&fabric) {
                    log::error!("The doorbells of slot {} are not handed over: {e}.", self.number);
                    std::thread::sleep(RETRY);
                }
            }
        })?;
        Ok(())
    }

    /// Serves the next QEMU; the previous one has ended.
    fn accept(&mut self, fabric: &Fabric) -> std::io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        fabric.welcome(self.number, &stream)?;
        self.connection = Some(stream);
        Ok(())
    }
}

/// Creates a non-blocking listening socket, replacing an existing file.
pub fn listen(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    #[test]
    fn a_doorbell_that_a_qemu_has_made_a_blocking_one_is_not_waited_for() {
        let doorbell = Doorbell::new().unwrap();
        fcntl_setfl(&doorbell.0, OFlags::empty()).unwrap();
        assert!(!doorbell.take(), "it was not rung");
        doorbell.ring();
        doorbell.ring();
        assert!(doorbell.take() && !doorbell.take(), "both rings are one");
    }
}
