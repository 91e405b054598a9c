//! A domain's power over time as a step function, its area (which is energy), and its means over
//! the columns of a chart, which preserve the area.

/// Power from each time on, until the next; 0 before the first. Times in nanoseconds, power in
/// milliwatts, so areas are in picojoules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps(Vec<(u64, f64)>);

impl Steps {
    /// Creates it from records in any order; of several at one time the last one counts.
    pub fn new(mut steps: Vec<(u64, f64)>) -> Steps {
        steps.sort_by_key(|step| step.0);
        steps.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1;
            }
            same
        });
        Steps(steps)
    }

    /// Returns the time of the last step.
    pub fn last(&self) -> u64 {
        self.0.last().map_or(0, |step| step.0)
    }

    /// Returns the times of the steps.
    pub fn times(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|step| step.0)
    }

    /// Returns the sum of several functions.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Steps>) -> Steps {
        let (mut changes, mut now) = (Vec::new(), Vec::new());
        for (number, steps) in all.into_iter().enumerate() {
            changes.extend(steps.0.iter().map(|(at, mw)| (*at, number, *mw)));
            now.push(0.0);
        }
        changes.sort_by_key(|change| change.0);
        let running = changes.into_iter().map(|(at, number, mw)| {
            now[number] = mw;
            (at, now.iter().sum())
        });
        Steps::new(running.collect())
    }

    /// Returns the intervals of constant power between `from` and `to`.
    fn pieces(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, f64)> {
        let first = self.0.partition_point(|step| step.0 <= from).saturating_sub(1);
        let ends = self.0[first.min(self.0.len())..].iter().skip(1).map(|s| s.0).chain([u64::MAX]);
        let steps = self.0[first.min(self.0.len())..].iter().zip(ends);
        let pieces = steps.map(move |((at, mw), end)| ((*at).max(from), end.min(to), *mw));
        pieces.take_while(move |(at, ..)| *at < to).filter(|(at, end, _)| at < end)
    }

    /// Returns the energy between two times, in picojoules.
    pub fn area(&self, from: u64, to: u64) -> f64 {
        self.pieces(from, to).map(|(at, end, mw)| (end - at) as f64 * mw).sum()
    }

    /// Returns the mean power between two times.
    pub fn mean(&self, from: u64, to: u64) -> f64 {
        let mut pieces = self.pieces(from, to);
        match (pieces.next(), pieces.next()) {
            (None, _) => 0.0,
            (Some((at, end, mw)), None) if (at, end) == (from, to) => mw,
            _ => self.area(from, to) / (to - from) as f64,
        }
    }

    /// Returns the peak power between two times.
    pub fn peak(&self, from: u64, to: u64) -> f64 {
        self.pieces(from, to).map(|piece| piece.2).fold(0.0, f64::max)
    }
}

/// Returns the columns of a chart of these functions from 0 to `end`: at their steps if there are
/// few, evenly spaced otherwise.
pub fn columns<'a>(all: impl IntoIterator<Item = &'a Steps>, end: u64, limit: usize) -> Vec<u64> {
    let mut times: Vec<u64> = all.into_iter().flat_map(|steps| steps.times()).collect();
    times.extend([0, end]);
    times.retain(|at| *at <= end);
    times.sort_unstable();
    times.dedup();
    if times.len() > limit + 1 {
        let at = |i: usize| (end as u128 * i as u128 / limit as u128) as u64;
        times = (0..=limit).map(at).collect();
        times.dedup();
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn area_is_energy() {
        let steps = Steps::new(vec![(10, 2.0), (30, 5.0), (20, 3.0), (20, 4.0)]);
        assert_eq!(steps.area(0, 40), 10.0 * 2.0 + 10.0 * 4.0 + 10.0 * 5.0);
        assert_eq!(steps.area(15, 25), 5.0 * 2.0 + 5.0 * 4.0);
        assert_eq!(steps.area(0, 10), 0.0);
        assert_eq!(steps.area(35, 100), 65.0 * 5.0);
        assert_eq!((steps.mean(20, 30), steps.mean(15, 25)), (4.0, 3.0));
        assert_eq!((steps.peak(0, 25), steps.peak(0, 5), steps.last()), (4.0, 0.0, 30));
        assert_eq!(Steps::default().area(0, 10), 0.0);
    }

    #[test]
    fn a_sum_has_the_sum_of_the_areas() {
        let a = Steps::new(vec![(0, 1.0), (7, 3.0)]);
        let b = Steps::new(vec![(5, 10.0), (7, 0.5)]);
        let sum = Steps::sum([&a, &b]);
        assert_eq!(sum.area(0, 20), a.area(0, 20) + b.area(0, 20));
        assert_eq!(sum.peak(0, 20), 11.0);
    }

    #[test]
    fn columns_keep_the_area_however_few_they_are() {
        let noise = |at: u64| (at * 7919 % 613) as f64 / 7.0;
        let steps = Steps::new((0..5000).map(|i| (i * 37 + i % 5, noise(i))).collect());
        let end = 5000 * 37;
        for limit in [1, 3, 700, 10_000] {
            let columns = columns([&steps], end, limit);
            assert!(columns.len() <= limit.max(5000) + 2);
            let drawn: f64 =
                columns.windows(2).map(|w| steps.mean(w[0], w[1]) * (w[1] - w[0]) as f64).sum();
            assert!(near(drawn, steps.area(0, end)), "{limit}: {drawn}");
        }
    }

    #[test]
    fn a_run_of_no_length_has_one_column_at_most() {
        assert_eq!(columns([&Steps::new(vec![(0, 1.0)])], 0, 10), [0]);
        assert_eq!(columns([], 3, 100), [0, 3]);
    }
}
