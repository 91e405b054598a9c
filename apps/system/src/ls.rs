//! `ls`: lists directories. POSIX's, with the common options of GNU's.
//!
//! Penumbra has one user and files have no modes: owners and rights in a long listing are those of
//! every program that has the file system.

mod show;
#[cfg(test)]
mod tests;

use crate::about::about;
use crate::options::Options;
use crate::{Answer, put};
use penumbra::{Errno, Kind, Stat};
use show::{Form, Look};
use std::cmp::Ordering;
use std::time::SystemTime;

/// Maximum depth of `-R`.
const DEPTH: usize = 64;
/// Exit codes: part of a directory could not be read; a named file does not exist.
const MINOR: u32 = 1;
const SERIOUS: u32 = 2;

/// Sort order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Name,
    Time,
    Size,
    /// Directory order.
    None,
}

/// Which names with a leading dot are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Hidden {
    #[default]
    No,
    /// All except `.` and `..`.
    Almost,
    All,
}

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    hidden: Hidden,
    order: Order,
    reverse: bool,
    recursive: bool,
    /// Directories are listed like files.
    plain: bool,
    look: Look,
    names: Vec<String>,
}

/// An entry of the list.
struct Item {
    /// The name to display.
    name: String,
    /// The path of the file.
    path: String,
    stat: Stat,
}

/// Returns the letter for a common long option.
fn letter(long: &str) -> Option<char> {
    Some(match long {
        "all" => 'a',
        "almost-all" => 'A',
        "directory" => 'd',
        "classify" => 'F',
        "human-readable" => 'h',
        "inode" => 'i',
        "numeric-uid-gid" => 'n',
        "reverse" => 'r',
        "recursive" => 'R',
        _ => return None,
    })
}

impl Plan {
    /// `form` is the default layout.
    fn of(words: &[String], form: Form) -> Result<Plan, String> {
        let mut plan = Plan { look: Look { form, ..Look::default() }, ..Plan::default() };
        let (mut short, mut only_names) = (vec![], false);
        for word in words {
            match word.strip_prefix("--").filter(|long| !long.is_empty() && !only_names) {
                // There are no colours, so this option has no effect.
                Some(long) if long == "color" || long.starts_with("color=") => {}
                Some(long) => {
                    let letter = letter(long).ok_or(format!("--{long}: no such option"))?;
                    short.push(format!("-{letter}"));
                }
                None => {
                    only_names |= word == "--";
                    short.push(word.clone());
                }
            }
        }
        let options = Options::of(&short, "", true)?;
        for (letter, _) in options.all {
            plan.option(letter)?;
        }
        plan.names = options.rest;
        Ok(plan)
    }

    fn option(&mut self, letter: char) -> Result<(), String> {
        match letter {
            'a' => self.hidden = Hidden::All,
            'A' => self.hidden = Hidden::Almost,
            'd' => self.plain = true,
            'f' => (self.hidden, self.order) = (Hidden::All, Order::None),
            'r' => self.reverse = true,
            'R' => self.recursive = true,
            't' => self.order = Order::Time,
            'S' => self.order = Order::Size,
            'U' => self.order = Order::None,
            '1' if self.look.form == Form::Long => {}
            '1' => self.look.form = Form::Lines,
            'C' | 'x' => self.look.form = Form::Columns,
            'l' | 'g' | 'o' | 'n' => {
                self.look.form = Form::Long;
                self.look.owner &= letter != 'g';
                self.look.group &= letter != 'o';
                self.look.numbers |= letter == 'n';
            }
            'F' => self.look.marks = true,
            'p' => self.look.slashes = true,
            'h' => self.look.human = true,
            'i' => self.look.inodes = true,
            's' => self.look.blocks = true,
            // Sizes are in KiB anyway, and question marks replace unprintable characters anyway.
            'k' | 'q' => {}
            _ => return Err(format!("-{letter}: no such option")),
        }
        Ok(())
    }

    fn compare(&self, one: &Item, other: &Item) -> Ordering {
        let by_name = || one.name.as_bytes().cmp(other.name.as_bytes());
        match self.order {
            Order::Name => by_name(),
            Order::Time => other.stat.modified.cmp(&one.stat.modified).then_with(by_name),
            Order::Size => other.stat.size.cmp(&one.stat.size).then_with(by_name),
            Order::None => Ordering::Equal,
        }
    }

    fn sort(&self, items: &mut [Item]) {
        items.sort_by(|one, other| self.compare(one, other));
        if self.reverse {
            items.reverse();
        }
    }

    fn shows(&self, name: &str) -> bool {
        self.hidden > Hidden::No || !name.starts_with('.')
    }

    /// Returns whether a link on the command line is followed.
    fn follows(&self) -> bool {
        !self.plain && !self.look.marks && self.look.form != Form::Long
    }
}

/// `ls`
pub fn ls(arguments: &[String]) -> Answer {
    let is_terminal = penumbra::File::lent(1).is_terminal();
    run(arguments, if is_terminal { Form::Columns } else { Form::Lines })
}

/// `dir`: as `ls -C`.
pub fn dir(arguments: &[String]) -> Answer {
    run(arguments, Form::Columns)
}

