//! When a gate opens, and when it sends nothing.

use kernel_light::{
    Delays, End, Entry, FromLight, Gate, Group, Lights, Permission, Place, Report, Rest, Sequence,
    ToLight,
};

const DELAYS: Delays = Delays { quiet_ns: 100, patience_ns: 1000 };
const FIRST: Sequence = Sequence(u32::MAX);
const CORES: [Place; 2] = [Place(0), Place(1)];
const NOTHING: Entry = Entry { send: None, must_wait: false };

/// A gate and a group whose messages arrive at once.
struct Pair {
    gate: Gate,
    group: Group,
    resumes: u64,
}

impl Pair {
    fn new(lights: Lights) -> Pair {
        let mut pair =
            Pair { gate: Gate::new(FIRST, DELAYS), group: Group::new(FIRST), resumes: 0 };
        pair.wants(lights, 0);
        pair
    }

    fn wants(&mut self, lights: Lights, now: u64) {
        if let Some(message) = self.group.changed(lights) {
            self.gate.receive(message, now).expect("the group's own message");
        }
    }

    fn send(&mut self, message: Option<ToLight>, now: u64) {
        let Some(message) = message else { return };
        self.resumes += u64::from(matches!(message, ToLight::Resume(_)));
        let answer = match self.group.receive(message) {
            kernel_light::Stop::Answer(answer) => Some(answer),
            _ => self.group.stopped(),
        };
        answer.into_iter().for_each(|it| self.gate.receive(it, now).expect("an answer"));
    }

    /// A normal thread runs on `core` from `now` to `end`.
    fn runs(&mut self, core: Place, now: u64, end: u64) {
        let dispatch = self.gate.enter(core);
        self.send(dispatch.send, now);
        assert_eq!(self.gate.may_run(core), Permission::Granted);
        self.gate.leave(core, end);
    }

    fn time(&mut self, now: u64) {
        let message = self.gate.time(now);
        self.send(message, now);
    }

    fn is_open(&self) -> bool {
        self.group.may_run() == Permission::Granted
    }
}

#[test]
fn nothing_is_sent_while_no_light_thread_is_runnable() {
    for lights in [Lights::Absent, Lights::Blocked] {
        let mut pair = Pair::new(lights);
        for turn in 0..100 {
            let now = turn * 10_000;
            assert_eq!(pair.gate.enter(CORES[0]), NOTHING);
            assert_eq!(pair.gate.may_run(CORES[0]), Permission::Granted);
            pair.gate.leave(CORES[0], now);
            assert_eq!((pair.gate.due(), pair.gate.time(now + 9_999)), (None, None));
        }
    }
}

#[test]
fn the_gate_opens_when_no_normal_thread_has_run_for_a_while() {
    let mut pair = Pair::new(Lights::Runnable);
    pair.runs(CORES[0], 10, 50);
    assert_eq!(pair.gate.due(), Some(150));
    pair.time(149);
    assert!(!pair.is_open());
    pair.time(150);
    assert!(pair.is_open() && pair.gate.due().is_none());
}

#[test]
fn a_light_thread_that_wakes_late_runs_at_once() {
    let mut pair = Pair::new(Lights::Blocked);
    pair.runs(CORES[0], 10, 50);
    pair.wants(Lights::Runnable, 5000);
    assert!(pair.gate.due().is_some_and(|due| due <= 5000));
    pair.time(5000);
    assert!(pair.is_open());
}

#[test]
fn normal_threads_that_block_often_do_not_starve_a_light_one() {
    let (mut pair, mut opened) = (Pair::new(Lights::Runnable), 0);
    let turns = 10_000;
    for turn in 0..turns {
        let now = turn * 10;
        pair.runs(CORES[0], now, now + 9);
        pair.time(now + 9);
        opened += u64::from(pair.is_open());
    }
    let elapsed = turns * 10;
    assert_eq!(opened, pair.resumes);
    // Not more than one Resume in the shorter delay, and one soon after each of the longer.
    assert!(opened <= elapsed / DELAYS.patience_ns + 1, "{opened}");
    assert!(opened >= elapsed / (DELAYS.patience_ns + 10) - 1, "{opened}");
}

#[test]
fn the_last_of_two_cores_decides() {
    let mut pair = Pair::new(Lights::Runnable);
    let _ = pair.gate.enter(CORES[0]);
    let _ = pair.gate.enter(CORES[1]);
    pair.gate.leave(CORES[1], 1);
    assert_eq!((pair.gate.due(), pair.gate.time(99_999)), (None, None));
    assert_eq!(pair.gate.may_run(CORES[0]), Permission::Granted);
    pair.gate.leave(CORES[0], 100_000);
    assert_eq!(pair.gate.due(), Some(1000));
}

