//! Encoding of requests and answers for a service that another kernel executes.
//!
//! ```text
//!   request:  Head | request | bulk sent          answer:  AnswerHead | reply | bulk filled
//! ```
//! Contract: a message has a fixed size. Bulk that does not fit is cut off, as if the caller had
//! passed a shorter buffer, and services answer with short counts. Received bytes are untrusted:
//! decoding yields a value or `None`.

use crate::service::{Answer, Service, Token};
use base::id::DomainId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Values of [`Head::kind`], named like the events they carry.
pub mod kind {
    pub const REQUEST: u32 = 1;
    pub const AGAIN: u32 = 2;
    /// Cancels the request of the token. Carries no bulk; the request that it carries is ignored.
    pub const CANCEL: u32 = 3;
}

/// Precedes a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Head {
    /// Index of the service in the board's list.
    pub service: u32,
    /// One of [`kind`].
    pub kind: u32,
    pub token: Token,
    /// Length of the caller's bulk, at most what a message carries ([`room`]).
    pub room: u32,
    /// Bytes of bulk that follow the request.
    pub sent: u32,
}

/// Values of [`AnswerHead::kind`].
mod answer_kind {
    pub const DONE: u32 = 1;
    pub const PARKED: u32 = 2;
    pub const NO_REPLY: u32 = 3;
}

/// Precedes an answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct AnswerHead {
    kind: u32,
    /// Bytes of bulk that follow the reply.
    filled: u32,
}

/// Returns how much bulk a message of `message` bytes carries in either direction.
pub const fn room<S: Service>(message: usize) -> usize {
    let (there, back) = (size_of::<S::Request>() + size_of::<Head>(), size_of::<S::Reply>());
    let head =
        if there > back + size_of::<AnswerHead>() { there } else { back + size_of::<AnswerHead>() };
    message.saturating_sub(head)
}

/// Returns the size of messages that carry `bulk` bytes in either direction, or as many as one of
/// `most` bytes does.
pub const fn size<S: Service>(bulk: usize, most: usize) -> usize {
    most - room::<S>(most).saturating_sub(bulk)
}

fn put<'a, T: IntoBytes + Immutable>(value: &T, to: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (place, rest) = to.split_at_mut_checked(size_of::<T>())?;
    place.copy_from_slice(value.as_bytes());
    Some(rest)
}

/// Encodes a request and returns its length; `None` if `message` is too short.
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

/// Decodes a request into head, request and sent bulk.
pub fn unpack<S: Service>(message: &[u8]) -> Option<(Head, S::Request, &[u8])> {
    let (head, rest) = Head::read_from_prefix(message).ok()?;
    let (request, sent) = S::Request::read_from_prefix(rest).ok()?;
    let fits = sent.len() == head.sent as usize && head.sent <= head.room;
    fits.then_some((head, request, sent))
}

/// Decodes a request that kernel `from` sent in a message of at most `most` bytes. `None` also if
/// it is in the name of another kernel, or wants more bulk back than such a message carries.
pub fn unpack_from<S: Service>(
    message: &[u8],
    from: DomainId,
    most: usize,
) -> Option<(Head, S::Request, &[u8])> {
    let (head, request, sent) = unpack::<S>(message)?;
    let own = head.token.kernel() == from && head.room as usize <= room::<S>(most);
    own.then_some((head, request, sent))
}

/// Returns the index of the service that a request is for.
pub fn service(message: &[u8]) -> Option<u32> {
    Head::read_from_prefix(message).ok().map(|(head, _)| head.service)
}

/// Encodes an answer and returns its length; `None` if `message` is too short.
pub fn pack_answer<S: Service>(
    answer: &Answer<S::Reply>,
    bulk: &[u8],
    message: &mut [u8],
) -> Option<usize> {
    let (kind, reply) = match answer {
        Answer::Done(reply) => (answer_kind::DONE, Some(reply)),
        Answer::Parked => (answer_kind::PARKED, None),
        Answer::NoReply => (answer_kind::NO_REPLY, None),
    };
    let filled = reply.map_or(0, |reply| S::filled(reply).min(bulk.len()));
    let all = message.len();
    let mut rest = put(&AnswerHead { kind, filled: filled as u32 }, message)?;
    if let Some(reply) = reply {
        rest = put(reply, rest)?;
    }
    let before = all - rest.len();
    rest.get_mut(..filled)?.copy_from_slice(&bulk[..filled]);
    Some(before + filled)
}

