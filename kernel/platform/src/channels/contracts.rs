//! Contracts: what the table of ends asks of the automata that processes have given.
//!
//! Contract: a message is checked in the critical section in which it is sent, in constant time.
//! The table's first end is the client's.

use super::blocks::NAME;
use super::cells::{CELL, Payload, cells_for};
use super::{Failure, QUEUE, UNREAD, words};
use kernel_channel::{Bounds, CARRIED, ContractId, EndId, Side};
use kernel_contract::exchange::{Known, LONGEST_BLOCK, Outgoing};
use kernel_contract::{Block, Hash, INLINE, Message, Parcel};

/// The contracts that a process uses, by their names.
pub type Find<'a> = &'a dyn Fn(&Hash) -> Option<&'a Known>;

/// A contract as the table knows it: its name, its first state, and what it guarantees.
pub type Terms = (ContractId, u16, Bounds);

/// A contract that has allowed a message, in the same critical section.
pub struct Permitted(pub u16);

impl kernel_channel::Contract for Permitted {
    fn next(&self, _state: u16, _side: Side, _tag: u16) -> Option<u16> {
        Some(self.0)
    }
}

/// Returns the state after a message, if the contract allows it.
pub fn permits(
    table: &kernel_channel::Channels<Payload>,
    contract: &Known,
    about: &kernel_channel::About,
    message: &Outgoing<'_>,
    carried: &[Option<EndId>; CARRIED],
) -> Result<u16, Failure> {
    let mut ends =
        [kernel_contract::Carried { contract: Hash([0; 16]), side: kernel_contract::Side::Client };
            CARRIED];
    let mut count = 0;
    for id in carried.iter().flatten() {
        let end = table.about(*id).map_err(|_| Failure::BadCarried)?;
        let place = ends.get_mut(count).filter(|_| end.is_fresh).ok_or(Failure::Breach)?;
        (place.contract, place.side) = (hash_of(end.contract), side(end.side));
        count += 1;
    }
    let state = state_of(about, contract).ok_or(Failure::Broken)?;
    let endpoints = ends.get(..count).unwrap_or_default();
    let block = message.block.as_ref().map(Block::len);
    let parcel = Parcel { inline: message.bytes.len(), block, endpoints };
    let next = contract.permits(state, side(about.side), message.tag, &parcel);
    next.map(|state| state.number().into()).map_err(|_| Failure::Breach)
}

/// Returns the state after a message of fields alone, if the contract allows it: of an end of this
/// contract, in this state, on this side.
#[inline(always)]
pub fn permits_fields<'a>(
    contracts: impl Fn(&Hash) -> Option<&'a Known>,
    (contract, state, at): (ContractId, u16, Side),
    (tag, fields): (u16, &[u8]),
) -> Option<u16> {
    let contract = contracts(&hash_of(contract))?;
    let state = contract.state(u8::try_from(state).ok()?)?;
    let next = contract.permits_fields(state, side(at), tag, fields.len())?;
    Some(next.number().into())
}

/// The same for a message with a block of so many bytes.
pub fn permits_block<'a>(
    contracts: impl Fn(&Hash) -> Option<&'a Known>,
    (contract, state, at): (ContractId, u16, Side),
    (tag, fields): (u16, &[u8]),
    block: usize,
) -> Option<u16> {
    let contract = contracts(&hash_of(contract))?;
    let state = contract.state(u8::try_from(state).ok()?)?;
    let parcel = Parcel { inline: fields.len(), block: Some(block), endpoints: &[] };
    let next = contract.permits(state, side(at), tag, &parcel).ok()?;
    Some(next.number().into())
}

/// Returns the state of an end in its contract. It may come from another kernel.
fn state_of(about: &kernel_channel::About, contract: &Known) -> Option<kernel_contract::State> {
    contract.state(u8::try_from(about.state).ok()?)
}

/// Returns why nothing will be received any more.
#[cold]
pub fn how_it_ended(
    table: &kernel_channel::Channels<Payload>,
    id: EndId,
    contracts: Find<'_>,
) -> Failure {
    let Ok(about) = table.about(id) else { return Failure::BadEnd };
    let contract = contracts(&hash_of(about.contract));
    let may_close = contract.is_none_or(|contract| {
        let state = state_of(&about, contract);
        state.is_some_and(|state| contract.may_close(state, side(about.side.other())))
    });
    if may_close && !about.is_broken { Failure::Closed } else { Failure::Broken }
}

/// Returns what the table must know of a contract.
pub fn terms(contract: &Known) -> Result<Terms, Failure> {
    let start = contract.start().number().into();
    Ok((id_of(&contract.hash()), start, bounds(contract)?))
}

/// Returns what a contract guarantees, if kernels have room for that.
fn bounds(contract: &Known) -> Result<Bounds, Failure> {
    use kernel_contract::Side::{Client, Server};
    let all = (0..contract.messages() as u16).filter_map(|tag| contract.message(tag));
    let of = |message: Message| match message.block {
        0 => [message.inline; 2],
        block => [message.inline + NAME, message.inline + NAME + block],
    };
    // What messages need, and what they need with their blocks in them.
    let bytes = all.map(of).fold([0; 2], |sum, one| [sum[0].max(one[0]), sum[1].max(one[1])]);
    if [Server, Client].into_iter().any(|from| contract.bound(from).block as usize > LONGEST_BLOCK)
    {
        return Err(Failure::Large);
    }
    // To the client, which has the first end, and to the server.
    let unread = |from| u16::try_from(contract.bound(from).messages).unwrap_or(u16::MAX);
    let messages = [Server, Client].map(unread);
    let most = messages.iter().max().map_or(0, |count| room_of_each(*count));
    let bytes = bytes[0].max(bytes[1].min(most));
    let bounds = Bounds { messages, bytes: bytes as u32, level: contract.level() };
    if are_bounded(&bounds) { Ok(bounds) } else { Err(Failure::Large) }
}

/// Returns the bytes that each of so many messages may have, as far as kernels have room.
fn room_of_each(count: u16) -> usize {
    let cells = UNREAD / usize::from(count.max(1));
    (cells * CELL).min(NAME + INLINE)
}

/// Returns whether kernels have room for all that may be unread.
pub fn are_bounded(bounds: &Bounds) -> bool {
    let cells = cells_for(bounds.bytes as usize);
    let fits = |count: u16| usize::from(count) * cells <= UNREAD && count <= QUEUE;
    bounds.messages.into_iter().all(fits) && bounds.bytes as usize <= NAME + INLINE
}

/// The client has the first end.
pub fn side(side: Side) -> kernel_contract::Side {
    match side {
        Side::First => kernel_contract::Side::Client,
        Side::Second => kernel_contract::Side::Server,
    }
}

fn id_of(hash: &Hash) -> ContractId {
    let mut id = [0; 2];
    // A hash has as many bytes.
    let _ = words::get(&hash.0, &mut id);
    ContractId(id)
}

pub fn hash_of(id: ContractId) -> Hash {
    let mut bytes = [0; 16];
    let _ = words::put(&id.0, &mut bytes);
    Hash(bytes)
}
