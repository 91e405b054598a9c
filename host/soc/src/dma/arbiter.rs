//! When transfers end: the engine's timing and the arbitration of its channels, as a state machine
//! without I/O and clock. It consumes events with their time and produces ends of transfers.
//!
//! ```text
//!            1                2                 3
//!   idle ---------> setting up ------> moving ------> idle, or setting up the next one
//!    ^                  |                 |           1 something is queued
//!    +------- 4 --------+-----------------+           2 `setup_ns` later; no bytes: straight to 3
//!                                                     3 its last byte is through
//!                                                     4 dropped: its end is not reported
//! ```
//!
//! A channel does one transfer after the other, in order. Channels set up independently; those that
//! move bytes share the bandwidth at every moment, by their weights (a real engine approximates
//! this with short alternating bursts). So a single transfer takes `setup_ns + bytes / bandwidth`,
//! and the engine is never idle while a channel has bytes to move.
//!
//! The caller passes the time: the soc's thread passes the host's, the lab its own. Steps may come
//! late: ends are reported with the time at which they were due, and what follows starts then.

use abi::dma::MAX_WEIGHT;
use std::collections::VecDeque;

/// The bandwidth in parts. Divisible by every number of channels up to
/// [`abi::dma::MAX_CHANNELS`].
const SHARES: u64 = 720_720;
/// Work of one byte: 1000 ns at 1 MB/s.
const BYTE: u64 = 1000 * SHARES;

/// The speed of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from the start of a transfer to its first byte.
    pub setup_ns: u64,
    /// Total bandwidth of all channels in MB/s (10^6 bytes); not 0.
    pub bandwidth_mbps: u64,
}

impl Timing {
    /// Returns when `work` that begins at `start_ns` ends with such a share of the bandwidth.
    fn through(self, start_ns: u64, work: u64, share: Share) -> u64 {
        start_ns + work.div_ceil(self.rate(share))
    }

    /// Returns the work done per ns; never 0.
    fn rate(self, share: Share) -> u64 {
        self.bandwidth_mbps * (SHARES * share.weight / share.of)
    }

    /// Returns when the last of the `queued` transfers of a channel (bytes of each) ends, if the
    /// first starts at `start_ns` and no other channel has work. This is the contract of the whole
    /// machine.
    pub fn completion(self, start_ns: u64, queued: &[u64]) -> u64 {
        let next = |now, &bytes: &u64| self.through(now + self.setup_ns, bytes * BYTE, ALONE);
        queued.iter().fold(start_ns, next)
    }
}

/// A channel's weight among those that move bytes.
#[derive(Clone, Copy, Debug)]
struct Share {
    weight: u64,
    of: u64,
}

const ALONE: Share = Share { weight: 1, of: 1 };

/// An input of the arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A transfer of so many bytes is queued on a channel: at most [`abi::dma::MAX_BYTES`], or 0
    /// for one that ends after its set-up.
    Submit(usize, u64),
    /// All transfers queued on a channel are dropped.
    Drop(usize),
    /// Time has passed.
    Time,
}

/// The oldest transfer of a channel has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The channel.
    pub channel: usize,
    /// The time in ns.
    pub at: u64,
}

/// Phase of the oldest transfer of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    SettingUp { until: u64 },
    Moving { left: u64 },
}

#[derive(Clone, Debug)]
struct Channel {
    phase: Phase,
    weight: u64,
    /// Bytes of each transfer, oldest first.
    queued: VecDeque<u64>,
}

/// The arbiter.
#[derive(Clone, Debug)]
pub struct Arbiter {
    timing: Timing,
    now: u64,
    channels: Vec<Channel>,
}

impl Arbiter {
    /// Creates an idle engine.
    pub fn new(timing: Timing, channels: usize) -> Arbiter {
        let idle = Channel { phase: Phase::Idle, weight: 1, queued: VecDeque::new() };
        Arbiter { timing, now: 0, channels: vec![idle; channels] }
    }

    /// Sets the weight of a channel without work, at most [`MAX_WEIGHT`]; by default it is 1.
    pub fn set_weight(&mut self, channel: usize, weight: u64) {
        self.channels[channel].weight = weight.clamp(1, MAX_WEIGHT);
    }

    /// Handles an event at `now` (a time before that of the last step counts as that). Returns the
    /// transfers that have ended up to now, in order of time, and when the next step is due at the
    /// latest.
    pub fn step(&mut self, now: u64, event: Event) -> (Vec<Ended>, Option<u64>) {
        let mut ended = Vec::new();
        while let Some(next) = self.next().filter(|&next| next <= now) {
            self.pass_until(next);
            self.settle(&mut ended);
        }
        self.pass_until(now);
        match event {
            Event::Submit(channel, bytes) => self.channels[channel].queued.push_back(bytes),
            Event::Drop(channel) => {
                self.channels[channel].queued.clear();
                self.channels[channel].phase = Phase::Idle;
            }
            Event::Time => {}
        }
        self.settle(&mut ended);
        (ended, self.next())
    }

    /// Returns when the next transition is due if no event comes.
    fn next(&self) -> Option<u64> {
        let of = self.moving();
        let change = |channel: &Channel| match channel.phase {
            Phase::Idle => None,
            Phase::SettingUp { until } => Some(until),
            Phase::Moving { left } => {
                Some(self.timing.through(self.now, left, Share { weight: channel.weight, of }))
            }
        };
        self.channels.iter().filter_map(change).min()
    }

    /// Returns the weight of all channels that move bytes.
    fn moving(&self) -> u64 {
        let moving = |channel: &&Channel| matches!(channel.phase, Phase::Moving { .. });
        self.channels.iter().filter(moving).map(|channel| channel.weight).sum()
    }

    /// Moves bytes until `then`; no transition is due before that.
    fn pass_until(&mut self, then: u64) {
        let passed = then.saturating_sub(self.now);
        self.now += passed;
        let of = self.moving();
        for channel in &mut self.channels {
            let share = Share { weight: channel.weight, of };
            if let Phase::Moving { left } = &mut channel.phase {
                // The last ns of a transfer may do more than was left.
                *left = left.saturating_sub(passed.saturating_mul(self.timing.rate(share)));
            }
        }
    }

    /// Does all transitions that take no time.
    fn settle(&mut self, ended: &mut Vec<Ended>) {
        let (now, setup) = (self.now, self.timing.setup_ns);
        for (index, channel) in self.channels.iter_mut().enumerate() {
            while let Some(&bytes) = channel.queued.front() {
                match channel.phase {
                    Phase::Idle => channel.phase = Phase::SettingUp { until: now + setup },
                    Phase::SettingUp { until } if until <= now => {
                        channel.phase = Phase::Moving { left: bytes * BYTE };
                    }
                    Phase::Moving { left: 0 } => {
                        channel.queued.pop_front();
                        channel.phase = Phase::Idle;
                        ended.push(Ended { channel: index, at: now });
                    }
                    Phase::SettingUp { .. } | Phase::Moving { .. } => break,
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "arbiter_tests.rs"]
mod tests;
