//! The cable between peer and chip: frames under way, and what happens to them, from one seed.

use super::script::Faults;
use abi::ethernet::FRAME_HEADER;
use base::prng::Prng;
use std::collections::BTreeMap;

/// Most frames under way; further ones are lost.
const UNDER_WAY: usize = 1024;
/// Place and value of the type of frames with IPv4.
const TYPE: std::ops::Range<usize> = 12..14;
const IPV4: [u8; 2] = [8, 0];

/// The end at which a frame arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Chip,
    Peer,
}

/// A cable. Times are in ns.
#[derive(Debug)]
pub struct Cable {
    faults: Faults,
    random: Prng,
    /// By the time of arrival, then in the order in which they were sent.
    under_way: BTreeMap<(u64, u64), (End, Vec<u8>)>,
    sent: u64,
}

impl Cable {
    pub fn new(faults: Faults, seed: u64) -> Cable {
        Cable { faults, random: Prng::new(seed), under_way: BTreeMap::new(), sent: 0 }
    }

    /// Sends a frame to `end`.
    pub fn send(&mut self, now: u64, end: End, mut frame: Vec<u8>) {
        let faults = self.faults;
        if self.random.chance(faults.loses, 1000) {
            return;
        }
        let copies = if self.random.chance(faults.repeats, 1000) { 2 } else { 1 };
        if self.random.chance(faults.corrupts, 1000) {
            self.corrupt(&mut frame);
        }
        for _ in 0..copies {
            let jitter = self.random.below(faults.jitter_us * 1000 + 1);
            let is_late = self.random.chance(faults.late, 1000);
            let late_us = if is_late { faults.late_us } else { 0 };
            let at = now + (faults.delay_us + late_us) * 1000 + jitter;
            if self.under_way.len() < UNDER_WAY {
                self.sent += 1;
                self.under_way.insert((at, self.sent), (end, frame.clone()));
            }
        }
    }

    /// Changes one bit of a packet. Only those with a checksum: ARP has none, and Ethernet protects
    /// its own header.
    fn corrupt(&mut self, frame: &mut [u8]) {
        if frame.get(TYPE) == Some(&IPV4) && frame.len() > FRAME_HEADER {
            let at = FRAME_HEADER + self.random.below((frame.len() - FRAME_HEADER) as u64) as usize;
            frame[at] ^= 1 << self.random.below(8);
        }
    }

    /// Returns the time of the next arrival.
    pub fn next(&self) -> Option<u64> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next frame that has arrived.
    pub fn take(&mut self, now: u64) -> Option<(End, Vec<u8>)> {
        let first = self.under_way.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what arrives of 1,000 numbered frames, sent 1 us apart.
    fn arrivals(faults: Faults, seed: u64) -> Vec<(u64, u8, u8)> {
        let mut cable = Cable::new(faults, seed);
        for number in 0..1000u64 {
            let mut frame = vec![0; 60];
            frame[TYPE].copy_from_slice(&IPV4);
            frame[20..22].copy_from_slice(&(number as u16).to_be_bytes());
            cable.send(number * 1000, End::Chip, frame);
        }
        let mut all = Vec::new();
        while let Some(at) = cable.next() {
            assert_eq!(cable.take(at - 1), None);
            let (_, frame) = cable.take(at).unwrap();
            all.push((at, frame[20], frame[21]));
        }
        all
    }

    #[test]
    fn without_faults_every_frame_arrives_once_in_order_and_in_time() {
        let all = arrivals(Faults::default(), 1);
        let expected = (0..1000u64).map(|number| {
            let [high, low] = (number as u16).to_be_bytes();
            (number * 1000 + 100_000, high, low)
        });
        assert!(all.into_iter().eq(expected));
    }

    #[test]
    fn faults_come_from_the_seed_and_as_often_as_the_script_says() {
        let faults = Faults { loses: 100, repeats: 50, late: 100, ..Faults::default() };
        let all = arrivals(faults, 7);
        assert_eq!(all, arrivals(faults, 7));
        assert_ne!(all, arrivals(faults, 8));
        assert!((900..990).contains(&all.len()), "{}", all.len());
        let number = |it: &(u64, u8, u8)| (it.1, it.2);
        assert!(!all.is_sorted_by_key(number), "none overtakes another");
        let mut unique: Vec<_> = all.iter().map(number).collect();
        unique.sort();
        unique.dedup();
        assert!(unique.len() < all.len() && unique.len() < 950);
        let corrupt = Faults { corrupts: 1000, ..Faults::default() };
        let mut cable = Cable::new(corrupt, 1);
        let frame = [[0; 12].as_slice(), &IPV4, &[0; 46]].concat();
        cable.send(0, End::Peer, frame.clone());
        let (end, changed) = cable.take(u64::MAX).unwrap();
        let bits = frame.iter().zip(&changed).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        assert_eq!((end, bits), (End::Peer, 1));
    }
}
