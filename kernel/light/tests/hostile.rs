//! Each machine alone, against any calls and any messages: nothing panics, and what a machine
//! promises holds whatever the other side sends.

use kernel_light::{
    Delays, End, FromLight, Gate, Group, Lights, Permission, Place, Report, Rest, Sequence, Stop,
    ToLight,
};
use proptest::prelude::*;

const DELAYS: Delays = Delays { quiet_ns: 100, patience_ns: 1000 };

fn sequence() -> impl Strategy<Value = Sequence> {
    prop_oneof![
        4 => (0u32..40).prop_map(|n| Sequence((u32::MAX - 9).wrapping_add(n))),
        1 => any::<u32>().prop_map(Sequence),
    ]
}

fn lights() -> impl Strategy<Value = Lights> {
    prop_oneof![Just(Lights::Absent), Just(Lights::Blocked), Just(Lights::Runnable)]
}

fn report() -> impl Strategy<Value = Report> {
    (sequence(), lights()).prop_map(|(number, lights)| Report { number, lights })
}

#[derive(Clone, Debug)]
enum Call {
    Dispatch(u8),
    Left(u8),
    Message(FromLight),
    /// The answer to the last message, as a group would give it.
    Answer(Lights),
    Time,
    Rest,
    PeerRests,
    End,
    PeerDied,
}

fn call() -> impl Strategy<Value = Call> {
    let stopped = (sequence(), report())
        .prop_map(|(seq, report)| Call::Message(FromLight::Stopped { seq, report }));
    prop_oneof![
        8 => (0u8..3).prop_map(Call::Dispatch),
        8 => (0u8..3).prop_map(Call::Left),
        2 => any::<u8>().prop_map(Call::Left),
        2 => stopped,
        2 => report().prop_map(|report| Call::Message(FromLight::Changed(report))),
        8 => lights().prop_map(Call::Answer),
        8 => Just(Call::Time),
        1 => Just(Call::Rest),
        1 => Just(Call::PeerRests),
        1 => prop_oneof![9 => Just(Call::Time), 1 => Just(Call::End), 1 => Just(Call::PeerDied)],
    ]
}

/// A gate, and what the test knows of it.
struct Watched {
    gate: Gate,
    cores: Vec<u8>,
    last: Option<ToLight>,
    seq: Sequence,
    reports: Sequence,
    /// The last message has been answered, or needs no answer.
    is_answered: bool,
    now: u64,
}

impl Watched {
    fn new(first: Sequence) -> Watched {
        let gate = Gate::new(first, DELAYS);
        Watched {
            gate,
            cores: vec![],
            last: None,
            seq: first,
            reports: first,
            is_answered: false,
            now: 0,
        }
    }

    fn call(&mut self, call: Call) -> Option<ToLight> {
        match call {
            Call::Dispatch(core) => {
                self.cores.retain(|other| *other != core);
                self.cores.push(core);
                return self.gate.enter(Place(core)).send;
            }
            Call::Left(core) => {
                self.cores.retain(|other| *other != core);
                self.gate.leave(Place(core), self.now);
            }
            Call::Message(message) => {
                self.is_answered |=
                    matches!(message, FromLight::Stopped { seq, .. } if seq == self.seq);
                let before = self.gate.clone();
                if self.gate.receive(message, self.now).is_err() {
                    assert_eq!(self.gate, before, "a refused message has changed the gate");
                }
            }
            Call::Answer(lights) => {
                self.reports = self.reports.next();
                let report = Report { number: self.reports, lights };
                self.is_answered = true;
                // Refused if threads are left at the end.
                let _ = self.gate.acknowledged(self.seq, report, self.now);
            }
            Call::Time => return self.gate.time(self.now),
            Call::Rest => match self.gate.rest() {
                Rest::Ready(message) => return message,
                Rest::NotYet => {}
            },
            Call::PeerRests => {
                self.is_answered |= self.gate.is_closing();
                self.gate.peer_rests(self.now);
            }
            Call::End => return self.gate.end(),
            Call::PeerDied => self.gate.peer_died(),
        }
        None
    }

    /// Checks what was sent: numbers in order, each Suspend after a Resume, and a Resume only while
    /// no normal thread is on a core.
    fn sent(&mut self, message: ToLight) {
        let (ToLight::Suspend(seq) | ToLight::Resume(seq) | ToLight::End(seq)) = message;
        assert_eq!(seq, self.seq.next());
        let opens = matches!(self.last, Some(ToLight::Resume(_)));
        match message {
            ToLight::Suspend(_) => assert!(opens),
            ToLight::Resume(_) => assert!(self.cores.is_empty()),
            ToLight::End(_) => {}
        }
        assert!(!matches!(self.last, Some(ToLight::End(_))), "a message after the end");
        (self.seq, self.last, self.is_answered) = (seq, Some(message), false);
    }

