//! Compares the arbiter with its contract, and with itself under different step times.

use super::*;
use base::prng::Prng;

const K2: Timing = Timing { setup_ns: 1000, bandwidth_mbps: 40 };

/// Steps, only when due, until no work is left.
fn run(arbiter: &mut Arbiter, mut next: Option<u64>) -> Vec<Ended> {
    let mut all = Vec::new();
    while let Some(due) = next {
        let (ended, then) = arbiter.step(due, Event::Time);
        all.extend(ended);
        next = then;
    }
    all
}

fn timing(prng: &mut Prng) -> Timing {
    let setup_ns = [0, 1, 1000, prng.below(1_000_000)][prng.below(4) as usize];
    let most = [2, 50, 100_000][prng.below(3) as usize];
    Timing { setup_ns, bandwidth_mbps: 1 + prng.below(most) }
}

#[test]
fn a_transfer_takes_setup_and_bytes_over_bandwidth() {
    // 4 KiB at 40 MB/s: 102.4 us.
    assert_eq!(K2.completion(500, &[4096]), 500 + 1000 + 102_400);
    assert_eq!(K2.completion(0, &[1, 1]), 2 * (1000 + 25));
    assert_eq!(K2.completion(7, &[]), 7);
    let third = Timing { setup_ns: 0, bandwidth_mbps: 3 };
    assert_eq!(third.completion(0, &[1]), 334, "not before its last byte");
}

#[test]
fn alone_a_channel_keeps_the_contract() {
    for seed in 0..2000 {
        let mut prng = Prng::new(seed);
        let timing = timing(&mut prng);
        let mut arbiter = Arbiter::new(timing, 4);
        (0..4).for_each(|channel| arbiter.set_weight(channel, 1 + prng.below(MAX_WEIGHT)));
        let (start, channel) = (prng.below(1 << 40), prng.below(4) as usize);
        let count = 1 + prng.below(8) as usize;
        let queued: Vec<u64> = (0..count).map(|_| prng.below(1 << 20)).collect();
        let mut next = None;
        for &bytes in &queued {
            let (ended, then) = arbiter.step(start, Event::Submit(channel, bytes));
            assert!(ended.is_empty() || timing.setup_ns == 0, "seed {seed}");
            next = then;
        }
        let ended = run(&mut arbiter, next);
        // Without set-up time, empty transfers end in the step that queues them.
        let missing = count - ended.len();
        assert!(queued[..missing].iter().all(|&bytes| bytes == 0 && timing.setup_ns == 0));
        for (i, end) in ended.iter().enumerate() {
            let at = timing.completion(start, &queued[..=missing + i]);
            assert_eq!(*end, Ended { channel, at }, "seed {seed}, transfer {i}");
        }
    }
}

/// Returns a random script of (time, event), ordered by time.
fn script(prng: &mut Prng, timing: Timing, channels: usize) -> Vec<(u64, Event)> {
    let mut now = prng.below(1000);
    let mut queued = vec![0; channels];
    let mut events = Vec::new();
    for _ in 0..40 {
        now += prng.below(2 * timing.completion(0, &[4096]));
        let channel = prng.below(channels as u64) as usize;
        if prng.chance(1, 12) {
            events.push((now, Event::Drop(channel)));
            queued[channel] = 0;
        } else if queued[channel] < abi::dma::RING {
            let most = 2 << prng.below(20);
            events.push((now, Event::Submit(channel, prng.below(most))));
            queued[channel] += 1;
        }
    }
    events
}

/// Plays the script with extra steps at `more` times between its events.
fn play(timing: Timing, script: &[(u64, Event)], prng: &mut Prng, more: u64) -> Vec<Ended> {
    let mut arbiter = Arbiter::new(timing, 4);
    (0..4).for_each(|channel| arbiter.set_weight(channel, 1 + channel as u64 % 3));
    let (mut all, mut before, mut next) = (Vec::new(), 0, None);
    for &(now, event) in script {
        let mut times: Vec<u64> =
            (0..more).map(|_| before + prng.below(now - before + 1)).collect();
        times.sort_unstable();
        for time in times {
            all.extend(arbiter.step(time, Event::Time).0);
        }
        let (ended, then) = arbiter.step(now, event);
        all.extend(ended);
        (before, next) = (now, then);
    }
    all.extend(run(&mut arbiter, next));
    all
}

