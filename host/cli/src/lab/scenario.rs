//! A lab scenario: a data file that says which board runs which commands, how often, at which
//! quanta. `lab/*.toml`.

use ::lab::model::Mode;
use serde::Deserialize;
use std::path::Path;

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line about it.
    pub description: String,
    /// The board: one core a domain, unless the mode is `sanitizer`.
    pub board: String,
    /// Commands of the monitor, `;` between them. The board is powered off behind them.
    pub run: String,
    /// What is watched.
    #[serde(default)]
    pub mode: Mode,
    /// How far a domain may run past another; one series of repetitions each.
    #[serde(default = "usual_quanta")]
    pub quanta_ns: Vec<u64>,
    /// How often; all of one quantum must agree.
    #[serde(default = "once")]
    pub repetitions: u32,
}

fn usual_quanta() -> Vec<u64> {
    vec![1000]
}

fn once() -> u32 {
    1
}

/// The longest `run`: the kernels' command line is 128 bytes, with `run=` and the power-off.
const MOST: usize = 110;

/// What the kernels' command line says for it.
impl Scenario {
    /// Reads the file; mistakes are told with their line.
    pub fn read(path: &Path) -> anyhow::Result<Scenario> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
        let scenario: Scenario =
            toml::from_str(&text).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
        if scenario.run.len() > MOST {
            let length = scenario.run.len();
            anyhow::bail!("{name}: run has {length} characters, the board takes {MOST}");
        }
        if scenario.quanta_ns.is_empty() || scenario.repetitions == 0 {
            anyhow::bail!("{name}: nothing to do: quanta_ns or repetitions is empty");
        }
        Ok(scenario)
    }

    /// The kernels' command line.
    pub fn arguments(&self) -> String {
        format!("run={};poweroff", self.run)
    }
}