/// `vdir`: as `ls -l`.
pub fn vdir(arguments: &[String]) -> Answer {
    run(arguments, Form::Long)
}

fn run(arguments: &[String], form: Form) -> Answer {
    let mut plan = Plan::of(arguments, form)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    plan.look.now = now.map_or(0, |now| now.as_secs());
    plan.look.width = show::width();
    let listed = list(&plan, &mut |text| put(text))?;
    listed.errors.iter().for_each(|why| eprintln!("ls: {why}"));
    Ok(listed.code)
}

/// The result of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Listed {
    code: u32,
    errors: Vec<String>,
}

impl Listed {
    fn failed(&mut self, code: u32, what: String) {
        self.code = self.code.max(code);
        self.errors.push(what);
    }
}

fn list(plan: &Plan, out: &mut dyn FnMut(&str) -> Answer) -> Result<Listed, String> {
    let mut listed = Listed::default();
    let here = [".".to_string()];
    let names = if plan.names.is_empty() { &here[..] } else { &plan.names[..] };
    let (mut files, mut folders) = (vec![], vec![]);
    for name in names {
        match named(plan, name) {
            Ok(item) if item.stat.kind == Kind::Directory && !plan.plain => folders.push(item),
            Ok(item) => files.push(item),
            Err(why) => listed.failed(SERIOUS, format!("cannot access '{name}': {why}")),
        }
    }
    plan.sort(&mut files);
    plan.sort(&mut folders);
    let mut writer = Writer { plan, out, listed, is_first: files.is_empty(), code: 0 };
    if !files.is_empty() {
        writer.text(&plan.look.shown(&files))?;
    }
    let titled = plan.recursive || names.len() > 1;
    for folder in &folders {
        writer.folder(folder, titled, 0)?;
    }
    let mut listed = writer.listed;
    // The reader of the output is gone.
    listed.code = if writer.code == 0 { listed.code } else { writer.code };
    Ok(listed)
}

/// Looks up a file named on the command line.
fn named(plan: &Plan, name: &str) -> Result<Item, Errno> {
    let mut stat = about(name, plan.follows())?;
    if stat.kind == Kind::Link && name.ends_with('/') {
        stat = about(name, true)?;
    }
    Ok(Item { name: name.to_string(), path: name.to_string(), stat })
}

struct Writer<'a> {
    plan: &'a Plan,
    out: &'a mut dyn FnMut(&str) -> Answer,
    listed: Listed,
    is_first: bool,
    code: u32,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) -> Result<(), String> {
        if self.code == 0 && !text.is_empty() {
            self.code = (self.out)(text)?;
        }
        Ok(())
    }

    /// Lists a directory and, with `-R`, those below it.
    fn folder(&mut self, folder: &Item, titled: bool, depth: usize) -> Result<(), String> {
        let items = match self.items(&folder.path) {
            Ok(items) => items,
            Err(why) => {
                let code = if depth == 0 { SERIOUS } else { MINOR };
                let what = format!("cannot open directory '{}': {why}", folder.path);
                self.listed.failed(code, what);
                return Ok(());
            }
        };
        let blank = if self.is_first { "" } else { "\n" };
        self.is_first = false;
        let title = if titled { format!("{blank}{}:\n", folder.path) } else { blank.to_string() };
        self.text(&format!("{title}{}", self.plan.look.folder(&items)))?;
        if !self.plan.recursive || self.code != 0 {
            return Ok(());
        }
        let is_own = |item: &&Item| !matches!(item.name.as_str(), "." | "..");
        for item in items.iter().filter(is_own).filter(|it| it.stat.kind == Kind::Directory) {
            if depth + 1 == DEPTH {
                self.listed.failed(MINOR, format!("{}: more than {DEPTH} deep", item.path));
            } else {
                self.folder(item, true, depth + 1)?;
            }
        }
        Ok(())
    }

    fn items(&mut self, folder: &str) -> Result<Vec<Item>, String> {
        let mut items = vec![];
        if self.plan.hidden == Hidden::All {
            for name in [".", ".."] {
                self.item(folder, name.to_string(), &mut items);
            }
        }
        let entries = std::fs::read_dir(folder).map_err(|error| told(&error))?;
        for entry in entries {
            let name = entry.map_err(|error| told(&error))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if self.plan.shows(&name) {
                self.item(folder, name, &mut items);
            }
        }
        self.plan.sort(&mut items);
        Ok(items)
    }

    fn item(&mut self, folder: &str, name: String, items: &mut Vec<Item>) {
        let slash = if folder.ends_with('/') { "" } else { "/" };
        let path = format!("{folder}{slash}{name}");
        // The parent of the root is the root.
        let found = about(&path, false).or_else(|why| match name.as_str() {
            ".." => about(folder, false),
            _ => Err(why),
        });
        match found {
            Ok(stat) => items.push(Item { name, path, stat }),
            Err(why) => self.listed.failed(MINOR, format!("cannot access '{path}': {why}")),
        }
    }
}

/// Returns the message without the number that Rust appends.
fn told(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}
