//! Background jobs and their results.

/// Jobs whose result has not been reported.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    all: Vec<Job>,
    /// CPU time of all ended programs, in ns.
    pub cpu: u64,
}

/// Maximum number of finished jobs kept.
const OVER: usize = 64;

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub number: u32,
    /// Its programs, each with its status once it has ended.
    pub programs: Vec<(u32, Option<u32>)>,
    /// Its process group, if it has its own.
    pub group: Option<u32>,
    /// The command line.
    pub title: String,
}

impl Job {
    /// Returns the last program's status, once all have ended.
    pub fn status(&self) -> Option<u32> {
        let over = self.programs.iter().all(|(_, status)| status.is_some());
        let last = self.programs.last().and_then(|(_, status)| *status);
        last.filter(|_| over)
    }
}

impl Jobs {
    /// Adds a job. Returns its number.
    pub fn add(
        &mut self,
        programs: Vec<(u32, Option<u32>)>,
        group: Option<u32>,
        title: String,
    ) -> u32 {
        let number = self.all.iter().map(|job| job.number).max().unwrap_or(0) + 1;
        self.all.push(Job { number, programs, group, title });
        if self.all.len() > OVER
            && let Some(at) = self.all.iter().position(|job| job.status().is_some())
        {
            self.all.remove(at);
        }
        number
    }

    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.all.iter()
    }

    /// Returns the programs that have not ended.
    pub fn running(&self) -> Vec<u32> {
        let programs = self.all.iter().flat_map(|job| &job.programs);
        programs.filter(|(_, status)| status.is_none()).map(|(pid, _)| *pid).collect()
    }

    /// Records the end of a program.
    pub fn ended(&mut self, pid: u32, status: u32) {
        let programs = self.all.iter_mut().flat_map(|job| &mut job.programs);
        programs.filter(|(p, _)| *p == pid).for_each(|(_, s)| *s = Some(status));
    }

    /// Finds a job by `%N`, `%%`, `%+`, `%-`, `%TEXT`, or a process number.
    pub fn find(&self, text: &str) -> Option<&Job> {
        let Some(which) = text.strip_prefix('%') else {
            let pid: u32 = text.parse().ok()?;
            return self.all.iter().find(|job| job.programs.iter().any(|(p, _)| *p == pid));
        };
        match which {
            "" | "%" | "+" => self.all.last(),
            "-" => self.all.iter().rev().nth(1).or(self.all.last()),
            which => match which.parse::<u32>() {
                Ok(number) => self.all.iter().find(|job| job.number == number),
                Err(_) => self.all.iter().rev().find(|job| job.title.starts_with(which)),
            },
        }
    }

    pub fn remove(&mut self, number: u32) {
        self.all.retain(|job| job.number != number);
    }

    /// Removes and returns the finished jobs.
    pub fn take_over(&mut self) -> Vec<Job> {
        let (over, rest) =
            std::mem::take(&mut self.all).into_iter().partition(|job| job.status().is_some());
        self.all = rest;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_by_what_they_are_called() {
        let mut jobs = Jobs::default();
        assert_eq!(jobs.add(vec![(7, None)], None, "sleep 5".to_string()), 1);
        assert_eq!(jobs.add(vec![(8, None), (9, None)], Some(8), "cat | wc".to_string()), 2);
        let number = |text: &str| jobs.find(text).map(|job| job.number);
        assert_eq!((number("%1"), number("%%"), number("%-")), (Some(1), Some(2), Some(1)));
        assert_eq!((number("8"), number("%cat"), number("%3")), (Some(2), Some(2), None));
        jobs.ended(9, 3);
        assert_eq!(jobs.running(), [7, 8]);
        assert!(jobs.take_over().is_empty());
        jobs.ended(8, 0);
        assert_eq!(jobs.take_over().first().and_then(Job::status), Some(3));
    }
}
