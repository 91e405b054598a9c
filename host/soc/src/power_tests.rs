//! The power controller without emulators: every transition of its diagram, and failures.

use super::*;

const ME: Asker = Asker::Kernel(0, 7);
const OTHER: Asker = Asker::Kernel(1, 9);
const CLIENT: Asker = Asker::Client(1);

fn board(restart: bool) -> Power {
    let policy = Policy { restart, essential: false, max_deaths: 100 };
    let mut power = Power::new(&[policy, policy]);
    for d in 0..2 {
        power.step(0, Event::PowerOn(d));
        power.step(0, Event::Request(Asker::Kernel(d, 1), command::READY, 0, 0));
    }
    power
}

fn ask(power: &mut Power, asker: Asker, command: u64, arg0: u64, arg1: u64) -> Vec<Effect> {
    power.step(0, Event::Request(asker, command, arg0, arg1))
}

/// Completes the one job among `effects`.
fn finish(power: &mut Power, effects: &[Effect], good: bool) -> Vec<Effect> {
    let mut jobs = effects.iter().filter_map(|e| match e {
        Effect::Emulator(d, _, number) => Some((*d, *number)),
        _ => None,
    });
    let (d, number) = jobs.next().expect("a job was started");
    assert_eq!(jobs.next(), None);
    power.step(0, Event::JobDone(d, number, good))
}

fn state_of(power: &Power, d: usize) -> (u64, u64) {
    let view = power.view(d).unwrap();
    (view.epoch, view.state)
}

#[test]
fn a_cold_boot_prepares_everything_before_the_emulator_runs() {
    let policy = Policy { restart: true, essential: false, max_deaths: 100 };
    let mut power = Power::new(&[policy]);
    assert_eq!(
        power.step(0, Event::PowerOn(0)),
        [
            Effect::Fence(0),
            Effect::Prepare(0, 0, 1),
            Effect::Publish(0, pack_state(1, state::BOOTING), 0),
            Effect::Spawn(0),
        ]
    );
    assert_eq!(
        ask(&mut power, ME, command::READY, 0, 0),
        [Effect::Publish(0, pack_state(1, state::RUNNING), 0), Effect::Answer(ME, error::NONE, 1),]
    );
}

#[test]
fn no_epoch_is_used_twice() {
    let policy = Policy { restart: true, essential: false, max_deaths: u64::MAX };
    let mut power = Power::new(&[policy]);
    power.step(0, Event::PowerOn(0));
    for epoch in 1..LAST_EPOCH {
        assert_eq!(state_of(&power, 0), (epoch, state::BOOTING));
        power.step(epoch * 2 * CRASH_WINDOW_NS, Event::Ended(0));
    }
    let end = power.step(LAST_EPOCH * 2 * CRASH_WINDOW_NS, Event::Ended(0));
    assert!(end.contains(&Effect::Died(0, Fate::Last)));
    assert_eq!(state_of(&power, 0), (LAST_EPOCH, state::DEAD));
    let refused = [Effect::Answer(CLIENT, error::STATE, 0)];
    assert_eq!(ask(&mut power, CLIENT, command::WAKE, 0, 0), refused);
    assert_eq!(
        ask(&mut power, CLIENT, command::OFF, 0, 0).last(),
        Some(&Effect::Answer(CLIENT, error::NONE, 0))
    );
    assert_eq!(ask(&mut power, CLIENT, command::WAKE, 0, 0), refused);
}

#[test]
fn inactive_is_published_once_stopped_and_undone_before_it_continues() {
    let mut power = board(true);
    let effects = ask(&mut power, OTHER, command::INACTIVE, 0, 0);
    assert_eq!(effects, [Effect::Emulator(0, Job::Stop, 1)]);
    assert_eq!(
        finish(&mut power, &effects, true),
        [
            Effect::Publish(0, pack_state(1, state::INACTIVE), 0),
            Effect::Answer(OTHER, error::NONE, 0),
        ]
    );
    let effects = ask(&mut power, OTHER, command::WAKE, 0, 0);
    assert_eq!(
        effects,
        [
            Effect::Publish(0, pack_state(1, state::RUNNING), 0),
            Effect::Emulator(0, Job::Continue, 2),
        ]
    );
    assert_eq!(finish(&mut power, &effects, true), [Effect::Answer(OTHER, error::NONE, 0)]);
}