#[test]
fn one_suspend_serves_two_cores() {
    let mut pair = Pair::new(Lights::Runnable);
    pair.time(100);
    let first = pair.gate.enter(CORES[0]);
    let second = pair.gate.enter(CORES[1]);
    assert!(first.must_wait && matches!(first.send, Some(ToLight::Suspend(_))));
    assert_eq!(second, Entry { send: None, must_wait: true });
    assert_eq!(pair.gate.may_run(CORES[1]), Permission::Awaited);
    pair.send(first.send, 101);
    assert_eq!(CORES.map(|core| pair.gate.may_run(core)), [Permission::Granted; 2]);
}

#[test]
fn a_rest_opens_the_gate_for_threads_that_will_wake() {
    let mut pair = Pair::new(Lights::Blocked);
    let Rest::Ready(Some(resume)) = pair.gate.rest() else { panic!("the gate stays closed") };
    pair.send(Some(resume), 7);
    assert_eq!(pair.group.changed(Lights::Runnable), None, "a report that would end the rest");
    assert!(pair.is_open());
    assert_eq!(Pair::new(Lights::Absent).gate.rest(), Rest::Ready(None));
}

#[test]
fn no_rest_begins_while_an_answer_is_awaited() {
    let mut pair = Pair::new(Lights::Runnable);
    pair.time(100);
    let dispatch = pair.gate.enter(CORES[0]);
    pair.gate.leave(CORES[0], 101);
    assert_eq!(pair.gate.rest(), Rest::NotYet);
    pair.send(dispatch.send, 102);
    assert!(matches!(pair.gate.rest(), Rest::Ready(Some(_))));
}

#[test]
fn the_last_light_thread_closes_the_gate_when_it_ends() {
    let mut pair = Pair::new(Lights::Runnable);
    pair.time(100);
    pair.wants(Lights::Absent, 200);
    assert_eq!(pair.gate.enter(CORES[0]), NOTHING);
}

#[test]
fn the_death_of_the_weak_kernel_ends_every_wait() {
    let mut pair = Pair::new(Lights::Runnable);
    pair.time(100);
    assert!(pair.gate.enter(CORES[0]).must_wait);
    pair.gate.peer_died();
    assert_eq!(pair.gate.may_run(CORES[0]), Permission::Refused);
    assert_eq!((pair.gate.outcome(), pair.gate.end()), (Some(End::Lost), None));
    assert_eq!(pair.gate.enter(CORES[1]), NOTHING);
}

#[test]
fn a_rest_of_the_weak_kernel_lets_the_thread_run_and_forgets_no_report() {
    let mut pair = Pair::new(Lights::Runnable);
    pair.time(100);
    // The Suspend lies in the ring of a kernel that rests.
    let _ = pair.gate.enter(CORES[0]);
    pair.gate.peer_rests(200);
    assert_eq!(pair.gate.may_run(CORES[0]), Permission::Granted);
    pair.gate.leave(CORES[0], 300);
    assert_eq!(pair.gate.due(), Some(400));
}

#[test]
fn a_message_from_the_future_is_refused() {
    let mut gate = Gate::new(FIRST, DELAYS);
    let report = Report { number: FIRST.next(), lights: Lights::Runnable };
    let forged = FromLight::Stopped { seq: FIRST.next(), report };
    assert!(gate.receive(forged, 0).is_err());
    assert_eq!(gate, Gate::new(FIRST, DELAYS));
}

#[test]
fn a_repeated_report_does_not_prolong_the_patience() {
    let mut gate = Gate::new(FIRST, DELAYS);
    let report = Report { number: FIRST.next(), lights: Lights::Runnable };
    gate.report(report, 10);
    let _ = gate.enter(CORES[0]);
    gate.report(report, 500);
    gate.leave(CORES[0], 5000);
    assert_eq!(gate.due(), Some(10 + DELAYS.patience_ns));
}

#[test]
fn memory_is_not_freed_while_the_answer_names_a_light_thread() {
    let mut gate = Gate::new(FIRST, DELAYS);
    let Some(ToLight::End(seq)) = gate.end() else { panic!("no End") };
    let report = Report { number: FIRST.next(), lights: Lights::Blocked };
    assert!(gate.acknowledged(seq, report, 0).is_err());
    assert_eq!(gate.outcome(), None);
    // An early report of the end is no answer either.
    let report = Report { lights: Lights::Absent, ..report };
    assert!(gate.acknowledged(FIRST, report, 0).is_ok());
    assert_eq!(gate.outcome(), None);
}

#[test]
fn an_end_without_a_group_is_answered() {
    let mut gate = Gate::new(FIRST, DELAYS);
    let Some(ToLight::End(seq)) = gate.end() else { panic!("no End") };
    assert_eq!(gate.outcome(), None);
    gate.receive(FromLight::without_group(seq), 0).expect("an answer");
    assert_eq!(gate.outcome(), Some(End::Ended));
}
