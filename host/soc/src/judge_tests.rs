//! Tests: single verdicts, and random boards of which some domains hang.

use super::*;
use abi::hang::{pack_answer, pack_wait, unpack_demand};
use base::prng::Prng;

const MS: u64 = 1_000_000;
const LIMITS: Limits = Limits { soft: 25 * MS, hard: 50 * MS, unmeasured: 5000 * MS, verdicts: 3 };
const PAGE: Item = Item::Page(7);
const LOCK: usize = 4;

/// A word after so many beginnings and ends of attempts.
fn attempts(count: u64) -> LockWord {
    let next = |word: LockWord| if word.blocks() { word.ended() } else { word.attempt() };
    (0..count).fold(LockWord::default(), |word, _| next(word))
}

struct Board {
    judge: Judge,
    now: u64,
    facts: Vec<Facts>,
    /// What each domain answers, if it answers at all.
    blames: Vec<Option<Blame>>,
    executes: Vec<bool>,
}

impl Board {
    fn new(domains: usize) -> Board {
        let facts = Facts { epoch: 1, runs: true, measured: true, ..Facts::default() };
        let facts = vec![facts; domains];
        let judge = Judge::new(domains, LIMITS);
        let (blames, executes) = (vec![Some(Blame::Nothing); domains], vec![true; domains]);
        Board { judge, now: 0, facts, blames, executes }
    }

    /// A host that does not tell how long domains execute. Time passes for all that have power.
    fn unmeasured(domains: usize) -> Board {
        let mut board = Board::new(domains);
        board.facts.iter_mut().for_each(|facts| facts.measured = false);
        board
    }

    fn wait(&mut self, domain: usize, core: usize, item: Item, suspect: u8) {
        let wait = &mut self.facts[domain].waits[core];
        *wait = Wait { what: pack_wait(1, item, suspect), ..*wait };
    }

    /// Passes 5 ms: waiting cores of domains that are not hung report, demands are answered.
    fn pass(&mut self, beats: impl Fn(usize, usize) -> bool) -> Vec<Action> {
        self.now += 5 * MS;
        for (d, facts) in self.facts.iter_mut().enumerate() {
            facts.executed += if self.executes[d] { 5 * MS } else { 0 };
            for (core, wait) in facts.waits.iter_mut().enumerate().filter(|(_, w)| w.what != 0) {
                wait.beat += u64::from(beats(d, core));
            }
        }
        let actions = self.judge.look(self.now, &self.facts);
        for action in &actions {
            if let Action::Demand(to, word) = action
                && let (Some((number, Item::Page(_))), Some(blame)) =
                    (unpack_demand(*word), self.blames[*to])
            {
                self.facts[*to].answer = pack_answer(number, blame);
            }
        }
        actions
    }

    /// Passes `ms`, and returns the verdicts.
    fn verdicts(&mut self, ms: u64) -> Vec<Action> {
        let looks = (0..ms / 5).flat_map(|_| self.pass(|_, _| true)).collect::<Vec<_>>();
        looks.into_iter().filter(|a| !matches!(a, Action::Demand(..))).collect()
    }
}

#[test]
fn a_domain_that_does_not_answer_hangs_after_it_has_executed_the_bound() {
    let mut board = Board::new(2);
    board.blames[1] = None;
    board.wait(0, 0, PAGE, 1);
    assert_eq!(board.verdicts(50), []);
    assert_eq!(board.verdicts(10), [Action::Hangs(1, PAGE)]);
    assert_eq!(board.verdicts(1000), [], "it is judged once");
}

#[test]
fn the_trail_leads_through_the_home_to_the_holder() {
    let mut board = Board::new(3);
    board.blames = vec![Some(Blame::Nothing), Some(Blame::Peer(2)), Some(Blame::Here)];
    board.wait(0, 1, PAGE, 1);
    assert_eq!(board.verdicts(60), [], "the holder is asked a second time");
    assert_eq!(board.verdicts(20), [Action::Hangs(2, PAGE)]);
}

#[test]
fn a_domain_that_does_not_execute_or_whose_waiter_has_stopped_is_not_accused() {
    let mut board = Board::new(2);
    (board.blames[1], board.executes[1]) = (None, false);
    board.wait(0, 0, PAGE, 1);
    assert_eq!(board.verdicts(1000), []);
    board.executes[1] = true;
    let stale: Vec<_> = (0..200).flat_map(|_| board.pass(|_, _| false)).collect();
    assert!(!stale.iter().any(|a| matches!(a, Action::Hangs(..))), "{stale:?}");
}

