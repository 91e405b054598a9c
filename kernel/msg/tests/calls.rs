//! Calls between two kernels over plain memory: sizes, limits, peer death, order of accesses.

mod common;

use abi::msg::{LAYOUT, LEVELS, MAX_PAYLOAD, PRODUCER, REPLIES, RINGS};
use base::id::{CoreId, Epoch};
use common::{A, Access, B, Flat, Pair, poll};
use kernel_msg::notify::{Attendance, Presence, must_ring};
use kernel_msg::server::ReplyError;
use kernel_msg::{Busy, CallError, Class, Level, Refusal};

const TOP: Level = Level(0);

#[test]
fn payloads_of_every_size_cross_the_end_of_the_rings() {
    let mut pair = Pair::new();
    let mut buffer = [0; MAX_PAYLOAD];
    for class in [Class::Urgent, Class::Blockable] {
        for size in (0..200).chain((200..MAX_PAYLOAD).step_by(97)).chain([MAX_PAYLOAD]) {
            let sent: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
            let call = pair.a.begin(B, class, TOP, 3, &sent, size as u64).unwrap();
            assert_eq!(pair.a.finish(B, call, &mut buffer), None);
            let mut polled = poll(&mut pair.b);
            let (request, bytes) = polled.requests.remove(0);
            assert_eq!((request.proc, request.class, &bytes), (3, class, &sent));
            let back: Vec<u8> = bytes.iter().rev().copied().collect();
            assert_eq!(pair.b.reply(request.reply.unwrap(), Ok(&back)), Ok(()));
            assert_eq!(poll(&mut pair.a).ended, [size as u64]);
            assert_eq!(pair.a.finish(B, call, &mut buffer), Some(Ok(size)));
            assert_eq!(buffer[..size], back);
            assert_eq!(pair.a.finish(B, call, &mut buffer), Some(Err(CallError::PeerLost)), "once");
        }
    }
}

#[test]
fn a_full_ring_or_slot_table_reports_busy_and_recovers() {
    let mut pair = Pair::new();
    let begin = |pair: &mut Pair, level, bytes: usize| {
        pair.a.begin(B, Class::Blockable, Level(level), 1, &vec![9; bytes], 0)
    };
    for _ in 0..3 {
        begin(&mut pair, 0, MAX_PAYLOAD).unwrap();
    }
    assert_eq!(begin(&mut pair, 0, MAX_PAYLOAD), Err(CallError::Busy(Busy::RingFull)));
    assert_eq!(poll(&mut pair.b).requests.len(), 3);
    for level in 0..LEVELS {
        let left = LAYOUT.level_replies[level] - if level == 0 { 3 } else { 0 };
        for _ in 0..left {
            begin(&mut pair, level as u8, 8).unwrap();
        }
        let refused = begin(&mut pair, level as u8, 8);
        assert_eq!(refused, Err(CallError::Busy(Busy::NoSlot)), "level {level}");
    }
    assert_eq!(begin(&mut pair, LEVELS as u8, 8), Err(CallError::TooDeep));
    assert_eq!(begin(&mut pair, u8::MAX, 8), Err(CallError::TooDeep));
    let urgent = pair.a.begin(B, Class::Urgent, TOP, 1, &[], 0);
    assert!(urgent.is_ok(), "urgent calls have slots and a ring of their own");
    let large = pair.a.begin(B, Class::Urgent, TOP, 1, &[0; MAX_PAYLOAD + 1], 0);
    assert_eq!(large, Err(CallError::TooLarge));
    let requests = poll(&mut pair.b).requests;
    assert_eq!(requests[0].0.class, Class::Urgent, "urgent ones first");
    for (request, _) in requests {
        pair.b.reply(request.reply.unwrap(), Ok(&[])).unwrap();
    }
    assert!(poll(&mut pair.a).ended.len() > 20);
}

#[test]
fn refusals_and_oversized_replies_are_returned_as_errors() {
    let mut pair = Pair::new();
    let mut small = [0; 4];
    let answers: [(Result<&[u8], Refusal>, CallError); 4] = [
        (Err(Refusal::NoSuchProc), CallError::Refused(Refusal::NoSuchProc)),
        (Err(Refusal::NoMemory), CallError::Refused(Refusal::NoMemory)),
        (Ok(&[1; MAX_PAYLOAD + 1]), CallError::Refused(Refusal::TooLarge)),
        (Ok(&[1; 5]), CallError::TooLarge),
    ];
    for (answer, error) in answers {
        let call = pair.a.begin(B, Class::Urgent, TOP, 1, &[], 0).unwrap();
        let to = poll(&mut pair.b).requests[0].0.reply.unwrap();
        pair.b.reply(to, answer).unwrap();
        assert_eq!(pair.b.reply(to, Ok(&[])), Err(ReplyError::Stale), "one answer a request");
        assert_eq!(pair.a.finish(B, call, &mut small), Some(Err(error)));
    }
}

