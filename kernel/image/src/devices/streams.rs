//! Streams with the host: the vsock device, and the threads that read and write.
//!
//! Whoever waits moves packets itself: each look takes what came and sends what can go.

use super::{Slot, bus};
use crate::node::Node;
use abi::boot::Device;
use abi::host::PORT;
use abi::vsock::DATA;
use drivers::streams::{Id, Read, Streams};
use drivers::transport::InitError;
use drivers::vsock::Vsock;

/// Why a stream carries no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The driver, what it carries, and a packet on its way.
pub struct Link {
    vsock: Vsock,
    streams: Streams,
    packet: [u8; DATA],
}

impl Link {
    fn pump(&mut self, node: &'static Node) {
        let bus = bus(node);
        while let Some((header, bytes)) = self.vsock.receive(&bus, &mut self.packet) {
            self.streams.received(&header, &self.packet[..bytes]);
        }
        while self.vsock.has_room(&bus) {
            let Some((header, bytes)) = self.streams.next(&mut self.packet) else { return };
            self.vsock.send(&bus, &header, &self.packet[..bytes]);
        }
    }
}

impl Slot<Link> {
    pub(super) fn start(&self, node: &'static Node, found: &Device) -> Result<(), InitError> {
        let vsock = Vsock::start(&bus(node), found)?;
        let link = Link { vsock, streams: Streams::new(PORT), packet: [0; DATA] };
        *self.driver.lock() = Some(link);
        Ok(())
    }

    /// Is the device ours?
    pub fn is_there(&self) -> bool {
        self.driver.lock().is_some()
    }

    /// Waits until `look` finds something.
    fn until<T>(
        &self,
        node: &'static Node,
        mut look: impl FnMut(&mut Streams) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        node.scheduler.wait(&self.waiting, || {
            let mut driver = self.driver.lock();
            let Some(link) = &mut *driver else { return true };
            link.pump(node);
            found = look(&mut link.streams);
            // What it read made room, what it wrote may go.
            link.pump(node);
            found.is_some()
        });
        found
    }

    /// The next stream that the host begins.
    pub fn accept(&self, node: &'static Node) -> Option<Id> {
        self.until(node, Streams::accept)
    }

    /// Bytes of a stream; 0: there are no more.
    pub fn read(&self, node: &'static Node, id: Id, into: &mut [u8]) -> usize {
        let read = self.until(node, |streams| match streams.read(id, into) {
            Read::Bytes(bytes) => Some(bytes),
            Read::End => Some(0),
            Read::Wait => None,
        });
        read.unwrap_or(0)
    }

    /// Fills `into`, or there are not so many bytes.
    pub fn read_exact(&self, node: &'static Node, id: Id, mut into: &mut [u8]) -> Result<(), Gone> {
        while !into.is_empty() {
            match self.read(node, id, into) {
                0 => return Err(Gone),
                bytes => into = &mut into[bytes..],
            }
        }
        Ok(())
    }

    /// Sends all of `from`.
    pub fn write(&self, node: &'static Node, id: Id, mut from: &[u8]) -> Result<(), Gone> {
        while !from.is_empty() {
            let taken = self.until(node, |streams| match streams.write(id, from) {
                Some(0) => None,
                Some(bytes) => Some(Ok(bytes)),
                None => Some(Err(Gone)),
            });
            from = &from[taken.unwrap_or(Err(Gone))?..];
        }
        Ok(())
    }

    /// Done with it.
    pub fn close(&self, node: &'static Node, id: Id) {
        if let Some(link) = &mut *self.driver.lock() {
            link.streams.close(id);
            link.pump(node);
        }
        // Another thread may be reading it.
        self.waiting.wake_all(&node.scheduler);
    }
}