    fn check(&self) {
        for core in 0..4 {
            if self.gate.may_run(Place(core)) == Permission::Granted {
                assert!(self.cores.contains(&core));
                assert!(self.last.is_none() || self.is_answered, "granted without an answer");
            }
        }
        if self.gate.due().is_some() {
            assert!(self.cores.is_empty(), "a gate that opens while a normal thread runs");
        }
        if let Some(end) = self.gate.outcome() {
            assert_eq!(self.gate.may_run(Place(0)), Permission::Refused);
            assert!(end == End::Lost || matches!(self.last, Some(ToLight::End(_))));
        }
    }
}

#[derive(Clone, Debug)]
enum GroupCall {
    Message(ToLight),
    Stopped,
    Changed(Lights),
    PeerDied,
}

fn group_call() -> impl Strategy<Value = GroupCall> {
    let message = (sequence(), 0..9u8).prop_map(|(seq, kind)| {
        GroupCall::Message(match kind {
            0 => ToLight::End(seq),
            1..5 => ToLight::Suspend(seq),
            _ => ToLight::Resume(seq),
        })
    });
    prop_oneof![
        8 => message,
        8 => lights().prop_map(GroupCall::Changed),
        4 => Just(GroupCall::Stopped),
        1 => prop_oneof![9 => Just(GroupCall::Stopped), 1 => Just(GroupCall::PeerDied)],
    ]
}

/// A group, and the newest message that it has received.
struct WatchedGroup {
    group: Group,
    newest: (Sequence, Permission),
    number: Sequence,
    died: bool,
}

impl WatchedGroup {
    fn message(&mut self, message: ToLight) -> Option<FromLight> {
        let (ToLight::Suspend(seq) | ToLight::Resume(seq) | ToLight::End(seq)) = message;
        let ended = self.newest.1 == Permission::Refused;
        if seq.is_after(self.newest.0) && !ended && !self.died {
            let permission = match message {
                ToLight::Suspend(_) => Permission::Awaited,
                ToLight::Resume(_) => Permission::Granted,
                ToLight::End(_) => Permission::Refused,
            };
            self.newest = (seq, permission);
        }
        match self.group.receive(message) {
            Stop::Answer(answer) => Some(answer),
            Stop::Nothing | Stop::Interrupt => None,
        }
    }

    fn call(&mut self, call: GroupCall) -> Option<FromLight> {
        match call {
            GroupCall::Message(message) => self.message(message),
            GroupCall::Stopped => self.group.stopped(),
            GroupCall::Changed(lights) => self.group.changed(lights),
            GroupCall::PeerDied => {
                self.died = true;
                self.group.peer_died();
                None
            }
        }
    }

    /// Checks what was sent: numbers in order, answers to the newest message only, and nothing to a
    /// dead kernel.
    fn sent(&mut self, message: FromLight) {
        assert!(!self.died);
        let (FromLight::Stopped { report, .. } | FromLight::Changed(report)) = message;
        assert_eq!(report.number, self.number.next());
        self.number = report.number;
        if let FromLight::Stopped { seq, report } = message {
            assert_eq!(seq, self.newest.0);
            assert!(self.newest.1 != Permission::Refused || report.lights == Lights::Absent);
        }
        assert_ne!(self.group.may_run(), Permission::Granted, "a stopped group that may run");
    }

    /// Threads run only if the newest message allows it, and the kernel that sent it lives.
    fn check(&self) {
        match self.group.may_run() {
            Permission::Granted => assert_eq!(self.newest.1, Permission::Granted),
            Permission::Awaited => assert!(self.newest.1 != Permission::Refused && !self.died),
            Permission::Refused => assert!(self.newest.1 == Permission::Refused || self.died),
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_gate_keeps_its_promises_against_any_calls(
        first in sequence(),
        calls in prop::collection::vec((call(), 0u64..500), 0..200),
    ) {
        let mut watched = Watched::new(first);
        for (call, pause) in calls {
            watched.now += pause;
            if let Some(message) = watched.call(call) {
                watched.sent(message);
            }
            watched.check();
        }
    }

    #[test]
    fn a_group_runs_only_what_the_newest_message_allows(
        first in sequence(),
        calls in prop::collection::vec(group_call(), 0..200),
    ) {
        let group = Group::new(first);
        let newest = (first, Permission::Awaited);
        let mut watched = WatchedGroup { group, newest, number: first, died: false };
        for call in calls {
            if let Some(message) = watched.call(call) {
                watched.sent(message);
            }
            watched.check();
        }
    }
}
