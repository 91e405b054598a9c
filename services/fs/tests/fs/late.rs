//! Delayed wakes between kernels (`fs::vfs::late`): how many there are, and that none is missing.

use crate::common::{Solo, token};
use crate::pipes::{piped, read, woken_later, write};
use abi::fs::{Op, Request};
use fs::vfs::pipe::CAPACITY;
use share::Event;

/// What a stream between two kernels costs: how often each side was woken, and how many steps of
/// the service that took, for `total` bytes in writes of `piece`.
fn stream(reader_kernel: u8, total: usize, piece: usize) -> (usize, usize, usize) {
    let (mut solo, reader, writer) = piped();
    let (from, to) = (token(0, 5), token(reader_kernel, 6));
    let (mut wakes, mut steps, mut sent, mut got) = ([0, 0], 0, 0, 0);
    let mut runs = [true, true];
    while got < total {
        let before = (sent, got);
        // The writer continues until it waits: the other kernel runs later.
        while runs[0] && sent < total {
            steps += 1;
            let length = piece.min(total - sent);
            match solo.ask_as(from, write(writer, length), &mut vec![1; length]) {
                Some(reply) => sent += reply.value as usize,
                None => runs[0] = false,
            }
        }
        while runs[1] && got < total {
            steps += 1;
            match solo.ask_as(to, read(reader, 4096), &mut vec![0; 4096]) {
                Some(reply) => got += reply.value as usize,
                None => runs[1] = false,
            }
        }
        let mut woken = solo.take_woken();
        if woken.is_empty() && before == (sent, got) {
            woken = woken_later(&mut solo);
            assert!(!woken.is_empty(), "no caller is ever woken");
        }
        for token in woken {
            let side = usize::from(token == to);
            wakes[side] += 1;
            runs[side] = true;
        }
    }
    (wakes[0], wakes[1], steps)
}

#[test]
fn a_stream_between_kernels_wakes_for_a_full_and_an_empty_pipe() {
    let total = 64 * CAPACITY;
    // A whole pipe is read in four steps.
    for piece in [512, 2048, 8192] {
        let (writer, reader, steps) = stream(1, total, piece);
        let fills = total / CAPACITY;
        assert!(writer <= fills + 1 && reader <= fills + 2, "{piece}: {writer} and {reader} wakes");
        assert!(steps <= total / piece + 8 * fills, "{piece}: {steps} steps");
    }
}

/// Asks as one thread of kernel 0, which writes `count` single bytes.
fn write_bytes(solo: &mut Solo, writer: u64, count: usize) {
    for _ in 0..count {
        assert!(solo.ask_as(token(0, 5), write(writer, 1), &mut [1]).is_some());
    }
}

#[test]
fn a_reader_of_another_kernel_hears_of_the_first_write_at_once_and_of_more_a_little_later() {
    let (mut solo, reader, writer) = piped();
    let (there, mut bulk) = (token(1, 6), [0; 64]);
    let wait = |solo: &mut Solo, bulk: &mut [u8]| {
        while solo.ask_as(there, read(reader, 64), bulk).is_some() {}
    };
    wait(&mut solo, &mut bulk);
    write_bytes(&mut solo, writer, 1);
    assert_eq!(solo.take_woken(), [there], "the first");
    wait(&mut solo, &mut bulk);
    write_bytes(&mut solo, writer, 3);
    assert_eq!(solo.take_woken(), [], "there may be more");
    solo.tell(Event::Timer);
    assert_eq!(solo.take_woken(), [], "too early");
    assert_eq!(woken_later(&mut solo), [there], "in the end");
    wait(&mut solo, &mut bulk);
    // A different request in between, one that waits for its answer.
    solo.ask_as(token(0, 5), Request::new(Op::Stat, reader), &mut []);
    write_bytes(&mut solo, writer, 1);
    assert_eq!(solo.take_woken(), [there], "the next question");
    wait(&mut solo, &mut bulk);
    write_bytes(&mut solo, writer, 2);
    assert_eq!(solo.take_woken(), []);
    solo.with(|c| c.close(writer)).unwrap();
    assert_eq!(solo.take_woken(), [there], "the end is never late");
}

#[test]
fn a_reader_of_the_same_kernel_hears_of_each_write_at_once() {
    let (mut solo, reader, writer) = piped();
    let here = token(0, 6);
    for _ in 0..3 {
        while solo.ask_as(here, read(reader, 64), &mut [0; 64]).is_some() {}
        write_bytes(&mut solo, writer, 1);
        assert_eq!(solo.take_woken(), [here]);
    }
}
