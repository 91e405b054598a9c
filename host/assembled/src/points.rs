//! Points: a domain is killed or stopped at its k-th step, which is an access between domains, a
//! round of a wait, a doorbell or a cache operation.

use crate::Options;
use base::prng::Prng;

/// What happens to a domain at one of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub domain: usize,
    pub step: u64,
    pub kills: bool,
}

/// Sampled points are within so many steps of a domain. Most runs have more.
const SAMPLED_STEPS: u64 = 60_000;
/// A domain that was stopped is woken so much later, if no peer has done so, in ns.
pub const WOKEN_NS: u64 = 20_000_000;

impl Point {
    /// Reads `DOMAIN@STEP`.
    pub fn parse(text: &str, kills: bool) -> Result<Point, String> {
        let wrong = || format!("{text} is not DOMAIN@STEP, such as 1@1000");
        let (domain, step) = text.split_once('@').ok_or_else(wrong)?;
        let (Ok(domain), Ok(step)) = (domain.parse(), step.parse()) else { return Err(wrong()) };
        match domain {
            0 | 1 => Ok(Point { domain, step, kills }),
            _ => Err(format!("there is no domain {domain}")),
        }
    }

    /// The option that repeats it.
    pub fn option(&self) -> String {
        let what = if self.kills { "kill" } else { "stop" };
        format!(" --{what} {}@{}", self.domain, self.step)
    }
}

/// The points of a run: those of the command line, or sampled ones. A pair stops one domain and
/// kills the other.
pub fn of(seed: u64, options: &Options) -> Vec<Point> {
    let mut random = Prng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let mut step = || 1 + random.below(SAMPLED_STEPS);
    let kill = |domain, step| Point { domain, step, kills: true };
    let stop = |domain, step| Point { domain, step, kills: false };
    match options.sample {
        None => options.points.clone(),
        Some(Sample::One) => match seed % 4 {
            0 => vec![stop(0, step())],
            1 => vec![stop(1, step())],
            2 => vec![kill(0, step())],
            _ => vec![kill(1, step())],
        },
        Some(Sample::Pair) => {
            let killed = (seed % 2) as usize;
            vec![stop(1 - killed, step()), kill(killed, step())]
        }
    }
}

/// What is sampled in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    One,
    Pair,
}
