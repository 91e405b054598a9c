//! `pen report`: converts records of measurements to one page: static HTML with embedded charts, no
//! script, no network. [`records::record`] defines the input; the manual is
//! docs/reference/report.md.
//!
//! ```text
//!   files --read--> lines, problems --runs--> setups --page, section, cell--> HTML
//!                                         \--steps, chart, palette--> SVG in it
//!                                         \--layout, talks--> the SVG of programs and channels
//! ```
//! Contract: the same bytes for the same records.

mod cell;
mod chart;
mod layout;
mod page;
mod palette;
mod read;
mod runs;
mod section;
mod steps;
mod talks;

#[cfg(test)]
mod tests;

use anyhow::{Context, bail};
use records::number;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tree::place::Place;

/// Advice for users without records.
const HOW_TO: &str = "`./pen lab` lists scenarios that leave some in target/lab when run; \
    `./pen bench --json >FILE` makes others; docs/reference/report.md is the manual";

/// `pen report [FILES or FOLDERS] [-o FILE]`
pub fn report(place: &Place, paths: &[PathBuf], to: Option<&Path>) -> anyhow::Result<ExitCode> {
    let records = place.target.join("lab");
    let paths = match paths {
        [] if records.is_dir() => std::slice::from_ref(&records),
        [] => bail!("{} is not there. {}", records.display(), HOW_TO),
        given => given,
    };
    let input = read::read(paths)?;
    if input.lines.is_empty() && input.problems.is_empty() {
        let named: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        bail!("there are no records in {}. {}", named.join(", "), HOW_TO);
    }
    let report = runs::assemble(input);
    for problem in &report.problems {
        eprintln!("{problem}");
    }
    let path = to.map_or_else(|| place.target.join("report.html"), Path::to_path_buf);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).context(folder.display().to_string())?;
    }
    std::fs::write(&path, page::page(&report)?).context(path.display().to_string())?;
    let counts = [
        (report.records, "record"),
        (report.setups.iter().map(|setup| setup.runs.len()).sum(), "run"),
        (report.problems.len(), "line left out"),
    ];
    let [records, runs, left_out] = counts.map(|(n, what)| plural(n, what));
    println!("{}: {records}, {runs}, {left_out}", path.display());
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Formats "1 run", "2 runs", "2 lines left out".
fn plural(number: usize, what: &str) -> String {
    let (noun, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    format!("{} {noun}{}{rest}", number::count(number as u64), if number == 1 { "" } else { "s" })
}
