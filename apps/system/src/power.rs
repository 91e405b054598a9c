//! What the kernels have counted of power: `/proc/NUMBER/power`, with lines of
//! `KERNEL NAME VALUE [UNIT]`.
//!
//! The file of the caller's own kernel is read: it has the figures of all kernels, and reading it
//! wakes no other one.

use penumbra::process;

/// A kernel's figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    pub name: String,
    pub state: String,
    pub rests: u64,
    /// Times in s; those of several cores are added up.
    pub resting: f64,
    pub active: f64,
    pub idle: f64,
    /// Power of an active core in mW, if the board file gives it.
    pub power: Option<f64>,
    /// Energy in J, if it is measured (since the board was started) or can be estimated (since the
    /// kernel booted).
    pub measured: Option<f64>,
    pub estimated: Option<f64>,
}

impl Kernel {
    /// Returns a file of its directory in `/proc`; `None` if it does not run, because reading would
    /// wake it, or does not answer.
    pub fn read(&self, file: &str) -> Option<String> {
        let is_running = self.state == "running";
        let path = format!("/proc/{}/{file}", self.name);
        is_running.then(|| std::fs::read_to_string(path).ok()).flatten()
    }
}

/// Returns the figures of all kernels, by number.
pub fn kernels() -> Result<Vec<Kernel>, String> {
    let me = process::identity().map_err(|error| error.to_string())?;
    let path = format!("/proc/{}/power", me.kernel);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(parse(&text))
}

/// Parses the file. What it does not say is 0 or `None`.
pub fn parse(text: &str) -> Vec<Kernel> {
    let mut all: Vec<Kernel> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(what), Some(value)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if all.last().is_none_or(|last| last.name != name) {
            all.push(Kernel { name: name.to_string(), ..Kernel::default() });
        }
        let Some(kernel) = all.last_mut() else { continue };
        let number: Option<f64> = value.parse().ok();
        match what {
            "state" => kernel.state = value.to_string(),
            "rests" => kernel.rests = value.parse().unwrap_or(0),
            "resting" => kernel.resting = number.unwrap_or(0.0),
            "active" => kernel.active = number.unwrap_or(0.0),
            "idle" => kernel.idle = number.unwrap_or(0.0),
            "power" => kernel.power = number,
            "measured" => kernel.measured = number,
            "estimated" => kernel.estimated = number,
            _ => {}
        }
    }
    all
}

/// Formats a table of kernels.
pub fn table(all: &[Kernel]) -> String {
    let mut text = String::from("KERNEL   STATE      RESTS RESTING  ACTIVE    IDLE        J\n");
    for k in all {
        let energy = match (k.measured, k.estimated) {
            (Some(joules), _) => format!("{joules:8.4} measured"),
            (None, Some(joules)) => format!("{joules:8.4} estimated"),
            (None, None) => format!("{:>8}", "-"),
        };
        text.push_str(&format!(
            "{:8} {:9} {:6} {:7.2} {:7.2} {:7.2} {energy}\n",
            k.name, k.state, k.rests, k.resting, k.active, k.idle
        ));
    }
    text
}

/// Formats the energy in J of a process that has had `cpu` ns of core time on the kernel with this
/// number: its time at the present power of an active core; `-` without such a power.
pub fn joules(all: &[Kernel], kernel: u16, cpu: u64) -> String {
    let power = all.get(usize::from(kernel)).and_then(|kernel| kernel.power);
    power.map_or("-".to_string(), |mw| format!("{:.4}", cpu as f64 * mw / 1e12))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
main state resting\nmain rests 4\nmain age 0.000000000 s\nmain resting 1.500000000 s
main active 0.250000000 s\nmain idle 2.000000000 s\nmain power 79.800 mW
main estimated 0.012500000 J
shadow state running\nshadow active 1.0 s
shadow estimated unknown: the board file gives no power for this\n";

    #[test]
    fn the_file_of_a_kernel_has_the_figures_of_all() {
        let all = parse(FILE);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].state.as_str(), all[0].rests, all[0].resting), ("resting", 4, 1.5));
        assert_eq!((all[0].power, all[0].estimated), (Some(79.8), Some(0.0125)));
        assert_eq!((all[1].name.as_str(), all[1].active, all[1].power), ("shadow", 1.0, None));
        assert_eq!((all[1].measured, all[1].estimated), (None, None));
        assert_eq!(parse("\nmain\nmain state\n"), []);
    }

    #[test]
    fn a_kernel_is_a_line_and_says_where_its_energy_is_from() {
        let text = table(&parse(FILE));
        let lines: Vec<&str> = text.lines().collect();
        let main = "main     resting        4    1.50    0.25    2.00   0.0125 estimated";
        let shadow = "shadow   running        0    0.00    1.00    0.00        -";
        assert_eq!(lines[1..], [main, shadow]);
        let measured = Kernel { measured: Some(0.5), estimated: Some(9.0), ..Kernel::default() };
        assert!(table(&[measured]).ends_with(" 0.5000 measured\n"));
    }

    #[test]
    fn a_process_costs_its_core_time_at_the_power_of_its_kernel() {
        let all = parse(FILE);
        assert_eq!(joules(&all, 0, 2_000_000_000), "0.1596");
        assert_eq!(joules(&all, 1, 2_000_000_000), "-", "the file gives no power");
        assert_eq!(joules(&all, 2, 1), "-", "no such kernel");
    }
}
