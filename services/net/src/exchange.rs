//! Frames between the device and the sockets, in steps that concern the outside.
//!
//! Contract: a step receives at most [`FRAMES`] frames; if there may be more, a timer that is due
//! at once continues, so that a flood does not hold the service's lock. Where there is no device,
//! or it is not open, nothing here does anything.

use crate::addresses::bytes_of;
use crate::ethernet::Frame;
use crate::outside::FRAMES;
use crate::service::Net;
use crate::sockets::Kind;
use share::{Device, Effects};
use smoltcp::socket::tcp;
use smoltcp::wire::IpEndpoint;
use virtio::transport::{POLL, Registers};

impl Net {
    /// Opens the device as far as possible, and receives what it has. Returns whether there may be
    /// more. `looks`: the device has said something.
    pub(crate) fn receive_frames(&mut self, now: u64, looks: bool, effects: &dyn Effects) -> bool {
        let Some(device) = effects.device() else { return false };
        let interrupts = looks.then(|| Registers(&device).interrupts());
        if looks {
            self.stack.outside.nic.retry();
        }
        let was_attached = self.stack.outside.addresses().is_some();
        let seed = if was_attached { 0 } else { effects.seed() };
        let mut count = 0;
        if self.stack.attend(now, &device, seed, looks) {
            if !was_attached {
                self.hear_outside();
            }
            while count < FRAMES
                && let Some(frame) = self.stack.fetch(&device)
            {
                self.take(&device, frame);
                count += 1;
            }
        }
        if let Some(interrupts) = interrupts {
            Registers(&device).set_handled(interrupts);
        }
        count == FRAMES
    }

    /// Sends what there is. Returns whether sockets may have changed, so that there is more.
    pub(crate) fn send_frames(&mut self, effects: &dyn Effects) -> bool {
        match effects.device() {
            Some(device) if self.stack.outside.nic.is_open() => self.stack.send(&device),
            _ => false,
        }
    }

    /// Returns when a step has to continue with the outside.
    pub(crate) fn due_outside(&mut self, now: u64, effects: &dyn Effects) -> u64 {
        let opens = effects.device().is_some() && self.stack.outside.nic.is_opening();
        if opens { now.saturating_add(POLL) } else { self.stack.due_outside() }
    }

    fn take(&mut self, device: &Device<'_>, frame: Frame) {
        match frame {
            Frame::Foreign => self.stack.ignore(),
            Frame::Neighbour(told) => self.stack.hear(device, told),
            Frame::Other => self.stack.take(device),
            Frame::Syn { from, to } => {
                if self.admit(from, to) {
                    self.stack.take(device);
                } else {
                    self.stack.ignore();
                }
                // A socket that smoltcp did not use would listen until the next SYN.
                if let Some(listener) = self.handles.listener(to.port, bytes_of(to.addr)) {
                    listener.settle(&mut self.stack);
                }
            }
        }
    }

    /// Makes a socket for a connection that begins, if a listener hears it. Returns false if the
    /// SYN is to be ignored, so that the peer sends it again.
    fn admit(&mut self, from: IpEndpoint, to: IpEndpoint) -> bool {
        if let Some(twin) = self.stack.twin(to.port, from) {
            let is_over = self.stack.see_stream(twin).state() == tcp::State::TimeWait;
            if !is_over || !self.stack.is_ending(twin) {
                return true;
            }
            // The peer uses its port again.
            self.stack.forget_ending(twin);
        }
        let address = bytes_of(to.addr);
        match self.handles.listener(to.port, address) {
            Some(listener) => listener.admit(&mut self.stack, address).is_some(),
            // smoltcp refuses it.
            None => true,
        }
    }

    /// There is a network outside from now on: UDP sockets that were bound before hear it.
    fn hear_outside(&mut self) {
        for place in 0..self.handles.places() {
            if let Some(Kind::Udp(_)) = self.handles.get(place) {
                // Without memory, or if it is bound to another address, it does not.
                let _ = self.part_outside(place);
            }
        }
    }
}
