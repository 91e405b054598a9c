//! The output of `ls`: names in lines or columns, or the long format.

use super::Item;
use penumbra::{Kind, Stat};

/// Width of a terminal whose width is unknown.
const WIDTH: usize = 80;
/// Spaces between columns.
const GAP: usize = 2;
/// Times further away than half a year are shown with the year.
const RECENT: u64 = 365 * DAY / 2;
const DAY: u64 = 24 * 60 * 60;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Suffixes of executable files: modules, and the images that kernels load.
const PROGRAMS: [&str; 3] = [".wasm", ".aarch64", ".riscv64"];

/// Layout of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Lines,
    Columns,
    Long,
}

/// What is shown of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub form: Form,
    pub owner: bool,
    pub group: bool,
    /// Owner and group as numbers.
    pub numbers: bool,
    /// A mark after the name shows the type.
    pub marks: bool,
    /// Mark directories only.
    pub slashes: bool,
    /// Sizes with a unit.
    pub human: bool,
    pub inodes: bool,
    pub blocks: bool,
    /// Width of the terminal.
    pub width: usize,
    /// Current time in seconds since 1970.
    pub now: u64,
}

impl Default for Look {
    fn default() -> Look {
        Look {
            form: Form::Lines,
            owner: true,
            group: true,
            numbers: false,
            marks: false,
            slashes: false,
            human: false,
            inodes: false,
            blocks: false,
            width: WIDTH,
            now: 0,
        }
    }
}

/// Returns the width that the shell reports.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    said.filter(|width| *width > 0).unwrap_or(WIDTH)
}

/// Returns the KiB that a file takes.
fn blocks(stat: &Stat) -> u64 {
    if stat.kind == Kind::Link { 0 } else { stat.size.div_ceil(1024) }
}

/// Replaces unprintable characters by question marks.
fn visible(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn is_program(item: &Item) -> bool {
    item.stat.kind == Kind::File && PROGRAMS.iter().any(|end| item.name.ends_with(end))
}

impl Look {
    /// Formats the contents of a directory.
    pub fn folder(&self, items: &[Item]) -> String {
        let sum = items.iter().map(|item| blocks(&item.stat)).sum();
        let total = match self.form == Form::Long || self.blocks {
            true => format!("total {}\n", self.size(sum, sum.saturating_mul(1024))),
            false => String::new(),
        };
        total + &self.shown(items)
    }

    /// Formats a list of files.
    pub fn shown(&self, items: &[Item]) -> String {
        match self.form {
            Form::Lines => items.iter().map(|item| self.cell(item) + "\n").collect(),
            Form::Columns => {
                let cells: Vec<String> = items.iter().map(|item| self.cell(item)).collect();
                columns(&cells, self.width)
            }
            Form::Long => self.long(items),
        }
    }

    /// Formats `number` or, for people, `bytes` with a unit.
    fn size(&self, number: u64, bytes: u64) -> String {
        if self.human { human(bytes) } else { number.to_string() }
    }

    fn cell(&self, item: &Item) -> String {
        let mut cell = String::new();
        if self.inodes {
            cell.push_str(&format!("{} ", item.stat.node.1));
        }
        if self.blocks {
            let blocks = blocks(&item.stat);
            cell.push_str(&format!("{} ", self.size(blocks, blocks.saturating_mul(1024))));
        }
        cell + &visible(&item.name) + self.mark(item)
    }

    fn mark(&self, item: &Item) -> &'static str {
        match item.stat.kind {
            Kind::Directory if self.marks || self.slashes => "/",
            Kind::Link if self.marks && self.form != Form::Long => "@",
            Kind::Stream if self.marks => "|",
            Kind::File if self.marks && is_program(item) => "*",
            _ => "",
        }
    }

    fn long(&self, items: &[Item]) -> String {
        let rows: Vec<Vec<String>> = items.iter().map(|item| self.row(item)).collect();
        let columns = rows.first().map_or(0, Vec::len);
        let length = |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| cell.len());
        let widths: Vec<usize> = (0..columns)
            .map(|at| rows.iter().map(|row| length(row, at)).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for (row, item) in rows.iter().zip(items) {
            for (cell, width) in row.iter().zip(&widths) {
                let is_word = cell.starts_with(|letter: char| !letter.is_ascii_digit());
                let blanks = " ".repeat(width - cell.len());
                let (left, right) = if is_word { ("", &*blanks) } else { (&*blanks, "") };
                text.push_str(&format!("{left}{cell}{right} "));
            }
            text.push_str(&format!("{}{}{}\n", visible(&item.name), self.mark(item), target(item)));
        }
        text
    }

    /// Returns the columns before the name.
    fn row(&self, item: &Item) -> Vec<String> {
        let (stat, mut row) = (&item.stat, vec![]);
        if self.inodes {
            row.push(stat.node.1.to_string());
        }
        if self.blocks {
            let blocks = blocks(stat);
            row.push(self.size(blocks, blocks.saturating_mul(1024)));
        }
        row.extend([mode(item).to_string(), stat.links.max(1).to_string()]);
        let root = if self.numbers { "0" } else { "root" };
        row.extend([self.owner, self.group].iter().filter(|it| **it).map(|_| root.to_string()));
        row.push(self.size(stat.size, stat.size));
        row.push(time(stat.modified / 1_000_000_000, self.now));
        row
    }
}

