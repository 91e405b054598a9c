//! Power tables: listed point by point, or computed from a few figures.
//!
//! An estimate is activity x C x V^2 x f + leakage, with C and the leakage chosen so that a core at
//! its highest step draws `full_mw`; leakage goes with the voltage. Cores of one cluster share the
//! highest voltage that any of them needs, so a frequency has a point for each voltage it may see.

use crate::error::{Place, Reason};
use crate::file;
use crate::memory::range;
use crate::types::{Domain, Point, Power};
use crate::value::sourced;
use toml::Spanned;

/// Maximum points of a table: the size of the lab's page.
pub const MAX_POINTS: usize = 12;

/// Returns the table of a domain, if its file has one.
pub fn power(raw: &file::Domain) -> Place<Option<Power>> {
    let Some(power) = &raw.power else { return Ok(None) };
    let at = power.source.span().start;
    sourced(at, power.source.get_ref())?;
    let points = match (&power.points, &power.estimate) {
        (Some(points), None) => listed(raw, points)?,
        (None, Some(estimate)) => estimated(raw, estimate)?,
        _ => {
            let why = "a power table has either points or an estimate".to_string();
            return Err((at, Reason::Missing(why)));
        }
    };
    if power.cluster.is_some() && power.estimate.is_none() {
        let why = "a cluster needs an estimate: listed points have no voltage".to_string();
        return Err((at, Reason::Missing(why)));
    }
    let nominal = raw.nominal_mhz.as_ref().map(|mhz| *mhz.get_ref());
    if let Some(mhz) = nominal.filter(|&mhz| !points.iter().any(|point| point.mhz == mhz)) {
        let why = format!("the power table has no point at nominal_mhz, {mhz}");
        return Err((at, Reason::Missing(why)));
    }
    if points.len() > MAX_POINTS {
        let shown = points.len().to_string();
        return Err((at, range("power points", &shown, &format!("at most {MAX_POINTS}"))));
    }
    Ok(Some(Power {
        source: power.source.get_ref().clone(),
        rail: power.rail.clone(),
        cluster: power.cluster.clone(),
        inactive_mw: milliwatts(&power.inactive_mw)?,
        off_mw: power.off_mw.as_ref().map_or(Ok(0.0), milliwatts)?,
        points,
    }))
}

/// Checks that domains of one cluster have the same voltages: each may have to run at another's.
pub fn clusters(raw: &[Spanned<file::Domain>], domains: &[Domain]) -> Place<()> {
    let voltages = |power: &Power| {
        let mut all: Vec<u32> = power.points.iter().map(|point| point.mv).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    for (index, domain) in domains.iter().enumerate() {
        let Some(power) = domain.power.as_ref().filter(|power| power.cluster.is_some()) else {
            continue;
        };
        let odd = |other: &&Domain| {
            let table = other.power.as_ref().filter(|table| table.cluster == power.cluster);
            table.is_some_and(|table| voltages(table) != voltages(power))
        };
        if let Some(other) = domains[..index].iter().find(odd) {
            let (name, other) = (&domain.name, &other.name);
            let why = format!("{name} and {other} are of one cluster and have other voltages");
            return Err((raw[index].get_ref().name.span().start, Reason::Missing(why)));
        }
    }
    Ok(())
}

fn known(raw: &file::Domain, at: usize, mhz: u32) -> Place<()> {
    if raw.frequencies_mhz.get_ref().contains(&mhz) {
        return Ok(());
    }
    Err((at, range("frequency of a power point", &mhz.to_string(), "one of frequencies_mhz")))
}

fn listed(raw: &file::Domain, points: &Spanned<Vec<Spanned<file::Point>>>) -> Place<Vec<Point>> {
    let point = |point: &Spanned<file::Point>| {
        let (at, p) = (point.span().start, point.get_ref());
        let gated_mw = p.gated_mw.unwrap_or(p.idle_mw);
        let falls = gated_mw >= 0.0 && p.idle_mw >= gated_mw && p.active_mw >= p.idle_mw;
        if !(falls && p.active_mw.is_finite()) {
            let shown = format!("{} mW active, {} idle, {gated_mw} gated", p.active_mw, p.idle_mw);
            return Err((at, range("power", &shown, "gated from 0 to idle to active")));
        }
        known(raw, at, p.mhz)?;
        let (active_mw, idle_mw) = (p.active_mw, p.idle_mw);
        Ok(Point { mhz: p.mhz, mv: 0, active_mw, idle_mw, gated_mw })
    };
    points.get_ref().iter().map(point).collect()
}

fn estimated(raw: &file::Domain, estimate: &Spanned<file::Estimate>) -> Place<Vec<Point>> {
    let (at, e) = (estimate.span().start, estimate.get_ref());
    let part = |name: &'static str, value: f64| match value {
        0.0..=1.0 => Ok(()),
        _ => Err((at, range(name, &value.to_string(), "from 0 to 1"))),
    };
    part("leakage", e.leakage)?;
    part("idle_activity", e.idle_activity)?;
    if !(e.full_mw > 0.0 && e.full_mw.is_finite()) {
        return Err((at, range("full_mw", &e.full_mw.to_string(), "above 0")));
    }
    for step in &e.steps {
        known(raw, at, step.mhz)?;
        if !(0.1..=10.0).contains(&step.volts) {
            return Err((at, range("volts", &step.volts.to_string(), "from 0.1 to 10")));
        }
    }
    let Some(top) = e.steps.iter().max_by_key(|step| step.mhz) else {
        return Err((at, Reason::Missing("an estimate has at least one step".to_string())));
    };
    let mut voltages: Vec<f64> = e.steps.iter().map(|step| step.volts).collect();
    voltages.sort_by(f64::total_cmp);
    voltages.dedup();
    let points = e.steps.iter().flat_map(|step| {
        let seen = voltages.iter().filter(|&&volts| volts >= step.volts);
        seen.map(|&volts| point(e, top, step.mhz, volts))
    });
    Ok(points.collect())
}

fn point(e: &file::Estimate, top: &file::Step, mhz: u32, volts: f64) -> Point {
    let (v, f) = (volts / top.volts, f64::from(mhz) / f64::from(top.mhz));
    let switching = e.full_mw * (1.0 - e.leakage) * v * v * f;
    let leakage = e.full_mw * e.leakage * v;
    Point {
        mhz,
        mv: (volts * 1000.0).round() as u32,
        active_mw: switching + leakage,
        idle_mw: switching * e.idle_activity + leakage,
        gated_mw: leakage,
    }
}

fn milliwatts(value: &Spanned<f64>) -> Place<f64> {
    let v = *value.get_ref();
    if v >= 0.0 && v.is_finite() {
        return Ok(v);
    }
    Err((value.span().start, range("power", &format!("{v} mW"), "0 or more")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_meets_its_calibration_and_falls_with_voltage_squared() {
        let step = |mhz, volts| file::Step { mhz, volts };
        let e = file::Estimate {
            full_mw: 400.0,
            leakage: 0.25,
            idle_activity: 0.5,
            steps: vec![step(100, 1.0), step(200, 2.0)],
        };
        let top = &e.steps[1];
        let full = point(&e, top, 200, 2.0);
        assert_eq!((full.active_mw, full.idle_mw, full.gated_mw), (400.0, 250.0, 100.0));
        let slow = point(&e, top, 100, 2.0);
        assert_eq!((slow.active_mw, slow.mv), (250.0, 2000));
        assert_eq!(point(&e, top, 100, 1.0).active_mw, 300.0 / 8.0 + 50.0);
    }
}
