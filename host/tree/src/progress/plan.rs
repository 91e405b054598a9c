//! How far a first run is: the stages that `./pen` found missing when it began, each with its
//! weight (`stages.txt`), and from the time that the finished ones took an estimate of the rest.
//! Stages may run at the same time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STAGES: &str = include_str!("../../stages.txt");
/// Set by `./pen`: the second at which it began, and the names of the stages to do, in order.
const VARIABLE: &str = "PEN_PLAN";
/// An estimate from less than this share of the work would be a guess.
const EARLY: f64 = 0.02;
/// Stages that are done when this program runs.
const BEFORE: &[&str] = &["packages", "tools"];

/// The part of each stage that is done.
static DONE: Mutex<BTreeMap<String, f64>> = Mutex::new(BTreeMap::new());

/// Records that `fraction` of `stage` is done.
pub fn set_done(stage: &str, fraction: f64) {
    DONE.lock().unwrap_or_else(PoisonError::into_inner).insert(stage.to_string(), fraction);
}

/// The stages that this run does.
#[derive(Clone, Debug)]
pub struct Plan {
    begun: SystemTime,
    stages: Vec<(String, f64)>,
}

impl Plan {
    /// Returns the plan of this run, if it has more to do than usual.
    pub fn of_this_run() -> Option<Plan> {
        Plan::parse(&std::env::var(VARIABLE).ok()?)
    }

    fn parse(text: &str) -> Option<Plan> {
        let mut words = text.split_whitespace();
        let begun = UNIX_EPOCH + Duration::from_secs(words.next()?.parse().ok()?);
        let stages = words.map(|name| Some((name.to_string(), weight(name)?)));
        Some(Plan { begun, stages: stages.collect::<Option<Vec<_>>>()? })
    }

    /// Returns `37 %, about 4 min left: ` for a line about `stage`, or nothing if the stage is not
    /// part of the plan.
    pub fn at(&self, stage: &str) -> String {
        let elapsed = self.begun.elapsed().unwrap_or_default();
        let done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        self.text(stage, &done, elapsed).unwrap_or_default()
    }

    fn text(&self, stage: &str, done: &BTreeMap<String, f64>, elapsed: Duration) -> Option<String> {
        self.stages.iter().find(|(name, _)| name == stage)?;
        let done_of = |name: &str| match BEFORE.contains(&name) {
            true => 1.0,
            false => done.get(name).map_or(0.0, |fraction| fraction.clamp(0.0, 1.0)),
        };
        let all: f64 = self.stages.iter().map(|(_, weight)| weight).sum();
        let done: f64 = self.stages.iter().map(|(name, weight)| weight * done_of(name)).sum();
        let share = done / all;
        let percent = (share * 100.0) as u32;
        if share < EARLY {
            return Some(format!("{percent} %: "));
        }
        let left = elapsed.as_secs_f64() * (1.0 - share) / share;
        Some(match (left / 60.0).round() as u64 {
            0 => format!("{percent} %, less than a minute left: "),
            minutes => format!("{percent} %, about {minutes} min left: "),
        })
    }
}

fn weight(stage: &str) -> Option<f64> {
    let lines = STAGES.lines().filter(|line| !line.starts_with('#'));
    let mut words = lines.map(str::split_whitespace);
    words.find_map(|mut line| (line.next()? == stage).then(|| line.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_all_planned_stages_and_of_no_other() {
        let plan = Plan::parse("1000 tools kernels coreutils").unwrap();
        let weight = |name| weight(name).unwrap();
        let all = weight("tools") + weight("kernels") + weight("coreutils");
        let half = BTreeMap::from([("kernels".to_string(), 0.5), ("sed".to_string(), 1.0)]);
        let share = (weight("tools") + weight("kernels") / 2.0) / all;
        let elapsed = Duration::from_secs_f64(300.0 * share / (1.0 - share));
        let percent = (share * 100.0) as u32;
        let expected = format!("{percent} %, about 5 min left: ");
        assert_eq!(plan.text("kernels", &half, elapsed).unwrap(), expected);
        assert_eq!(plan.text("coreutils", &half, elapsed).unwrap(), expected);
        assert_eq!(plan.text("sed", &half, elapsed), None);
        let whole = ["kernels", "coreutils"].map(|name| (name.to_string(), 1.0));
        let text = plan.text("coreutils", &BTreeMap::from(whole), elapsed).unwrap();
        assert_eq!(text, "100 %, less than a minute left: ");
        let early = Plan::parse("1000 kernels").unwrap();
        assert_eq!(early.text("kernels", &BTreeMap::new(), elapsed).unwrap(), "0 %: ");
    }

    #[test]
    fn every_stage_has_a_weight_and_nonsense_is_no_plan() {
        let lines = STAGES.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            assert_eq!(line.split_whitespace().count(), 3, "{line}");
            assert!(weight(line.split_whitespace().next().unwrap()).unwrap() > 0.0, "{line}");
        }
        assert!(Plan::parse("").is_none() && Plan::parse("soon kernels").is_none());
        assert!(Plan::parse("1000 tea").is_none());
    }
}
