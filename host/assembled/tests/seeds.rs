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

/// Short workloads, and what each one does last.
const WORKLOADS: [(&str, &str); 5] = [
    ("files", "removals"),
    ("pipe", "pipes"),
    ("processes", "processes"),
    ("channel", "talks"),
    ("balloon", "blocks moved"),
];

#[test]
fn a_workload_does_what_its_name_says() {
    for (name, last) in WORKLOADS {
        let output = text(&assembled(&["--workload", name]));
        let is_done = output.contains(last) && !output.contains(&format!(" 0 {last},"));
        assert!(is_done, "{name}: {output}");
    }
}

/// Each run shows some of the points, and others than the run before; nightly all are run.
#[test]
fn a_domain_may_be_killed_or_stopped_at_each_step_of_a_workload() {
    const EVERY: u64 = 50;
    let offset = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let offset = (offset.as_secs() % EVERY).to_string();
    for (name, _) in WORKLOADS {
        let every = EVERY.to_string();
        let output = assembled(&["--all", name, "--every", &every, "--offset", &offset]);
        let text = format!("{name}, offset {offset}: {}", text(&output));
        assert!(output.status.success(), "{text}");
        let sums = text.lines().find(|line| line.contains("deaths, ")).unwrap_or_default();
        let runs = sums.split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let half = runs / 2;
        let wanted = format!("{runs} runs, {half} deaths, {half} stops, 0 failures");
        assert!(runs > 0 && sums.contains(&wanted), "{text}");
    }
}

#[test]
fn a_fault_that_only_a_death_shows_is_found_at_points_and_repeated() {
    // A kernel that names no processes to a table which has lost its state. Whether that matters
    // depends on the modes of services, and so on the seed.
    let mut runs = (2..10).map(|seed| {
        let options = ["--all", "processes", "--every", "50", "--break", "name", "--seed"];
        assembled(&[&options[..], &[&seed.to_string()]].concat())
    });
    let found = runs.find(|output| !output.status.success()).expect("some runs fail");
    let report = text(&found);
    let mut lines = report.lines();
    let again = lines.find_map(|line| line.trim().strip_prefix("again: assembled "));
    let again = assembled(&again.expect("a failure").split(' ').collect::<Vec<_>>());
    assert!(!again.status.success() && text(&again).contains("no order explains"), "{report}");
}

#[test]
fn a_run_that_does_not_reach_its_point_fails() {
    let output = assembled(&["--workload", "pipe", "--kill", "0@1000000"]);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("the run ended before the point"), "{}", text(&output));
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
    let output = assembled(&["--all", "fles"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("there is no workload fles"), "{}", text(&output));
}
