//! What a group answers, and when.

use kernel_light::{FromLight, Group, Lights, Permission, Report, Sequence, Stop, ToLight};

const FIRST: Sequence = Sequence(u32::MAX);

fn number(n: u32) -> Sequence {
    Sequence(FIRST.0.wrapping_add(n))
}

/// A group with a runnable thread, which has reported it.
fn group() -> Group {
    let mut group = Group::new(FIRST);
    assert!(matches!(group.changed(Lights::Runnable), Some(FromLight::Changed(_))));
    group
}

fn absent(number: Sequence) -> Report {
    Report { number, lights: Lights::Absent }
}

#[test]
fn it_reports_what_its_threads_want_only_while_it_is_stopped() {
    let mut group = group();
    assert_eq!(group.changed(Lights::Runnable), None);
    assert_eq!(group.receive(ToLight::Resume(number(1))), Stop::Nothing);
    assert_eq!(group.changed(Lights::Blocked), None);
    assert_eq!(group.receive(ToLight::Suspend(number(2))), Stop::Interrupt);
    assert_eq!(group.changed(Lights::Runnable), None);
    let report = Report { number: number(2), lights: Lights::Runnable };
    assert_eq!(group.stopped(), Some(FromLight::Stopped { seq: number(2), report }));
    assert_eq!(group.stopped(), None);
}

#[test]
fn a_resume_that_was_overtaken_does_nothing() {
    let mut group = group();
    assert_eq!(group.receive(ToLight::Suspend(number(2))), Stop::Interrupt);
    assert!(group.stopped().is_some());
    assert_eq!(group.receive(ToLight::Resume(number(1))), Stop::Nothing);
    assert_eq!(group.may_run(), Permission::Awaited);
}

#[test]
fn its_last_thread_returns_its_turn() {
    let mut group = group();
    assert_eq!(group.receive(ToLight::Resume(number(1))), Stop::Nothing);
    let answer = FromLight::Stopped { seq: number(1), report: absent(number(2)) };
    assert_eq!(group.changed(Lights::Absent), Some(answer));
    assert_eq!(group.may_run(), Permission::Awaited);
}

#[test]
fn an_end_is_answered_when_no_thread_is_left() {
    let mut group = group();
    assert_eq!(group.receive(ToLight::End(number(1))), Stop::Interrupt);
    assert_eq!((group.may_run(), group.stopped()), (Permission::Refused, None));
    assert_eq!(group.changed(Lights::Blocked), None);
    assert!(!group.is_over());
    let answer = FromLight::Stopped { seq: number(1), report: absent(number(2)) };
    assert_eq!(group.changed(Lights::Absent), Some(answer));
    assert!(group.is_over());
}

#[test]
fn an_end_without_threads_is_answered_at_once() {
    let mut group = Group::new(FIRST);
    let answer = FromLight::Stopped { seq: number(1), report: absent(number(1)) };
    assert_eq!(group.receive(ToLight::End(number(1))), Stop::Answer(answer));
    assert!(group.is_over());
}

#[test]
fn after_the_death_of_its_peer_its_threads_end_and_nothing_is_sent() {
    let mut group = group();
    group.peer_died();
    assert_eq!((group.may_run(), group.is_over()), (Permission::Refused, false));
    assert_eq!(group.receive(ToLight::Suspend(number(1))), Stop::Nothing);
    assert_eq!((group.stopped(), group.changed(Lights::Absent)), (None, None));
    assert!(group.is_over());
}

#[test]
fn a_group_without_threads_is_over_when_its_peer_dies() {
    let mut group = Group::new(FIRST);
    group.peer_died();
    assert!(group.is_over());
}