/// Returns the rights that every program has on a file.
fn mode(item: &Item) -> &'static str {
    match item.stat.kind {
        Kind::Directory => "drwxr-xr-x",
        Kind::Link => "lrwxrwxrwx",
        Kind::Character => "crw-rw-rw-",
        Kind::Block => "brw-rw----",
        Kind::Stream => "prw-rw-rw-",
        Kind::File if is_program(item) => "-rwxr-xr-x",
        Kind::File | Kind::Other => "-rw-r--r--",
    }
}

/// Returns the target of a link, as displayed.
fn target(item: &Item) -> String {
    if item.stat.kind != Kind::Link {
        return String::new();
    }
    let target = std::fs::read_link(&item.path);
    target.map_or(String::new(), |to| format!(" -> {}", visible(&to.to_string_lossy())))
}

/// Formats at most three digits and a unit, rounded up.
fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 1024u64;
    for name in units {
        let tenths = (u128::from(bytes) * 10).div_ceil(u128::from(unit));
        if tenths < 100 {
            return format!("{}.{}{name}", tenths / 10, tenths % 10);
        }
        let whole = bytes.div_ceil(unit);
        if whole < 1024 || name == "E" {
            return format!("{whole}{name}");
        }
        unit = unit.saturating_mul(1024);
    }
    bytes.to_string()
}

/// `Nov 24 14:05`, or `Nov 24  2025` when that is long ago. UTC.
fn time(seconds: u64, now: u64) -> String {
    let (year, month, day) = date(seconds / DAY);
    let month = MONTHS.get(month).unwrap_or(&"?");
    if seconds > now || now - seconds > RECENT {
        return format!("{month} {day:>2}  {year}");
    }
    let minutes = seconds % DAY / 60;
    format!("{month} {day:>2} {:02}:{:02}", minutes / 60, minutes % 60)
}

/// Returns the year, the month from 0 and the day, from days since 1970.
fn date(days: u64) -> (u64, usize, u64) {
    // Years begin with March here, so that a leap day ends its year; an era has 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 2, 0) } else { (month - 10, 1) };
    (year + era * 400 + later, month as usize, date)
}

/// Arranges cells in as many columns as fit into `width`, top to bottom.
fn columns(cells: &[String], width: usize) -> String {
    let lengths: Vec<usize> = cells.iter().map(|cell| cell.chars().count()).collect();
    let widths = |rows: usize| -> Vec<usize> {
        lengths.chunks(rows).map(|some| some.iter().max().map_or(0, |most| most + GAP)).collect()
    };
    let fits = |rows: &usize| widths(*rows).iter().sum::<usize>() <= width + GAP;
    let rows = (1..=cells.len()).find(fits).unwrap_or(cells.len());
    let widths = if rows == 0 { vec![] } else { widths(rows) };
    let mut text = String::new();
    for row in 0..rows {
        let mut line = String::new();
        for (at, column) in widths.iter().enumerate() {
            let Some(cell) = cells.get(at * rows + row) else { break };
            let blanks = column - lengths.get(at * rows + row).unwrap_or(&0);
            line.push_str(cell);
            line.push_str(&" ".repeat(blanks));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, expected) in [
            (0, (1970, 0, 1)),
            (59, (1970, 2, 1)),
            (11_016, (2000, 1, 29)),
            (11_017, (2000, 2, 1)),
            (20_781, (2026, 10, 24)),
            (47_540, (2100, 1, 28)),
            (47_541, (2100, 2, 1)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
        let now = 20_781 * DAY + 14 * 3600;
        assert_eq!(time(now - 60, now), "Nov 24 13:59");
        assert_eq!(time(now + 1, now), "Nov 24  2026");
        assert_eq!(time(0, now), "Jan  1  1970");
    }

    #[test]
    fn sizes_for_people_round_up() {
        for (bytes, expected) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10_137, "9.9K"),
            (10_138, "10K"),
            (1 << 20, "1.0M"),
            ((1 << 20) - 1, "1.0M"),
            (150 << 20, "150M"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn columns_fill_the_width() {
        let cells = ["a", "bb", "ccc", "dddd", "e"].map(String::from);
        assert_eq!(columns(&cells, 80), "a  bb  ccc  dddd  e\n");
        assert_eq!(columns(&cells, 12), "a   ccc   e\nbb  dddd\n");
        assert_eq!(columns(&cells, 1), "a\nbb\nccc\ndddd\ne\n");
        assert_eq!(columns(&[], 80), "");
    }
}