#[test]
fn when_it_is_asked_does_not_change_what_it_does() {
    for seed in 0..1000 {
        let mut prng = Prng::new(seed);
        let timing = timing(&mut prng);
        let script = script(&mut prng, timing, 4);
        let seldom = play(timing, &script, &mut prng, 0);
        assert_eq!(seldom, play(timing, &script, &mut prng, 7), "seed {seed}");
        assert!(seldom.is_sorted_by_key(|end| end.at), "seed {seed}");
    }
}

#[test]
fn nothing_is_faster_than_alone_and_nothing_moves_faster_than_the_engine() {
    for seed in 0..1000 {
        let mut prng = Prng::new(seed);
        let timing = timing(&mut prng);
        let mut script = script(&mut prng, timing, 4);
        script.retain(|(_, event)| matches!(event, Event::Submit(..)));
        let ended = play(timing, &script, &mut prng, 1);
        assert_eq!(ended.len(), script.len(), "seed {seed}: each ends once");
        let (mut moved, first) = (0, script[0].0);
        let mut taken = [0; 4];
        for end in &ended {
            let own: Vec<_> = script
                .iter()
                .filter_map(|&(at, event)| match event {
                    Event::Submit(channel, bytes) if channel == end.channel => Some((at, bytes)),
                    _ => None,
                })
                .collect();
            let (at, bytes) = own[taken[end.channel]];
            taken[end.channel] += 1;
            assert!(end.at >= timing.completion(at, &[bytes]), "seed {seed}: {end:?} is early");
            moved += bytes;
            let whole = Timing { setup_ns: 0, ..timing };
            assert!(end.at + 1 >= whole.completion(first, &[moved]), "seed {seed}: {end:?}");
        }
    }
}

#[test]
fn channels_share_equally_and_none_is_idle_while_others_work() {
    let mut arbiter = Arbiter::new(Timing { setup_ns: 0, bandwidth_mbps: 40 }, 4);
    arbiter.step(0, Event::Submit(0, 4000));
    arbiter.step(0, Event::Submit(1, 4000));
    // Both move at 20 MB/s, from 100 us on at a third of 40 each.
    let (ended, next) = arbiter.step(100_000, Event::Submit(2, 1000));
    assert_eq!((ended.len(), next), (0, Some(175_000)));
    let ended = run(&mut arbiter, next);
    let expected = [(2, 175_000), (0, 225_000), (1, 225_000)];
    assert_eq!(ended, expected.map(|(channel, at)| Ended { channel, at }));
}

#[test]
fn a_channel_gets_bandwidth_by_its_weight_while_others_move() {
    let mut arbiter = Arbiter::new(Timing { setup_ns: 0, bandwidth_mbps: 30 }, 4);
    arbiter.set_weight(0, 2);
    arbiter.step(0, Event::Submit(0, 4000));
    // 20 MB/s and 10, then 30.
    let (_, next) = arbiter.step(0, Event::Submit(1, 4000));
    let ended = run(&mut arbiter, next);
    let expected = [(0, 200_000), (1, 266_667)];
    assert_eq!(ended, expected.map(|(channel, at)| Ended { channel, at }));
}

#[test]
fn what_is_dropped_is_not_reported_and_leaves_its_share() {
    let mut arbiter = Arbiter::new(Timing { setup_ns: 0, bandwidth_mbps: 40 }, 4);
    arbiter.step(0, Event::Submit(0, 4000));
    arbiter.step(0, Event::Submit(1, 4000));
    arbiter.step(0, Event::Submit(1, 4000));
    let (ended, next) = arbiter.step(100_000, Event::Drop(1));
    assert_eq!((ended.len(), next), (0, Some(150_000)), "2000 bytes left, at 40 MB/s");
    assert_eq!(run(&mut arbiter, next), [Ended { channel: 0, at: 150_000 }]);
}

#[test]
fn late_and_backward_steps_are_harmless() {
    let mut arbiter = Arbiter::new(K2, 4);
    arbiter.step(0, Event::Submit(3, 4096));
    arbiter.step(0, Event::Submit(3, 4096));
    let (ended, next) = arbiter.step(u64::MAX / 2, Event::Time);
    assert_eq!(ended.iter().map(|end| end.at).collect::<Vec<_>>(), [103_400, 206_800]);
    assert_eq!(next, None);
    let (ended, next) = arbiter.step(0, Event::Submit(0, 0));
    assert_eq!((ended.len(), next), (0, Some(u64::MAX / 2 + 1000)));
}
