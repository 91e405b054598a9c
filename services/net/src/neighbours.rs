//! Neighbours on the Ethernet and their hardware addresses, of both families. The messages are in
//! `discovery.rs`: ARP's, or those of IPv6's neighbour discovery.
//!
//! Contract: packets to a neighbour whose address is not known are held here until the neighbour
//! answers, at most [`HELD`] bytes for each neighbour; the oldest make room for newer ones. It is
//! asked at most once a second, [`ASKS`] times, then its packets are dropped. So one that is silent
//! delays no other. There are at most [`NEIGHBOURS`] entries, each for a neighbour that something
//! was sent to: frames from outside make none, and a known neighbour is never given up for one that
//! is not.
//!
//! smoltcp's own discovery is not used: it asks for one neighbour a second, and a socket waits with
//! all its datagrams for the neighbour of the first.

use abi::net::Address;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smoltcp::time::{Duration, Instant};

/// An address on the Ethernet.
pub type Mac = [u8; 6];

/// The address of all stations.
pub const EVERYBODY: Mac = [0xff; 6];

/// Returns whether `mac` can be the address of one station.
pub fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

/// Maximum number of neighbours.
pub const NEIGHBOURS: usize = 16;
/// Most bytes of frames that wait for one neighbour.
pub const HELD: usize = 2048;
/// How often a neighbour is asked before the packets to it are dropped.
pub const ASKS: u32 = 3;
/// Time between two questions to a neighbour.
const PAUSE: Duration = Duration::from_secs(1);
/// Time after which a neighbour that is known is asked again.
const FRESH: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Neighbour {
    address: Address,
    mac: Option<Mac>,
    /// When it was used last.
    used: Instant,
    /// When it is to be asked next, if something is sent to it.
    ask_at: Instant,
    /// Questions since the last answer.
    asked: u32,
    /// A packet waits, or was sent to an address that is no longer fresh.
    is_wanted: bool,
    /// Frames without their destination.
    held: VecDeque<Vec<u8>>,
}

impl Neighbour {
    /// Holds a frame. Without memory it is dropped.
    fn hold(&mut self, frame: &[u8]) {
        let mut bytes = frame.len() + self.held.iter().map(Vec::len).sum::<usize>();
        while bytes > HELD
            && let Some(oldest) = self.held.pop_front()
        {
            bytes -= oldest.len();
        }
        let mut copy = Vec::new();
        if copy.try_reserve_exact(frame.len()).is_ok() && self.held.try_reserve(1).is_ok() {
            copy.extend_from_slice(frame);
            self.held.push_back(copy);
        }
    }
}

/// The neighbours that something was sent to.
#[derive(Debug, Default)]
pub struct Neighbours(Vec<Neighbour>);

impl Neighbours {
    /// Returns the hardware address for a frame to a neighbour, or holds the frame and returns
    /// `None`. Without memory the frame is dropped.
    pub fn find(&mut self, address: Address, now: Instant, frame: &[u8]) -> Option<Mac> {
        let found = self.entry(address, now)?;
        found.used = now;
        found.is_wanted |= found.mac.is_none() || now >= found.ask_at;
        if found.asked >= ASKS && now >= found.ask_at {
            // Another packet is another reason to ask.
            found.asked = 0;
        }
        if found.mac.is_none() {
            found.hold(frame);
        }
        found.mac
    }

    fn entry(&mut self, address: Address, now: Instant) -> Option<&mut Neighbour> {
        let place = self.0.iter().position(|it| it.address == address);
        if let Some(place) = place {
            return self.0.get_mut(place);
        }
        if self.0.len() >= NEIGHBOURS {
            // Those that are not known first, then the one that was not used for longest.
            let key = |(_, it): &(usize, &Neighbour)| (it.mac.is_some(), it.used);
            let (oldest, _) = self.0.iter().enumerate().min_by_key(key)?;
            self.0.swap_remove(oldest);
        }
        self.0.try_reserve(1).ok()?;
        self.0.push(Neighbour {
            address,
            mac: None,
            used: now,
            ask_at: now,
            asked: 0,
            is_wanted: false,
            held: VecDeque::new(),
        });
        self.0.last_mut()
    }

    /// A neighbour has told its hardware address. Returns the frames that have waited for it.
    pub fn tell(&mut self, address: Address, mac: Mac, now: Instant) -> VecDeque<Vec<u8>> {
        let found = self.0.iter_mut().find(|it| it.address == address);
        let Some(found) = found else { return VecDeque::new() };
        (found.mac, found.asked, found.is_wanted) = (Some(mac), 0, false);
        found.ask_at = now + FRESH;
        core::mem::take(&mut found.held)
    }