#[test]
fn death_ends_all_calls_and_a_new_epoch_starts_a_session() {
    let mut pair = Pair::new();
    let mut buffer = [0; 64];
    let lost = pair.a.begin(B, Class::Blockable, TOP, 1, &[1], 11).unwrap();
    let old = poll(&mut pair.b).requests[0].0.reply.unwrap();
    pair.a.peer_changed(B, None);
    assert_eq!(poll(&mut pair.a).ended, [11]);
    assert_eq!(pair.a.finish(B, lost, &mut buffer), Some(Err(CallError::PeerLost)));
    let refused = pair.a.begin(B, Class::Blockable, TOP, 1, &[], 0);
    assert_eq!(refused, Err(CallError::PeerLost));
    pair.a.peer_changed(B, Some(Epoch(1)));
    let refused = pair.a.begin(B, Class::Blockable, TOP, 1, &[], 0);
    assert_eq!(refused, Err(CallError::PeerLost), "a lost epoch does not come back");
    pair.a.peer_changed(B, Some(Epoch(2)));
    let early = pair.a.begin(B, Class::Blockable, TOP, 1, &[], 0);
    assert_eq!(early, Err(CallError::Busy(Busy::NoSession)), "B has not seen the new epoch");
    pair.restart_b(Epoch(2));
    assert_eq!(poll(&mut pair.b).requests.len(), 0, "the old request is void");
    assert_eq!(pair.b.reply(old, Ok(&[1])), Err(ReplyError::Stale));
    let call = pair.a.begin(B, Class::Blockable, TOP, 1, &[2], 12).unwrap();
    let (request, bytes) = poll(&mut pair.b).requests.remove(0);
    assert_eq!(bytes, [2]);
    pair.b.reply(request.reply.unwrap(), Ok(&[3])).unwrap();
    assert_eq!(pair.a.finish(B, call, &mut buffer), Some(Ok(1)));
}

#[test]
fn an_abandoned_call_keeps_its_slot_until_it_is_answered() {
    let mut pair = Pair::new();
    for round in 0..LAYOUT.urgent_replies {
        let call = pair.a.begin(B, Class::Urgent, TOP, 1, &[round], 7).unwrap();
        pair.a.peer_mut(B).unwrap().caller.abandon(call);
    }
    let refused = pair.a.begin(B, Class::Urgent, TOP, 1, &[], 0);
    assert_eq!(refused, Err(CallError::Busy(Busy::NoSlot)));
    let (request, _) = poll(&mut pair.b).requests.remove(0);
    pair.b.reply(request.reply.unwrap(), Ok(&[])).unwrap();
    assert!(poll(&mut pair.a).ended.is_empty(), "no thread is woken");
    assert!(pair.a.begin(B, Class::Urgent, TOP, 1, &[], 0).is_ok());
}

#[test]
fn notices_are_one_way() {
    let mut pair = Pair::new();
    pair.b.notice(A, Class::Urgent, 4, b"wake 5").unwrap();
    let (notice, bytes) = poll(&mut pair.a).requests.remove(0);
    assert_eq!((notice.reply, notice.proc, bytes.as_slice()), (None, 4, &b"wake 5"[..]));
    let sent = (0..).take_while(|_| pair.b.notice(A, Class::Urgent, 4, &[]).is_ok()).count();
    assert_eq!(sent, LAYOUT.urgent_slots as usize, "then it is full");
}

/// The litmus tests check these same orders.
#[test]
fn publishing_stores_and_barriers_are_in_the_order_of_the_litmus_files() {
    use Access::{Barrier, Load, Store};
    let mut pair = Pair::new();
    let first = |pair: &mut Pair| pair.a.begin(B, Class::Urgent, TOP, 1, &[1; 16], 0).unwrap();
    first(&mut pair);
    pair.ab.log.borrow_mut().clear();
    first(&mut pair);
    let slot = RINGS + 64;
    let body = [Store(slot), Store(slot + 8), Store(slot + 16), Store(slot + 24)];
    let publish = [Barrier, Store(PRODUCER), Barrier];
    assert_eq!(*pair.ab.log.borrow(), [&body[..], &publish[..]].concat());
    pair.ab.log.borrow_mut().clear();
    let requests = poll(&mut pair.b).requests;
    let loads: Vec<Access> = pair.ab.log.borrow().clone();
    assert_eq!(loads[..3], [Load(PRODUCER), Load(RINGS), Load(RINGS + 8)]);
    pair.ba.log.borrow_mut().clear();
    pair.b.reply(requests[0].0.reply.unwrap(), Ok(&[1; 8])).unwrap();
    let payload = LAYOUT.reply_payload(0);
    let reply = [Store(payload), Store(REPLIES + 8), Barrier, Store(REPLIES), Barrier];
    assert_eq!(*pair.ba.log.borrow(), reply);
}

#[test]
fn a_domain_is_rung_only_if_none_of_its_cores_attends() {
    let page = Flat::new(4096);
    let (mut first, mut second) = (Attendance::new(CoreId(0)), Attendance::new(CoreId(1)));
    assert!(must_ring(&page, 2));
    first.enter(&page);
    second.enter(&page);
    assert!(!must_ring(&page, 2));
    assert_eq!(first.leave(&page, || false), Presence::Away);
    assert!(!must_ring(&page, 2));
    assert_eq!(second.leave(&page, || true), Presence::Attending, "something is waiting");
    assert!(!must_ring(&page, 2));
    assert_eq!(second.leave(&page, || false), Presence::Away);
    assert!(must_ring(&page, 2));
}
