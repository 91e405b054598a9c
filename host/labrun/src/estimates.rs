//! Checks that a kernel's own estimate of its energy (the monitor's `power`) is what the lab
//! measures.

use super::kit::Kit;
use anyhow::{Context, ensure};
use workbench::model::Choice;

/// Most that an estimate may differ from the measurement, as a part of it.
const ERROR: f64 = 0.03;

/// Work on each kernel, idle time, and work at the higher frequency; `power` prints the energy
/// before and after each part.
const WORK: &str = "ping shadow 2; power; bench threads 300; power; on shadow bench threads 300; \
                    power; nap 2000; power; frequency 1200; bench threads 1000; power; \
                    frequency 350; nap 2000; power";
/// A minute, nearly all of which main rests.
const REST: &str = "ping shadow 2; power; nap 60000; power";

/// `lab.estimates`: in every part of the runs, and for both domains, the estimate is within
/// [`ERROR`] of the measured energy.
pub fn estimates(kit: &Kit<'_>) -> anyhow::Result<()> {
    for (board, run, readings) in [("duo-1x1", WORK, 6), ("duo-1x1-rest", REST, 2)] {
        kit.run(board, run, Choice::default())?;
        let log = kit.folder.join("console.log");
        let text = std::fs::read_to_string(&log).with_context(|| log.display().to_string())?;
        for domain in ["main", "shadow"] {
            let [measured, estimated] =
                ["measured", "estimated"].map(|what| readings_of(&text, domain, what));
            ensure!(
                measured.len() == readings && estimated.len() == readings,
                "{board}, {domain}: {measured:?}, {estimated:?}"
            );
            for part in 1..readings {
                let used = |all: &[f64]| all[part] - all[part - 1];
                let (truth, guess) = (used(&measured), used(&estimated));
                let error = guess / truth - 1.0;
                ensure!(
                    truth > 0.0 && error.abs() <= ERROR,
                    "{board}, {domain}, part {part}: estimated {guess} J, measured {truth} J"
                );
            }
        }
    }
    Ok(())
}

/// Returns the values of the lines `DOMAIN WHAT VALUE J`, in order.
fn readings_of(text: &str, domain: &str, what: &str) -> Vec<f64> {
    let value = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [found, fact, value, "J"] = words[..] else { return None };
        (found == domain && fact == what).then(|| value.parse().ok()).flatten()
    };
    text.lines().filter_map(value).collect()
}
