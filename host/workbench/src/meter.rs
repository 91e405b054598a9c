//! The time and energy that a board in the lab has used so far.

use crate::instance::Instance;
use lab::energy;
use lab::model::{Domain, Lab, PAGE};
use lab::page::Page;

/// Returns the nanoseconds since the start of a board in the lab, and the energy of each domain.
pub fn used(instance: &Instance) -> Option<(u64, Vec<(String, f64)>)> {
    let lab = Lab::read(&instance.folder).ok()?;
    let page = Page::open(&instance.path(PAGE)).ok()?;
    let now = lab.domains.iter().map(|domain| page.seat(domain.slot).time).max()?;
    let used = |domain: &Domain| {
        let pj = energy::until_pj(&page, &lab, domain, now);
        (domain.name.clone(), pj as f64 / 1e6)
    };
    Some((now / 1000, lab.domains.iter().map(used).collect()))
}
