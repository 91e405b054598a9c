//! virtio-net: Ethernet between a driver and a network, which is attached by a unix socket. In the
//! lab it is a scripted peer, which lives here and acts at times of the chip.
//!
//! ```text
//!   driver --TRANSMIT--> Net --[length][frame]--> socket
//!   driver <--RECEIVE--- Net <--[length][frame]-- socket    (gateway, passt, QEMU)
//!                         \------- frames ------> peer      (a script, in the lab)
//! ```
//! Without a network, frames are dropped and LINK_UP is off; the device then does nothing that the
//! driver has not asked for, so an exact run stays exact. Both queues hold back instead of
//! dropping: when the driver offers no buffers the socket is not read, and when the network does
//! not read, TRANSMIT waits. Nothing that either side sends is trusted.

mod link;
mod pcap;
pub mod peer;

use self::link::Link;
use self::pcap::Capture;
use self::peer::Peer;
use super::{Chain, Fault, Model, Moved, read_chain};
use crate::config;
use crate::gate::Gate;
use crate::memory::Ram;
use abi::ethernet::{
    Addresses, Config, DEVICE_ID, FEATURES, FRAME, FRAME_HEADER, HEADER, HEADER_BUFFERS, LINK_UP,
    MTU, RECEIVE, TRANSMIT,
};
use rustix::event::PollFlags;
use std::io::Write;
use std::os::fd::BorrowedFd;
use zerocopy::IntoBytes;

/// What is at the other end of the cable.
trait Attachment: std::fmt::Debug + Send {
    /// Returns whether a network is there.
    fn is_up(&self) -> bool;
    /// Returns whether it sends and takes frames at the host's times.
    fn is_outside(&self) -> bool {
        false
    }
    /// Returns whether a frame waits for the driver.
    fn has_next(&self) -> bool;
    /// Takes the next frame for the driver.
    fn next(&mut self) -> Option<Vec<u8>>;
    /// Returns whether another frame may be sent.
    fn has_room(&self) -> bool {
        true
    }
    /// Sends a frame; without a network it is dropped.
    fn send(&mut self, frame: &[u8]);
    /// Sends what waits to be sent.
    fn flush(&mut self) {}
    /// Returns what to wait for.
    fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        Vec::new()
    }
    /// Does what can be done without blocking.
    fn ready(&mut self);
    /// Returns when `ready` must be called, in ns of the board.
    fn next_event(&mut self) -> Option<u64> {
        None
    }
}

/// The device.
#[derive(Debug)]
pub struct Net {
    config: Config,
    link: Box<dyn Attachment>,
    capture: Option<Capture>,
}

/// Returns the configuration space, without a network.
fn config_space(settings: &config::Net) -> Config {
    let config::Net { mac, v4, v6, .. } = settings;
    Config {
        mac: *mac,
        status: 0.into(),
        queue_pairs: 1.into(),
        mtu: (MTU as u16).into(),
        reserved: 0.into(),
        addresses: Addresses {
            v4: v4.address.octets(),
            gateway_v4: v4.gateway.octets(),
            names_v4: v4.names.octets(),
            prefix_v4: v4.prefix,
            prefix_v6: v6.prefix,
            reserved: [0; 2],
            v6: v6.address.octets(),
            gateway_v6: v6.gateway.octets(),
            names_v6: v6.names.octets(),
        },
    }
}

impl Net {
    /// Opens the link's socket and the capture file. `clock` dates the captured frames.
    pub fn open(settings: &config::Net, clock: Gate) -> std::io::Result<Net> {
        let capture = settings.pcap.as_deref().map(|path| Capture::create(path, clock.clone()));
        let link: Box<dyn Attachment> = match &settings.link {
            Some(config::Link::Script { script, answers }) => {
                Box::new(Peer::open((script, answers), &settings.v4, clock)?)
            }
            link => Box::new(Link::open(link.as_ref())?),
        };
        Ok(Net { config: config_space(settings), link, capture: capture.transpose()? })
    }

    fn capture(&mut self, frame: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.add(frame);
        }
    }

    /// Sends a frame of the driver.
    fn transmit(&mut self, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault> {
        // One byte more tells a frame that is too long.
        let mut bytes = [0; HEADER + FRAME + 1];
        let length = read_chain(chain, ram, &mut bytes)?;
        match bytes[..length].get(HEADER..) {
            Some(frame) if (FRAME_HEADER..=FRAME).contains(&frame.len()) => {
                self.capture(frame);
                self.link.send(frame);
            }
            _ => log::debug!("Network: a frame of {length} bytes, with its header, is dropped."),
        }
        Ok(Moved { read: length, ..Moved::default() })
    }

    /// Gives the driver the next frame.
    fn receive(&mut self, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault> {
        let mut writer = chain.writer(ram.guest())?;
        let room = writer.available_bytes();
        if room < HEADER + FRAME {
            return Err(Fault::Small(room));
        }
        let Some(frame) = self.link.next() else { return Ok(Moved::default()) };
        let mut header = [0; HEADER];
        header[HEADER_BUFFERS] = 1;
        writer.write_all(&header)?;
        writer.write_all(&frame)?;
        self.capture(&frame);
        Ok(Moved { written: HEADER + frame.len(), ..Moved::default() })
    }
}

impl Model for Net {
    fn id(&self) -> u64 {
        DEVICE_ID
    }

    fn features(&self) -> u64 {
        FEATURES
    }

    fn config(&self) -> Vec<u8> {
        self.config.as_bytes().to_vec()
    }

    fn config_changed(&mut self) -> bool {
        let status = if self.link.is_up() { LINK_UP } else { 0 }.into();
        std::mem::replace(&mut self.config.status, status) != status
    }

    /// A network takes frames late, or closes: TRANSMIT then continues without a ring.
    fn fills(&self, queue: usize) -> bool {
        queue == RECEIVE || queue == TRANSMIT && self.link.is_outside()
    }

    fn wants(&self, queue: usize) -> bool {
        match queue {
            RECEIVE => self.link.has_next(),
            TRANSMIT => self.link.has_room(),
            _ => false,
        }
    }

    fn serve(&mut self, queue: usize, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault> {
        if queue == TRANSMIT { self.transmit(chain, ram) } else { self.receive(chain, ram) }
    }

    fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        self.link.waits_for()
    }

    fn ready(&mut self) {
        self.link.ready();
    }

    fn next_event(&mut self) -> Option<u64> {
        self.link.next_event()
    }

    fn finish(&mut self) {
        self.link.flush();
    }
}