#[test]
fn off_by_itself_keeps_epoch_and_warm_entry() {
    let mut power = board(true);
    let effects = ask(&mut power, ME, command::OFF, 0, 0x1234);
    assert_eq!(
        finish(&mut power, &effects, true),
        [
            Effect::Left(0),
            Effect::Publish(0, pack_state(1, state::OFF), 0),
            Effect::Answer(ME, error::NONE, 0)
        ]
    );
    let effects = ask(&mut power, OTHER, command::WAKE, 0, 0);
    assert_eq!(
        effects,
        [
            Effect::Prepare(0, 0x1234, 1),
            Effect::Publish(0, pack_state(1, state::BOOTING), 0),
            Effect::Emulator(0, Job::Continue, 2),
        ]
    );
}

#[test]
fn off_by_another_is_cold_and_fenced() {
    let mut power = board(true);
    let effects = ask(&mut power, OTHER, command::OFF, 0, 0x1234);
    assert_eq!(
        finish(&mut power, &effects, true),
        [
            Effect::Fence(0),
            Effect::Lost(0, 1),
            Effect::Publish(0, pack_state(1, state::COLD), 0),
            Effect::Answer(OTHER, error::NONE, 0)
        ]
    );
    let effects = ask(&mut power, OTHER, command::WAKE, 0, 0);
    assert_eq!(effects[..2], [Effect::Fence(0), Effect::Prepare(0, 0, 2)]);
    assert_eq!(state_of(&power, 0), (2, state::BOOTING));
}

#[test]
fn a_dead_domain_comes_back_under_a_new_epoch() {
    let mut power = board(true);
    assert_eq!(
        power.step(5, Event::Ended(1)),
        [
            Effect::Fence(1),
            Effect::Lost(1, 1),
            Effect::Publish(1, pack_state(1, state::DEAD), 1),
            Effect::Died(1, Fate::Restarts),
            Effect::Fence(1),
            Effect::Prepare(1, 0, 2),
            Effect::Publish(1, pack_state(2, state::BOOTING), 1),
            Effect::Spawn(1),
        ]
    );
}

#[test]
fn without_restart_it_stays_dead_until_somebody_wakes_it() {
    let mut power = board(false);
    power.step(5, Event::Ended(1));
    assert_eq!(state_of(&power, 1), (1, state::DEAD));
    let effects = ask(&mut power, ME, command::WAKE, 1, 0);
    assert!(effects.contains(&Effect::Spawn(1)) && effects.contains(&Effect::Answer(ME, 0, 0)));
    assert_eq!(state_of(&power, 1), (2, state::BOOTING));
}

#[test]
fn an_essential_domain_takes_the_board_with_it() {
    let mut power = Power::new(&[Policy { restart: true, essential: true, max_deaths: 100 }]);
    power.step(0, Event::PowerOn(0));
    let effects = power.step(1, Event::Ended(0));
    assert!(effects.ends_with(&[Effect::Died(0, Fate::Essential), Effect::End(false)]));
    assert!(!effects.contains(&Effect::Spawn(0)));
}

#[test]
fn the_board_ends_with_the_last_domain_that_is_not_started_again() {
    let mut power = board(false);
    let effects = power.step(1, Event::Ended(0));
    assert!(effects.ends_with(&[Effect::Died(0, Fate::Stays)]));
    let effects = power.step(2, Event::Ended(1));
    assert!(effects.ends_with(&[Effect::Died(1, Fate::Last), Effect::End(false)]));
    // All at once, and each is started again.
    let mut power = board(true);
    for d in 0..2 {
        assert!(power.step(1, Event::Ended(d)).contains(&Effect::Spawn(d)));
    }
    // One that is off, and one that crashes too often.
    let mut power = board(true);
    ask(&mut power, OTHER, command::OFF, 1, 0x8000_0000);
    (0..=CRASH_LOOP).for_each(|n| drop(power.step(n as u64, Event::Ended(0))));
    assert_eq!(state_of(&power, 0).1, state::DEAD);
    assert!(ask(&mut power, CLIENT, command::WAKE, 0, 0).contains(&Effect::Spawn(0)));
}

