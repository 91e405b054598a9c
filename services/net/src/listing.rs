//! What the monitor and `/proc` show: the interface to the outside, and all sockets.

use crate::addresses;
use crate::service::{Call, Net, Result};
use crate::sockets::{Kind, Socket};
use abi::ethernet::Addresses;
use abi::net::{ANY, ANY_V4, Address, Entry, Errno, Interface, LAST, Link, Reply, State, to_v4};
use zerocopy::IntoBytes;

fn shown_addresses(known: &addresses::Addresses) -> Addresses {
    let mut shown = Addresses::default();
    let v4 = |address: Option<Address>| address.and_then(to_v4).unwrap_or_default();
    if let Some(network) = known.v4 {
        (shown.v4, shown.prefix_v4) = (v4(Some(network.own)), network.prefix());
        (shown.gateway_v4, shown.names_v4) = (v4(network.gateway), v4(network.names));
    }
    if let Some(network) = known.v6 {
        (shown.v6, shown.prefix_v6) = (network.own, network.prefix());
        shown.gateway_v6 = network.gateway.unwrap_or_default();
        shown.names_v6 = network.names.unwrap_or_default();
    }
    shown
}

impl Net {
    pub(crate) fn do_interface(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let outside = &self.stack.outside;
        let counts = outside.counts();
        let link = match outside.addresses() {
            _ if outside.nic.has_failed() => Link::Failed,
            Some(_) if outside.is_attached() => Link::Up,
            Some(_) => Link::Down,
            None if outside.nic.is_open() => Link::None,
            None => Link::Opening,
        };
        let mut shown = Interface {
            link: link as u16,
            received: counts.received,
            sent: counts.sent,
            dropped: counts.dropped,
            // There are not so many.
            sockets: self.stack.budget.count() as u16,
            outside: self.stack.budget.count_outside() as u16,
            ..Interface::default()
        };
        if let Some(known) = outside.addresses() {
            shown.addresses = shown_addresses(known);
            (shown.mac, shown.mtu) = (known.mac, known.mtu as u32);
        }
        let bytes = shown.as_bytes();
        let bulk = call.bulk.get_mut(..bytes.len()).ok_or(Errno::Inval)?;
        bulk.copy_from_slice(bytes);
        Ok(Reply { filled: bytes.len() as u32, ..Reply::default() })
    }

    pub(crate) fn do_list(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let mut place = call.request.value;
        let mut filled = 0;
        for room in call.bulk.chunks_exact_mut(size_of::<Entry>()) {
            let mut places = place..self.handles.places();
            let next = places.find_map(|at| Some((at, self.handles.socket(at)?)));
            let Some((at, socket)) = next else {
                place = self.handles.places();
                break;
            };
            room.copy_from_slice(self.entry_of(at, socket).as_bytes());
            filled += room.len() as u32;
            place = at + 1;
        }
        let value = if place < self.handles.places() { u64::from(place) } else { LAST };
        Ok(Reply { filled, value, ..Reply::default() })
    }

    fn entry_of(&self, place: u32, socket: &Socket) -> Entry {
        let (state, local_port) = self.state_of(socket);
        let none = if socket.is_v6 { ANY } else { ANY_V4 };
        let (peer, peer_port) = socket.peer.unwrap_or((none, 0));
        let send = match &socket.kind {
            Kind::Stream(stream) => self.stack.see_stream(stream.socket).send_queue(),
            Kind::Udp(own) => own.outside.map_or(0, |it| self.stack.see_datagrams(it).send_queue()),
            // On loopback nothing waits to be sent.
            _ => 0,
        };
        Entry {
            state: state as u16,
            local_port,
            peer_port,
            is_stream: u8::from(!matches!(state, State::Datagrams)),
            local: socket.address,
            peer,
            receive: socket.kind.waiting(&self.stack) as u32,
            send: send as u32,
            tree: self.handles.tree_of(place),
            ..Entry::default()
        }
    }
}
