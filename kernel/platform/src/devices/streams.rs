//! Streams to and from the host, over the vsock device.
//!
//! There is no thread for the device: a thread that waits for a stream polls the device for all
//! streams. Each poll receives the packets that have arrived and sends what can be sent.

use super::{Slot, bus};
use abi::boot::Device;
use abi::host::PORT;
use abi::vsock::DATA;
use drivers::streams::{Id, Read, Streams};
use drivers::transport::InitError;
use drivers::vsock::Vsock;
use kernel_node::Node;

/// The stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The driver, the streams, and a buffer for one packet.
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

    /// Returns whether this kernel drives the device.
    pub fn is_there(&self) -> bool {
        self.driver.lock().is_some()
    }

    /// Returns whether the device has something for this kernel.
    pub(super) fn has_news(&self, node: &'static Node) -> bool {
        self.driver.lock().as_mut().is_some_and(|link| link.vsock.has_news(&bus(node)))
    }

    /// Polls and waits until `look` finds something. Returns `None` without the device.
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
            // `look` may have made room by reading, or added data by writing.
            link.pump(node);
            found.is_some()
        });
        found
    }

    /// Waits for the next stream that the host opens.
    pub fn accept(&self, node: &'static Node) -> Option<Id> {
        self.until(node, Streams::accept)
    }

    /// Waits for bytes of a stream and reads them. Returns their number; 0 at the end.
    pub fn read(&self, node: &'static Node, id: Id, into: &mut [u8]) -> usize {
        let read = self.until(node, |streams| match streams.read(id, into) {
            Read::Bytes(bytes) => Some(bytes),
            Read::End => Some(0),
            Read::Wait => None,
        });
        read.unwrap_or(0)
    }

    /// Fills `into`, or fails if the stream ends first.
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

    /// Closes a stream.
    pub fn close(&self, node: &'static Node, id: Id) {
        if let Some(link) = &mut *self.driver.lock() {
            link.streams.close(id);
            link.pump(node);
        }
        // Another thread may be waiting for it.
        self.waiting.wake_all(&node.scheduler);
    }
}
