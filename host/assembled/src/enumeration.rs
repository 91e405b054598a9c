//! All points of a workload: an undisturbed run tells which steps its callers take, and then there
//! is a run for each of these steps, with a death and with a stop.

use crate::plan::Plan;
use crate::points::Point;
use crate::report::{self, Count};
use crate::{Options, on_all_cores, one};

/// Failures after which an enumeration ends early.
const MOST_FAILURES: u64 = 20;
/// Parts of an enumeration after which it says how far it is.
const PARTS: u64 = 10;

/// Which steps of a domain are points: each `every`-th one, from the one at `offset`.
#[derive(Clone, Copy, Debug)]
pub struct Stride {
    pub every: u64,
    pub offset: u64,
}

impl Stride {
    /// Returns the points in the `spans` of both domains: their first and last steps.
    fn points(self, spans: [(u64, u64); 2]) -> Vec<Point> {
        let kinds = [(0, true), (1, true), (0, false), (1, false)];
        let of_kind = |(domain, kills): (usize, bool)| {
            let (first, last) = spans[domain];
            let steps = (first + self.offset..=last).step_by(self.every as usize);
            steps.map(move |step| Point { domain, step, kills })
        };
        kinds.into_iter().flat_map(of_kind).collect()
    }
}

/// Runs the points of a workload on all cores of the host.
pub fn run(options: &Options, stride: Stride) -> Result<(), String> {
    if !on_all_cores(1, |_| one(options.start, &[], options)) {
        return Err("the run without a point failed".into());
    }
    println!("assembled: {}", Plan::new(options.start, false)?.modes);
    let spans = report::spans();
    let points = stride.points(spans);
    let count = points.len() as u64;
    if count == 0 {
        return Err(format!("the callers' steps {spans:?} end before the offset"));
    }
    println!("assembled: {count} points in the callers' steps {spans:?}");
    on_all_cores(count, |index| {
        let is_good = one(options.start, &[points[index as usize]], options);
        let (runs, failures) = report::add_run(is_good);
        if (runs * PARTS) / count != ((runs - 1) * PARTS) / count {
            println!("assembled: {runs} of {count} runs, {failures} failures");
        }
        failures < MOST_FAILURES
    });
    let (runs, failures) = report::runs();
    let [deaths, stops] = [Count::Deaths, Count::Stops].map(|what| report::totals().get(what));
    println!("assembled: {runs} runs, {deaths} deaths, {stops} stops, {failures} failures");
    match failures {
        0 => Ok(()),
        _ => Err(format!("{failures} of {runs} runs, see above")),
    }
}
