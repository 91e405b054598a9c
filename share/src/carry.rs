//! Requests and answers as bytes: what goes to a service that is executed in another kernel, and
//! what comes back.
//!
//! ```text
//!   there:  Head | request | bulk that is sent        back:  Told | reply | bulk that was filled
//! ```
//! Contract: a message holds so much and no more. What of the asker's bulk does not fit is not
//! there, as if the asker had less: services answer with short counts. Whatever the other kernel
//! wrote is a value or an error here.

use crate::form::{Answer, Service, Token};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of [`Head`].
pub mod kind {
    /// `Event::Request`.
    pub const REQUEST: u32 = 1;
    /// `Event::Again`.
    pub const AGAIN: u32 = 2;
    /// `Event::Cancel`: no request and no bulk.
    pub const CANCEL: u32 = 3;
}

/// What a request begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Head {
    /// Index of the service in the board's list.
    pub service: u32,
    /// [`kind`].
    pub kind: u32,
    /// Who asks.
    pub token: Token,
    /// Bytes of bulk that the asker has.
    pub room: u32,
    /// Bytes of it that follow.
    pub sent: u32,
}

/// Kinds of [`Told`].
mod told {
    pub const DONE: u32 = 1;
    pub const PARKED: u32 = 2;
    pub const HEARD: u32 = 3;
}

/// What an answer begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Told {
    kind: u32,
    /// Bytes of bulk that follow.
    filled: u32,
}

/// Most bulk that a message of `message` bytes carries, in either direction.
pub const fn room<S: Service>(message: usize) -> usize {
    let (there, back) = (size_of::<S::Request>() + size_of::<Head>(), size_of::<S::Reply>());
    let head = if there > back + size_of::<Told>() { there } else { back + size_of::<Told>() };
    message.saturating_sub(head)
}

fn put<'a, T: IntoBytes + Immutable>(value: &T, to: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (place, rest) = to.split_at_mut_checked(size_of::<T>())?;
    place.copy_from_slice(value.as_bytes());
    Some(rest)
}

/// Writes a request into `message`; how many bytes that took. `None`: it does not fit.
pub fn pack<S: Service>(
    (service, kind, token): (u32, u32, Token),
    request: &S::Request,
    bulk: &[u8],
    message: &mut [u8],
) -> Option<usize> {
    let bulk = &bulk[..bulk.len().min(room::<S>(message.len()))];
    let sent = S::sent(request, bulk.len()).min(bulk.len());
    let size = size_of::<Head>() + size_of::<S::Request>() + sent;
    let head = Head { service, kind, token, room: bulk.len() as u32, sent: sent as u32 };
    let rest = put(request, put(&head, message)?)?;
    rest.get_mut(..sent)?.copy_from_slice(&bulk[..sent]);
    Some(size)
}

/// Takes a request apart: head, request, the bulk that was sent.
pub fn unpack<S: Service>(message: &[u8]) -> Option<(Head, S::Request, &[u8])> {
    let (head, rest) = Head::read_from_prefix(message).ok()?;
    let (request, sent) = S::Request::read_from_prefix(rest).ok()?;
    let fits = sent.len() == head.sent as usize && head.sent <= head.room;
    fits.then_some((head, request, sent))
}

/// The service that a request is for.
pub fn service(message: &[u8]) -> Option<u32> {
    Head::read_from_prefix(message).ok().map(|(head, _)| head.service)
}

/// Writes an answer; how many bytes that took.
pub fn pack_answer<S: Service>(
    answer: &Answer<S::Reply>,
    bulk: &[u8],
    message: &mut [u8],
) -> Option<usize> {
    let (kind, reply) = match answer {
        Answer::Done(reply) => (told::DONE, Some(reply)),
        Answer::Parked => (told::PARKED, None),
        Answer::Heard => (told::HEARD, None),
    };
    let filled = reply.map_or(0, |reply| S::filled(reply).min(bulk.len()));
    let all = message.len();
    let mut rest = put(&Told { kind, filled: filled as u32 }, message)?;
    if let Some(reply) = reply {
        rest = put(reply, rest)?;
    }
    let before = all - rest.len();
    rest.get_mut(..filled)?.copy_from_slice(&bulk[..filled]);
    Some(before + filled)
}