#[test]
fn a_crash_loop_ends_but_slow_deaths_and_deaths_after_ready_do_not() {
    for (gap, ready, survives) in
        [(1_000, false, false), (CRASH_WINDOW_NS, false, true), (1_000, true, true)]
    {
        let mut power = board(true);
        for n in 0..20 {
            if ready {
                power.step(n * gap, Event::Request(Asker::Kernel(1, n), command::READY, 0, 0));
            }
            power.step(n * gap, Event::Ended(1));
            if state_of(&power, 1).1 == state::DEAD {
                break;
            }
        }
        assert_eq!(state_of(&power, 1).1 == state::BOOTING, survives, "gap {gap}, ready {ready}");
    }
}

#[test]
fn panic_says_whether_to_come_back() {
    for (again, restarts) in [(1, true), (0, false)] {
        let mut power = board(!restarts);
        assert_eq!(ask(&mut power, OTHER, command::PANIC, again, 0), [Effect::Kill(1)]);
        assert_eq!(ask(&mut power, OTHER, command::TIME, 0, 0), [], "the condemned have no say");
        assert_eq!(power.step(0, Event::Ended(1)).contains(&Effect::Spawn(1)), restarts);
    }
}

#[test]
fn requests_wait_behind_a_job_and_are_served_in_order() {
    let mut power = board(true);
    let stop = ask(&mut power, ME, command::INACTIVE, 0, 0);
    assert_eq!(ask(&mut power, OTHER, command::WAKE, 0, 0), []);
    let effects = finish(&mut power, &stop, true);
    assert_eq!(
        effects,
        [
            Effect::Publish(0, pack_state(1, state::INACTIVE), 0),
            Effect::Answer(ME, error::NONE, 0),
            Effect::Publish(0, pack_state(1, state::RUNNING), 0),
            Effect::Emulator(0, Job::Continue, 2),
        ]
    );
    assert_eq!(finish(&mut power, &effects, true), [Effect::Answer(OTHER, error::NONE, 0)]);
}

#[test]
fn a_failed_job_kills_and_says_so() {
    let mut power = board(true);
    let effects = ask(&mut power, CLIENT, command::INACTIVE, 0, 0);
    assert_eq!(
        finish(&mut power, &effects, false),
        [Effect::Answer(CLIENT, error::PLATFORM, 0), Effect::Kill(0)]
    );
}

#[test]
fn a_death_during_a_job_answers_the_asker_and_late_results_are_ignored() {
    let mut power = board(true);
    ask(&mut power, OTHER, command::INACTIVE, 0, 0);
    let effects = power.step(0, Event::Ended(0));
    assert!(effects.contains(&Effect::Answer(OTHER, error::PLATFORM, 0)));
    assert_eq!(power.step(0, Event::JobDone(0, 1, true)), []);
    assert_eq!(state_of(&power, 0), (2, state::BOOTING));
}

#[test]
fn an_asker_that_died_is_never_answered() {
    let mut power = board(true);
    let stop = ask(&mut power, OTHER, command::INACTIVE, 0, 0);
    power.step(0, Event::Ended(1));
    let effects = finish(&mut power, &stop, true);
    assert_eq!(effects, [Effect::Publish(0, pack_state(1, state::INACTIVE), 0)]);
}

#[test]
fn nonsense_is_refused_and_states_are_checked() {
    let mut power = board(false);
    power.step(0, Event::Ended(1));
    let table = [
        (command::INACTIVE, 1, error::STATE),
        (command::INACTIVE, 2, error::INVALID),
        (command::WAKE, u64::MAX, error::INVALID),
        (99, 0, error::INVALID),
        (command::WAKE, 0, error::NONE),
        (command::OFF, 1, error::NONE),
    ];
    for (command, domain, expected) in table {
        let effects = ask(&mut power, ME, command, domain, 0);
        assert_eq!(effects.last(), Some(&Effect::Answer(ME, expected, 0)), "command {command}");
    }
}

