//! Runs of whole kernels from fresh seeds, and proof that a run can fail.

use std::process::{Command, Output};
use std::time::SystemTime;

fn assembled(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assembled"));
    command.args(arguments).output().expect("the simulation starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Returns a first seed that no run had before.
fn fresh() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let start = (now.as_secs() % 1_000_000_000 * 1000).to_string();
    println!("seeds from {start}");
    start
}

#[test]
fn kernels_answer_as_they_should_in_200_fresh_runs() {
    let output = assembled(&["--seeds", "200", "--start", &fresh()]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_domain_may_be_killed_or_stopped_at_any_step() {
    let output = assembled(&["--points", "40", "--start", &fresh()]);
    assert!(output.status.success(), "{}", text(&output));
    let one = assembled(&["--seed", "3", "--stop", "0@15000", "--kill", "1@20000"]);
    assert!(one.status.success(), "{}", text(&one));
    assert!(text(&one).contains(" 1 deaths, 1 stops,"), "{}", text(&one));
}

#[test]
fn equal_seeds_are_equal_runs() {
    let traces = [3, 4, 5, 17].map(|seed| {
        let seed = seed.to_string();
        let [first, second] = [(); 2].map(|()| text(&assembled(&["--seed", &seed])));
        let trace =
            |text: &str| text.lines().find(|line| line.contains("trace")).map(str::to_owned);
        assert!(trace(&first).is_some(), "{first}");
        assert_eq!(trace(&first), trace(&second));
        first
    });
    assert!(traces.windows(2).all(|pair| pair[0] != pair[1]), "{traces:?}");
}

#[test]
fn what_the_chip_forgets_is_found() {
    let whole = assembled(&["--seeds", "20"]);
    assert!(whole.status.success(), "{}", text(&whole));
    for name in ["barrier", "clean", "invalidate", "ring"] {
        let output = assembled(&["--seeds", "20", "--break", name]);
        assert!(!output.status.success(), "{name}: all runs went well");
        assert!(text(&output).contains("again: assembled --seed"), "{name}: {}", text(&output));
    }
}

#[test]
fn a_lost_message_and_one_that_comes_twice_are_found() {
    for name in ["lose", "twice"] {
        let output = assembled(&["--seeds", "20", "--break", name]);
        assert!(!output.status.success(), "{name}: all runs went well");
    }
}

#[test]
fn what_no_order_explains_is_found() {
    for name in ["name", "read"] {
        // A run ends at the first one that fails.
        let output = assembled(&["--seeds", "500", "--break", name]);
        assert!(!output.status.success(), "{name}: all runs went well");
        let why = "no order explains the answers";
        assert!(text(&output).contains(why), "{name}: {}", text(&output));
    }
}

#[test]
fn a_wrong_option_is_explained() {
    let output = assembled(&["--break", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("the chip cannot forget nothing"), "{}", text(&output));
    let output = assembled(&["--kill", "2@5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("there is no domain 2"), "{}", text(&output));
}
