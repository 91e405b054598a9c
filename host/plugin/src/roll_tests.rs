//! Cores that park, idle and continue in every order: there is always a next step.

use super::*;
use proptest::prelude::*;

#[test]
fn the_last_to_arrive_leads_and_all_go_on() {
    let mut roll = Roll::new(2);
    roll.park(0, 10, false);
    assert!(roll.core_may_lead(Phase::Running), "the other has not started");
    assert_eq!(roll.settle(0, 0), 10);
    roll.grant(10, 50);
    assert_eq!(roll.take_grant(0), Some(Grant { from: 10, until: 50 }));
    roll.park(1, 0, false);
    assert!(!roll.core_may_lead(Phase::Running), "core 0 is under way");
    roll.park(0, 52, false);
    assert!(roll.core_may_lead(Phase::Running));
    roll.set_leading(true);
    assert!(!roll.core_may_lead(Phase::Running), "one leader");
    assert_eq!(roll.settle(10, 10), 10);
    roll.grant(10, 50);
    assert_eq!(roll.at(0), At::Parked, "it is at the horizon");
    assert_eq!(roll.take_grant(1), Some(Grant { from: 10, until: 50 }));
    assert_eq!(roll.take_spent(), (10 + 42, 10));
}

#[test]
fn a_sync_point_waits_for_fellows() {
    let mut roll = Roll::new(2);
    roll.park(0, 30, true);
    roll.park(1, 10, false);
    roll.grant(10, 100);
    assert_eq!((roll.take_grant(0), roll.at(0)), (None, At::Parked));
    assert_eq!(roll.take_grant(1), Some(Grant { from: 10, until: 30 }));
    roll.park(1, 31, false);
    roll.grant(30, 100);
    assert_eq!(roll.take_grant(0), Some(Grant { from: 30, until: 100 }));
    assert_eq!(roll.at(1), At::Running);
}

#[test]
fn the_helper_leads_where_all_wait() {
    let mut roll = Roll::new(2);
    assert!(!roll.helper_may_lead(Phase::Running), "no core has run yet");
    roll.idle(1, 0);
    assert_eq!(roll.at(1), At::Away, "off");
    roll.park(0, 5, false);
    roll.overrun(0);
    roll.idle(0, 9);
    assert!(roll.helper_may_lead(Phase::Running) && !roll.core_may_lead(Phase::Running));
    assert_eq!(roll.settle(5, 5), 9, "as late as the last one");
    roll.summon(0);
    roll.summon(1);
    assert_eq!((roll.at(0), roll.at(1)), (At::Summoned, At::Away));
    assert!(!roll.helper_may_lead(Phase::Idle), "one is under way");
    roll.idle(0, 9);
    assert!(roll.helper_may_lead(Phase::Idle), "it had nothing to do after all");
    roll.park(0, 9, false);
    assert!(roll.helper_may_lead(Phase::Idle), "it has to be told that the seat runs");
    assert!(!roll.core_may_lead(Phase::Idle) && roll.core_may_lead(Phase::Running));
    roll.idle(0, 9);
    roll.live(1);
    assert!(!roll.helper_may_lead(Phase::Running), "another life");
}

#[test]
fn what_somebody_else_accounted_for_is_not_counted_twice() {
    let mut roll = Roll::new(2);
    roll.park(0, 10, false);
    assert_eq!(roll.settle(0, 0), 10);
    assert_eq!(roll.take_spent(), (10, 10));
    assert_eq!(roll.settle(1000, 900), 1000);
    assert_eq!(roll.take_spent(), (0, 200));
}

/// What can happen to a core, in the order that QEMU and the threads allow.
#[derive(Clone, Copy, Debug)]
enum Step {
    Block(usize, Ps),
    Wait(usize, Ps),
    Overrun(usize),
    Lead(Ps),
    Work(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (core, time) = (0usize..3, 0u64..30);
    prop_oneof![
        (core.clone(), time.clone()).prop_map(|(core, time)| Step::Block(core, time)),
        (core.clone(), time.clone()).prop_map(|(core, time)| Step::Wait(core, time)),
        core.clone().prop_map(Step::Overrun),
        time.prop_map(Step::Lead),
        core.prop_map(Step::Work),
    ]
}

proptest! {
    /// After any steps there is a next one; time does not go back, and every core's time up to the
    /// seat's is accounted for exactly once.
    #[test]
    fn somebody_goes_on(steps in prop::collection::vec(step(), 0..200)) {
        let mut roll = Roll::new(3);
        let (mut now, mut spent, mut asleep) = (0, 0, false);
        for step in steps {
            match step {
                Step::Block(core, time) if roll.at(core) != At::Parked => {
                    let ran = if roll.at(core) == At::Running { time } else { 0 };
                    roll.park(core, roll.cores[core].time + ran, time % 3 == 0);
                }
                Step::Wait(core, time) if roll.at(core) == At::Running => {
                    roll.idle(core, roll.cores[core].time + time);
                }
                Step::Wait(core, _) if roll.at(core) == At::Summoned => roll.idle(core, 0),
                Step::Overrun(core) if roll.at(core) == At::Parked => drop(roll.overrun(core)),
                Step::Work(core) => roll.summon(core),
                Step::Lead(ahead) => {
                    let phase = if asleep { Phase::Idle } else { Phase::Running };
                    if roll.core_may_lead(phase) || roll.helper_may_lead(phase) {
                        let from = if asleep { now + ahead } else { now };
                        let time = roll.settle(from, 0);
                        prop_assert!(time >= now);
                        now = time;
                        asleep = roll.rests();
                        let (active, waiting) = roll.take_spent();
                        spent += active + waiting;
                        let over: Ps = roll.cores.iter().map(|core| core.accounted).sum();
                        prop_assert_eq!(spent, over);
                        prop_assert!(roll.cores.iter().all(|core| core.accounted >= now));
                        roll.grant(now, now + 20);
                        prop_assert!(asleep || !roll.gathered(), "a core runs");
                    }
                }
                _ => {}
            }
            let phase = if asleep { Phase::Idle } else { Phase::Running };
            let goes_on = roll.core_may_lead(phase) || roll.helper_may_lead(phase)
                || !roll.gathered() || roll.all(|at| at == At::Away);
            prop_assert!(goes_on, "{roll:?}");
        }
    }
}