fn rest(power: &mut Power, until: u64) {
    let effects = ask(power, ME, command::REST, until, 0x18);
    let published = Effect::Publish(0, pack_state(1, state::RESTING), 0);
    let answer = Effect::Answer(ME, error::NONE, 0);
    assert_eq!(effects, [Effect::Listen(0, 0x18), Effect::Left(0), published, answer]);
}

#[test]
fn only_a_domain_that_has_not_left_loses_pages() {
    let is_loss = |effect: &Effect| matches!(effect, Effect::Lost(..));
    let mut power = board(true);
    rest(&mut power, u64::MAX);
    assert!(!power.step(5, Event::Ended(0)).iter().any(is_loss), "it dies at rest");
    assert!(power.step(6, Event::Ended(0)).iter().any(is_loss), "it dies while it boots");

    let mut power = board(true);
    let stop = ask(&mut power, CLIENT, command::INACTIVE, 0, 0);
    finish(&mut power, &stop, true);
    assert!(power.step(5, Event::Ended(0)).iter().any(is_loss), "it was stopped anywhere");

    let mut power = board(true);
    let off = ask(&mut power, ME, command::OFF, 0, 0x1234);
    finish(&mut power, &off, true);
    let cold = ask(&mut power, OTHER, command::OFF, 0, 0);
    assert!(!cold.iter().any(is_loss), "its memory is given up after it has left");
    assert_eq!(state_of(&power, 0), (1, state::COLD));
}

#[test]
fn a_rest_ends_by_a_wake_a_device_the_time_or_the_end_of_the_others() {
    type End = fn(&mut Power) -> Vec<Effect>;
    let ends: [End; 6] = [
        |power| ask(power, OTHER, command::WAKE, 0, 0),
        |power| power.step(0, Event::Rung(0)),
        |power| {
            assert_eq!(power.alarm(), Some(50));
            assert_eq!(power.step(49, Event::Time), []);
            power.step(50, Event::Time)
        },
        |power| {
            ask(power, OTHER, command::PANIC, 0, 0);
            power.step(0, Event::Ended(1))
        },
        // The other one served the devices, perhaps.
        |power| {
            let stop = ask(power, CLIENT, command::OFF, 1, 0);
            finish(power, &stop, true)
        },
        |power| {
            let stop = ask(power, CLIENT, command::INACTIVE, 1, 0);
            finish(power, &stop, true)
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let mut power = board(true);
        rest(&mut power, 50);
        let stop = ask(&mut power, ME, command::SLEEP, 0, 0);
        assert_eq!(finish(&mut power, &stop, true), [Effect::Answer(ME, error::NONE, 0)]);
        assert_eq!(state_of(&power, 0), (1, state::RESTING));
        let woken = end(&mut power);
        assert_eq!(state_of(&power, 0), (1, state::RUNNING), "end {number}");
        assert!(woken.contains(&Effect::Listen(0, 0)));
        finish(&mut power, &woken, true);
        assert_eq!((power.alarm(), power.step(99, Event::Time)), (None, vec![]));
    }
}

#[test]
fn a_domain_whose_rest_has_ended_is_not_stopped() {
    let mut power = board(true);
    let refused = [Effect::Answer(ME, error::STATE, 0)];
    assert_eq!(ask(&mut power, ME, command::SLEEP, 0, 0), refused, "it has not asked to rest");
    rest(&mut power, u64::MAX);
    assert_eq!(power.alarm(), None);
    assert_eq!(
        ask(&mut power, CLIENT, command::INACTIVE, 0, 0),
        [Effect::Answer(CLIENT, error::STATE, 0)]
    );
    ask(&mut power, OTHER, command::WAKE, 0, 0);
    assert_eq!(ask(&mut power, ME, command::SLEEP, 0, 0), refused);
    // A wake that arrives while it is being stopped waits for that.
    rest(&mut power, u64::MAX);
    let stop = ask(&mut power, ME, command::SLEEP, 0, 0);
    assert_eq!(power.step(0, Event::Rung(0)), []);
    assert_eq!(power.step(0, Event::Rung(0)), []);
    let woken = finish(&mut power, &stop, true);
    assert_eq!(state_of(&power, 0), (1, state::RUNNING));
    assert!(woken.iter().any(|effect| matches!(effect, Effect::Emulator(0, Job::Continue, _))));
}