    /// Returns a neighbour that is to be asked now.
    pub fn ask(&mut self, now: Instant) -> Option<Address> {
        loop {
            let is_due = |it: &&mut Neighbour| it.is_wanted && it.ask_at <= now;
            let found = self.0.iter_mut().find(is_due)?;
            found.ask_at = now + PAUSE;
            if found.asked < ASKS {
                found.asked += 1;
                return Some(found.address);
            }
            // It does not answer. What it told before is not true any more.
            (found.mac, found.is_wanted, found.held) = (None, false, VecDeque::new());
        }
    }

    /// Returns when a neighbour is to be asked.
    pub fn due(&self) -> Option<Instant> {
        self.0.iter().filter(|it| it.is_wanted).map(|it| it.ask_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::net::v4;

    const MAC: Mac = [2, 0, 0, 0, 0, 9];

    fn at(ms: i64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_silent_neighbour_is_asked_three_times_and_delays_no_other() {
        let mut all = Neighbours::default();
        assert_eq!(all.find([1; 16], at(0), b"one"), None);
        assert_eq!(all.find([2; 16], at(0), b"two"), None);
        assert_eq!((all.ask(at(0)), all.ask(at(0))), (Some([1; 16]), Some([2; 16])));
        assert_eq!((all.ask(at(0)), all.due()), (None, Some(at(1000))));
        assert_eq!(all.tell([2; 16], MAC, at(5)), [b"two"]);
        assert_eq!(all.find([2; 16], at(6), b"three"), Some(MAC));
        // It is not asked more often because more is sent.
        assert_eq!(all.find([1; 16], at(500), b"newer"), None);
        assert_eq!(all.ask(at(999)), None);
        assert_eq!((all.ask(at(1000)), all.ask(at(2000))), (Some([1; 16]), Some([1; 16])));
        assert_eq!(all.ask(at(2999)), None);
        assert_eq!((all.ask(at(3000)), all.due()), (None, None), "it is given up");
        assert!(all.tell([1; 16], MAC, at(3001)).is_empty(), "the packets were dropped");
    }

    #[test]
    fn one_that_was_given_up_is_asked_again_for_the_next_packet() {
        let mut all = Neighbours::default();
        all.find([1; 16], at(0), b"one");
        for second in 0..4 {
            assert_eq!(all.ask(at(1000 * second)).is_some(), second < 3);
        }
        all.find([1; 16], at(3500), b"two");
        assert_eq!((all.ask(at(3500)), all.due()), (None, Some(at(4000))));
        all.find([1; 16], at(4000), b"three");
        assert_eq!(all.ask(at(4000)), Some([1; 16]));
        assert_eq!(all.tell([1; 16], MAC, at(4001)), [b"two".to_vec(), b"three".to_vec()]);
    }

    #[test]
    fn a_known_neighbour_is_used_while_it_is_asked_again_and_lost_if_it_is_silent() {
        let mut all = Neighbours::default();
        all.find([1; 16], at(0), b"one");
        all.ask(at(0));
        all.tell([1; 16], MAC, at(0));
        assert_eq!((all.find([1; 16], at(59_999), b"x"), all.due()), (Some(MAC), None));
        assert_eq!(all.find([1; 16], at(60_000), b"x"), Some(MAC));
        for second in 60..63 {
            assert_eq!(all.ask(at(1000 * second)), Some([1; 16]));
            assert_eq!(all.find([1; 16], at(1000 * second), b"x"), Some(MAC));
        }
        assert_eq!(all.ask(at(63_000)), None);
        assert_eq!(all.find([1; 16], at(64_000), b"y"), None);
        assert_eq!(all.ask(at(64_000)), Some([1; 16]));
        assert_eq!(all.tell([1; 16], [7; 6], at(64_001)), [b"y"]);
    }

    #[test]
    fn the_newest_packets_are_held() {
        let mut all = Neighbours::default();
        for number in 0..100u8 {
            all.find([1; 16], at(0), &[number; 600]);
        }
        let held = all.tell([1; 16], MAC, at(1));
        assert_eq!(held, [[97; 600], [98; 600], [99; 600]]);
        all.find([2; 16], at(0), &[0; 1514]);
        all.find([2; 16], at(0), &[1; 1514]);
        assert_eq!(all.tell([2; 16], MAC, at(1)), [[1; 1514]]);
    }

    #[test]
    fn nobody_can_fill_the_table_and_known_neighbours_stay() {
        let mut all = Neighbours::default();
        all.find([1; 16], at(0), b"one");
        all.tell([1; 16], MAC, at(1));
        for stranger in 0..200u8 {
            let now = at(10 + i64::from(stranger));
            all.tell(v4([10, 0, 0, stranger]), MAC, now);
            assert_eq!(all.find(v4([10, 0, 1, stranger]), now, &[0; 1514]), None);
            assert!(all.0.len() <= NEIGHBOURS);
        }
        assert_eq!(all.find([1; 16], at(1000), b"x"), Some(MAC));
    }
}