#[test]
fn answers_that_lead_in_a_circle_accuse_nobody() {
    let mut board = Board::new(2);
    board.blames = vec![Some(Blame::Peer(1)), Some(Blame::Peer(0))];
    board.wait(0, 0, PAGE, 1);
    assert_eq!(board.verdicts(10_000), []);
    board.blames[1] = None;
    assert_eq!(board.verdicts(2_000), [Action::Hangs(1, PAGE)], "but it continues to ask");
}

#[test]
fn an_unchanged_attempt_at_a_lock_is_abandoned_and_then_a_hang() {
    let mut board = Board::new(2);
    board.facts[1].locks[LOCK] = LockWord::default().attempt();
    board.wait(0, 0, Item::Lock(LOCK as u8), 0);
    let demands: Vec<_> = (0..7).flat_map(|_| board.pass(|_, _| true)).collect();
    assert_eq!(demands, [Action::Demand(1, pack_demand(1, Item::Lock(LOCK as u8)))]);
    assert_eq!(board.verdicts(30), [Action::Hangs(1, Item::Lock(LOCK as u8))]);
}

#[test]
fn a_lock_that_changes_hands_accuses_nobody() {
    let mut board = Board::new(2);
    board.wait(0, 0, Item::Lock(LOCK as u8), 0);
    for count in 0..400 {
        board.facts[1].locks[LOCK] = attempts(count);
        assert_eq!(board.verdicts(10), []);
    }
}

#[test]
fn the_core_that_has_the_lock_is_excused_while_it_waits_itself_and_only_that_core() {
    let mut board = Board::new(3);
    board.blames[2] = Some(Blame::Nothing);
    board.facts[1].locks[LOCK] = LockWord::default().attempt();
    board.wait(0, 0, Item::Lock(LOCK as u8), 0);
    board.wait(1, 1, PAGE, 2);
    board.facts[1].waits[1].locks = 1 << LOCK;
    assert_eq!(board.verdicts(500), []);
    board.blames[2] = None;
    assert_eq!(board.verdicts(1500), [Action::Hangs(2, PAGE)], "what that core waits for");
    let mut board = Board::new(3);
    board.facts[1].locks[LOCK] = LockWord::default().attempt();
    board.wait(0, 0, Item::Lock(LOCK as u8), 0);
    board.wait(1, 1, PAGE, 2);
    assert_eq!(board.verdicts(60), [Action::Hangs(1, Item::Lock(LOCK as u8))]);
}

#[test]
fn a_domain_that_waits_for_the_lock_and_blocks_it_is_excused_while_it_says_so() {
    let mut board = Board::new(3);
    board.facts[1].locks[LOCK] = LockWord::default().wanting().attempt();
    [0, 1].iter().for_each(|&d| board.wait(d, 0, Item::Lock(LOCK as u8), 0));
    assert_eq!(board.verdicts(500), []);
    board.facts[1].waits[0] = Wait::default();
    assert_eq!(board.verdicts(60), [Action::Hangs(1, Item::Lock(LOCK as u8))]);
}

#[test]
fn the_next_life_of_a_domain_is_asked_again() {
    let mut board = Board::new(2);
    board.blames[1] = None;
    board.wait(0, 0, PAGE, 1);
    assert_eq!(board.verdicts(70), [Action::Hangs(1, PAGE)]);
    board.facts[1].epoch = 2;
    assert_eq!(board.verdicts(45), [], "it has 50 ms to answer");
    assert_eq!(board.verdicts(20), [Action::Hangs(1, PAGE)]);
}

#[test]
fn verdicts_are_limited() {
    let mut board = Board::new(2);
    board.blames[1] = None;
    let mut seen = vec![];
    for epoch in 1..=4 {
        (board.facts[1].epoch, board.facts[0].waits[0].what) =
            (epoch, pack_wait(epoch as u32, PAGE, 1));
        seen.extend(board.verdicts(200));
    }
    let hangs = Action::Hangs(1, PAGE);
    assert_eq!(seen, [hangs, hangs, hangs, Action::Spared(1, PAGE)]);
}

#[test]
fn without_a_measurement_a_domain_that_does_not_answer_is_reported_once_in_its_life() {
    let mut board = Board::unmeasured(2);
    board.blames[1] = None;
    board.wait(0, 0, PAGE, 1);
    assert_eq!(board.verdicts(5000), []);
    assert_eq!(board.verdicts(10), [Action::Seems(1, PAGE)]);
    assert_eq!(board.verdicts(20_000), []);
    board.wait(0, 0, Item::Page(8), 1);
    assert_eq!(board.verdicts(20_000), [], "another page");
    board.facts[1].epoch = 2;
    assert_eq!(board.verdicts(5100), [Action::Seems(1, Item::Page(8))]);
}