/// Takes an answer apart, and copies what it brought into `bulk`.
pub fn unpack_answer<S: Service>(message: &[u8], bulk: &mut [u8]) -> Option<Answer<S::Reply>> {
    let (told, rest) = Told::read_from_prefix(message).ok()?;
    match told.kind {
        told::DONE => {
            let (reply, brought) = S::Reply::read_from_prefix(rest).ok()?;
            bulk.get_mut(..brought.len())?.copy_from_slice(brought);
            (brought.len() == told.filled as usize).then_some(Answer::Done(reply))
        }
        told::PARKED => Some(Answer::Parked),
        told::HEARD => Some(Answer::Heard),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Effects, Event};
    use base::id::{DomainId, Epoch};
    use base::prng::Prng;

    struct Echo;

    impl Service for Echo {
        type Request = [u32; 3];
        type Reply = u64;
        const NAME: &'static str = "echo";

        fn start(_: u32) -> Echo {
            Echo
        }
        fn sent(request: &[u32; 3], bulk: usize) -> usize {
            (request[0] as usize).min(bulk)
        }
        fn filled(reply: &u64) -> usize {
            *reply as usize
        }
        fn step(&mut self, _: u64, _: Event<'_, [u32; 3]>, _: &mut dyn Effects) -> Answer<u64> {
            Answer::Heard
        }
    }

    #[test]
    fn a_request_goes_there_and_its_answer_back() {
        let token = Token::new(DomainId(1), Epoch(2), 3, 4);
        let (mut message, mut bulk) = ([0; 256], [7; 100]);
        let bytes = pack::<Echo>((5, kind::AGAIN, token), &[10, 1, 2], &bulk, &mut message);
        let bytes = bytes.expect("it fits");
        let (head, request, sent) = unpack::<Echo>(&message[..bytes]).expect("it is one");
        assert_eq!((head.service, head.kind, head.token), (5, kind::AGAIN, token));
        assert_eq!((request, sent, head.room), ([10, 1, 2], &[7; 10][..], 100));
        assert_eq!(service(&message[..bytes]), Some(5));

        let bytes = pack_answer::<Echo>(&Answer::Done(3), &[9; 100], &mut message);
        let answer = unpack_answer::<Echo>(&message[..bytes.expect("it fits")], &mut bulk);
        assert_eq!((answer, &bulk[..4]), (Some(Answer::Done(3)), &[9, 9, 9, 7][..]));
        let bytes = pack_answer::<Echo>(&Answer::Parked, &[9; 100], &mut message);
        let answer = unpack_answer::<Echo>(&message[..bytes.expect("it fits")], &mut bulk);
        assert_eq!(answer, Some(Answer::Parked));
    }

    #[test]
    fn bulk_that_does_not_fit_is_not_there() {
        let (mut message, bulk) = ([0; 128], [7; 1000]);
        let token = Token::default();
        let bytes = pack::<Echo>((0, kind::REQUEST, token), &[1000, 0, 0], &bulk, &mut message);
        let (head, _, sent) = unpack::<Echo>(&message[..bytes.expect("it fits")]).expect("one");
        assert_eq!(head.room as usize, room::<Echo>(128));
        assert_eq!(sent.len(), room::<Echo>(128));
    }

    #[test]
    fn nonsense_is_no_message() {
        let mut prng = Prng::new(1);
        for _ in 0..10_000 {
            let mut bytes = [0; 96];
            bytes.iter_mut().for_each(|byte| *byte = prng.below(5) as u8);
            let length = prng.below(97) as usize;
            let mut bulk = [0; 16];
            let _ = unpack::<Echo>(&bytes[..length]);
            let _ = unpack_answer::<Echo>(&bytes[..length], &mut bulk);
        }
        assert_eq!(unpack::<Echo>(&[0; 10]).map(|_| ()), None);
        assert_eq!(unpack_answer::<Echo>(&[9; 40], &mut []), None);
    }
}
