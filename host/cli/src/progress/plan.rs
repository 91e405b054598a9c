//! How far a first run is: the stages that `./pen` found missing when it began, each with its
//! weight (`stages.txt`), and from the time that the finished ones took an estimate of the rest.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STAGES: &str = include_str!("../../stages.txt");
/// Set by `./pen`: the second at which it began, and the names of the stages to do, in order.
const VARIABLE: &str = "PEN_PLAN";
/// An estimate from less than this share of the work would be a guess.
const EARLY: f64 = 0.02;

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

    /// Returns `37 %, about 4 min left: ` while `fraction` of `stage` is done; nothing if the stage
    /// is not part of the plan.
    pub fn at(&self, stage: &str, fraction: f64) -> String {
        let elapsed = self.begun.elapsed().unwrap_or_default();
        self.told(stage, fraction, elapsed).unwrap_or_default()
    }

    fn told(&self, stage: &str, fraction: f64, elapsed: Duration) -> Option<String> {
        let at = self.stages.iter().position(|(name, _)| name == stage)?;
        let sum = |stages: &[(String, f64)]| stages.iter().map(|(_, weight)| weight).sum::<f64>();
        let done = sum(&self.stages[..at]) + self.stages[at].1 * fraction.clamp(0.0, 1.0);
        let share = done / sum(&self.stages);
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
    fn the_share_is_of_the_planned_stages_only() {
        let plan = Plan::parse("1000 kernels coreutils").unwrap();
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let at = |stage, fraction, elapsed| plan.told(stage, fraction, minutes(elapsed));
        assert_eq!(at("kernels", 0.0, 0).unwrap(), "0 %: ");
        assert_eq!(at("kernels", 0.525, 2).unwrap(), "25 %, about 6 min left: ");
        assert_eq!(at("coreutils", 1.0, 9).unwrap(), "100 %, less than a minute left: ");
        assert_eq!(at("tools", 0.5, 1), None);
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
