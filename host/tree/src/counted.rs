//! What a test has done: so many rounds, cuts or seeds. Nightly runs add it up.

/// Counts by unit, in the order in which units came first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted(Vec<(String, u64)>);

impl Counted {
    /// Counts so many of a unit, which is a plural: `rounds`.
    pub fn of(count: u64, unit: &str) -> Counted {
        let mut counted = Counted::default();
        counted.add(count, unit);
        counted
    }

    /// Adds so many of a unit.
    pub fn add(&mut self, count: u64, unit: &str) {
        if count == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| known == unit) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.0.push((unit.to_owned(), count)),
        }
    }

    /// Adds all that another has counted.
    pub fn add_all(&mut self, other: &Counted) {
        other.iter().for_each(|(unit, count)| self.add(count, unit));
    }

    /// Returns the units and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(unit, count)| (unit.as_str(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_unit_are_added() {
        let mut counted = Counted::of(2, "rounds");
        let more = Counted(vec![("cuts".into(), 3), ("rounds".into(), u64::MAX)]);
        counted.add_all(&more);
        counted.add(0, "seeds");
        assert_eq!(counted.iter().collect::<Vec<_>>(), [("rounds", u64::MAX), ("cuts", 3)]);
    }
}