/// Decodes an answer and copies the bulk it carries into `bulk`: exactly as much as the reply says.
/// `None` changes nothing.
pub fn unpack_answer<S: Service>(message: &[u8], bulk: &mut [u8]) -> Option<Answer<S::Reply>> {
    let (head, rest) = AnswerHead::read_from_prefix(message).ok()?;
    match head.kind {
        answer_kind::DONE => {
            let (reply, brought) = S::Reply::read_from_prefix(rest).ok()?;
            let said = [head.filled as usize, S::filled(&reply)];
            let place = bulk.get_mut(..brought.len()).filter(|_| said == [brought.len(); 2])?;
            place.copy_from_slice(brought);
            Some(Answer::Done(reply))
        }
        answer_kind::PARKED => Some(Answer::Parked),
        answer_kind::NO_REPLY => Some(Answer::NoReply),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Effects, Event};
    use base::id::Epoch;
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
            Answer::NoReply
        }
    }

    #[test]
    fn requests_and_answers_survive_encoding() {
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
    fn a_message_of_its_size_has_room_for_the_bulk_and_no_more() {
        for bulk in [0, 1, 64, 100, 5000] {
            let size = size::<Echo>(bulk, 256);
            assert_eq!(room::<Echo>(size), bulk.min(room::<Echo>(256)));
            let (mut message, bulk) = (vec![0; size], vec![7; bulk]);
            let (token, all) = (Token::default(), [u32::MAX, 0, 0]);
            let bytes = pack::<Echo>((0, kind::REQUEST, token), &all, &bulk, &mut message);
            assert_eq!(bytes, Some(size));
            let most = bulk.len().min(room::<Echo>(256)) as u64;
            assert!(pack_answer::<Echo>(&Answer::Done(most), &bulk, &mut message).is_some());
        }
    }

    #[test]
    fn bulk_that_does_not_fit_is_cut_off() {
        let (mut message, bulk) = ([0; 128], [7; 1000]);
        let token = Token::default();
        let bytes = pack::<Echo>((0, kind::REQUEST, token), &[1000, 0, 0], &bulk, &mut message);
        let (head, _, sent) = unpack::<Echo>(&message[..bytes.expect("it fits")]).expect("one");
        assert_eq!(head.room as usize, room::<Echo>(128));
        assert_eq!(sent.len(), room::<Echo>(128));
    }

    #[test]
    fn an_answer_brings_exactly_the_bulk_that_its_reply_claims() {
        let (mut message, mut bulk) = ([0; 64], [7; 16]);
        let bytes = pack_answer::<Echo>(&Answer::Done(3), &[9; 16], &mut message);
        let bytes = bytes.expect("it fits");
        // The reply claims 8 bytes of bulk, and 3 came; or the head says 4.
        for (place, value) in [(size_of::<AnswerHead>(), 8), (4, 4)] {
            let mut forged = message;
            forged[place] = value;
            assert_eq!(unpack_answer::<Echo>(&forged[..bytes], &mut bulk), None);
            assert_eq!(bulk, [7; 16], "nothing has changed");
        }
    }

    #[test]
    fn a_request_in_the_name_of_another_kernel_is_refused() {
        let (token, mut message) = (Token::new(DomainId(1), Epoch(2), 3, 4), [0; 256]);
        let bytes = pack::<Echo>((0, kind::REQUEST, token), &[9, 1, 2], &[7; 9], &mut message);
        let message = &message[..bytes.expect("it fits")];
        assert!(unpack_from::<Echo>(message, DomainId(1), 256).is_some());
        assert!(unpack_from::<Echo>(message, DomainId(2), 256).is_none());
        // It wants more back than the shortest message carries.
        assert!(unpack_from::<Echo>(message, DomainId(1), 16).is_none());
    }

    #[test]
    fn random_bytes_are_rejected_without_panic() {
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