#[test]
fn without_a_measurement_no_step_is_abandoned_and_no_verdict_is_spent() {
    let mut board = Board::unmeasured(2);
    board.facts[1].locks[LOCK] = LockWord::default().attempt();
    board.wait(0, 0, Item::Lock(LOCK as u8), 0);
    let looks: Vec<_> = (0..1100).flat_map(|_| board.pass(|_, _| true)).collect();
    assert_eq!(looks, [Action::Seems(1, Item::Lock(LOCK as u8))]);
    let looks: Vec<_> = (0..5000).flat_map(|_| board.pass(|_, _| true)).collect();
    assert_eq!(looks, []);
    assert_eq!(board.judge.verdicts.len(), 0);
}

#[test]
fn without_a_measurement_the_time_of_a_waiter_that_has_stopped_does_not_count() {
    for lock in [false, true] {
        let mut board = Board::unmeasured(2);
        board.blames[1] = None;
        match lock {
            true => {
                board.facts[1].locks[LOCK] = LockWord::default().attempt();
                board.wait(0, 0, Item::Lock(LOCK as u8), 0);
            }
            false => board.wait(0, 0, PAGE, 1),
        }
        // A debugger holds both again and again, for longer than the bound.
        for _ in 0..5 {
            assert_eq!(board.verdicts(4000), []);
            let held: Vec<_> = (0..2000).flat_map(|_| board.pass(|_, _| false)).collect();
            assert!(!held.iter().any(|a| matches!(a, Action::Seems(..))), "{held:?}");
        }
        assert!(matches!(board.verdicts(5100)[..], [Action::Seems(1, _)]));
    }
}

#[test]
fn without_a_measurement_a_domain_that_answers_and_one_without_power_are_not_reported() {
    let mut board = Board::unmeasured(3);
    board.blames = vec![Some(Blame::Nothing), Some(Blame::Peer(2)), None];
    board.facts[2].runs = false;
    board.executes[2] = false;
    board.wait(0, 0, PAGE, 1);
    assert_eq!(board.verdicts(60_000), []);
    (board.facts[2].runs, board.executes[2]) = (true, true);
    assert_eq!(board.verdicts(5100), [Action::Seems(2, PAGE)], "at the end of the trail");
}

#[test]
fn a_domain_that_was_reported_is_judged_when_its_time_can_be_measured() {
    let mut board = Board::unmeasured(2);
    board.blames[1] = None;
    board.wait(0, 0, PAGE, 1);
    assert_eq!(board.verdicts(5100), [Action::Seems(1, PAGE)]);
    board.facts[1].measured = true;
    board.facts[1].executed = 3;
    assert_eq!(board.verdicts(45), [], "nothing counts from the other clock");
    assert_eq!(board.verdicts(20), [Action::Hangs(1, PAGE)]);
    for measured in [false, true] {
        board.facts[1].measured = measured;
        assert_eq!(board.verdicts(20_000), [], "it is judged once");
    }
}

/// Domain 0 waits for page and lock; every other domain is alive, slow or hung. The blame of a live
/// domain leads to the next one, as it would for a queue of requests.
#[test]
fn on_random_boards_exactly_the_domains_that_hang_are_convicted() {
    for seed in 0..300 {
        let mut random = Prng::new(seed);
        let count = 2 + random.below(4) as usize;
        let mut board = Board::new(count);
        let hung = 1 + random.below(count as u64 - 1) as usize;
        for d in 1..count {
            board.blames[d] = if d < hung { Some(Blame::Peer(d as u8 + 1)) } else { None };
            if d > hung {
                board.blames[d] = Some(Blame::Nothing);
            }
        }
        let lock = random.below(2) == 0;
        if lock {
            board.facts[hung].locks[LOCK] = LockWord::default().attempt();
            board.wait(0, 0, Item::Lock(LOCK as u8), 0);
        } else {
            board.wait(0, 0, PAGE, 1);
        }
        let mut convicted = vec![];
        for _ in 0..500 {
            for d in 0..count {
                board.executes[d] = random.below(10) < 7;
                if d != hung && lock && random.below(10) < 9 {
                    let word = &mut board.facts[d].locks[LOCK];
                    *word = if word.blocks() { word.ended() } else { word.attempt() };
                }
            }
            convicted.extend(board.pass(|_, _| true));
            convicted.retain(|action| !matches!(action, Action::Demand(..)));
        }
        let item = if lock { Item::Lock(LOCK as u8) } else { PAGE };
        assert_eq!(convicted, [Action::Hangs(hung, item)], "seed {seed}");
    }
}
