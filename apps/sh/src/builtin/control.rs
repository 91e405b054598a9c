//! Builtins that change the flow of control.

use crate::ast::is_name;
use crate::shell::{Run, Shell, Stop};
use crate::system::System;
use penumbra::Errno;

/// Maximum nesting of sourced files and evaluated texts.
const DEEP: u32 = 20;
/// Maximum size of a script in bytes.
const SCRIPT: usize = 4 << 20;

impl<S: System> Shell<S> {
    pub(super) fn out_of_loops(&mut self, name: &str, arguments: &[String]) -> Run {
        let levels = match arguments.first().map(|a| a.parse::<u32>()) {
            None => 1,
            Some(Ok(levels @ 1..)) => levels,
            Some(_) => return self.misused(name, "requires a number from 1 on"),
        };
        let levels = levels.min(self.state.loops);
        match (levels, name) {
            (0, _) => Ok(0),
            (levels, "break") => Err(Stop::Break(levels)),
            (levels, _) => Err(Stop::Continue(levels)),
        }
    }

    fn status(&mut self, name: &str, arguments: &[String]) -> Result<u32, u32> {
        match arguments.first().map(|a| a.parse::<i64>()) {
            None => Ok(self.state.status),
            Some(Ok(status)) => Ok((status & 0xff) as u32),
            Some(Err(_)) => {
                self.say(&format!("{name}: requires a number"));
                Err(2)
            }
        }
    }

    pub(super) fn exit(&mut self, arguments: &[String]) -> Run {
        let (Ok(status) | Err(status)) = self.status("exit", arguments);
        Err(Stop::Exit(status))
    }

    pub(super) fn return_(&mut self, arguments: &[String]) -> Run {
        let (Ok(status) | Err(status)) = self.status("return", arguments);
        match self.state.functions_deep + self.state.files_deep {
            0 => Err(Stop::Exit(status)),
            _ => Err(Stop::Return(status)),
        }
    }

    pub(super) fn eval(&mut self, arguments: &[String]) -> Run {
        let text = arguments.join(" ");
        self.deeper("eval", |shell| shell.text(&text))
    }

    /// Runs `inner` one level deeper, and fails beyond the maximum depth, so that a text that
    /// evaluates itself ends.
    fn deeper(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> Run) -> Run {
        // Parsing a text takes more stack than a command, so it counts as several commands.
        const COST: u32 = 4;
        if self.depth + COST >= crate::exec::DEPTH {
            self.say(&format!("{name}: too many commands within each other"));
            return Err(Stop::Abort(2));
        }
        self.depth += COST;
        let result = inner(self);
        self.depth = self.depth.saturating_sub(COST);
        result
    }

    pub(super) fn source(&mut self, arguments: &[String]) -> Run {
        let Some(name) = arguments.first() else { return self.misused(".", "requires a file") };
        if self.state.files_deep >= DEEP {
            self.say(&format!(".: {name}: too many files within each other"));
            return Err(Stop::Abort(2));
        }
        let text = match self.sourced(name) {
            Ok(text) => text,
            Err(error) => {
                self.say(&format!(".: {name}: {error}"));
                return Err(Stop::Abort(2));
            }
        };
        let given = arguments.get(1..).filter(|more| !more.is_empty());
        let before = given.map(|g| std::mem::replace(&mut self.state.arguments, g.to_vec()));
        self.state.files_deep += 1;
        let result = self.deeper(".", |shell| shell.text(&text));
        self.state.files_deep = self.state.files_deep.saturating_sub(1);
        if let Some(before) = before {
            self.state.arguments = before;
        }
        match result {
            Err(Stop::Return(status)) => Ok(status),
            result => result,
        }
    }

    fn sourced(&mut self, name: &str) -> Result<String, Errno> {
        let mut places = self.places(name, None);
        if !name.contains('/') {
            places.push(crate::path::absolute(&self.state.folder, name));
        }
        let mut error = Errno::NOENT;
        for path in places {
            match self.read_file(&path, SCRIPT) {
                Ok(bytes) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    pub(super) fn exec(&mut self, arguments: &[String]) -> Run {
        if arguments.is_empty() { Ok(0) } else { self.replace(arguments) }
    }

    /// `command NAME`: ignores functions. `-v` and `-V` describe the name.
    pub(super) fn command_builtin(&mut self, arguments: &[String]) -> Run {
        let mut rest = arguments;
        let mut ask = None;
        while let Some((first, more)) = rest.split_first() {
            match first.as_str() {
                "-v" | "-V" => ask = Some(first.as_str()),
                "-p" => {}
                "--" => {
                    rest = more;
                    break;
                }
                _ => break,
            }
            rest = more;
        }
        match (ask, rest.first()) {
            (_, None) => Ok(0),
            (Some("-v"), Some(_)) => self.type_("command", rest),
            (Some(_), Some(_)) => self.type_("type", rest),
            (None, Some(name)) if super::exists(name) => {
                let result = self.builtin(&name.clone(), rest);
                match result {
                    Err(Stop::Abort(status)) => Ok(status),
                    result => result,
                }
            }
            (None, Some(_)) => self.program(rest, &[]),
        }
    }

    pub(super) fn trap(&mut self, arguments: &[String]) -> Run {
        let arguments = match arguments.split_first() {
            Some((first, more)) if first == "--" => more,
            _ => arguments,
        };
        let Some((action, signals)) = arguments.split_first() else {
            let quoted = |(signal, action): (&String, &String)| {
                format!("trap -- {} {signal}\n", crate::print::quote(action))
            };
            let text: String = self.state.traps.iter().map(quoted).collect();
            return self.out(text.as_bytes());
        };
        // If the first argument is a number, all are signals to reset to their default action.
        let reset = action == "-" || action.parse::<u32>().is_ok();
        let signals = if reset && action != "-" { arguments } else { signals };
        let mut status = 0;
        for signal in signals {
            let Some(name) = signal_name(signal) else {
                status = self.misused("trap", &format!("{signal}: no such signal"))?.min(1);
                continue;
            };
            match reset {
                true => self.state.traps.remove(&name),
                false => self.state.traps.insert(name, action.clone()),
            };
        }
        Ok(status)
    }

    pub(super) fn getopts(&mut self, arguments: &[String]) -> Run {
        let (Some(wanted), Some(name)) = (arguments.first(), arguments.get(1)) else {
            return self.misused("getopts", "requires letters and a name");
        };
        if !is_name(name) {
            return self.misused("getopts", &format!("{name}: not a valid name"));
        }
        let given: Vec<String> = match arguments.get(2..) {
            Some(more) if !more.is_empty() => more.to_vec(),
            _ => self.state.arguments.clone(),
        };
        let index = self.state.variables.get("OPTIND").and_then(|v| v.parse::<usize>().ok());
        let found = step(wanted, &given, index.unwrap_or(1).max(1), self.state.option_at);
        let _ = self.state.variables.unset("OPTARG");
        if let Some(argument) = &found.argument {
            self.assign("OPTARG", argument)?;
        }
        if let Some(why) = &found.message {
            self.say(why);
        }
        self.assign(name, &found.letter)?;
        self.assign("OPTIND", &found.index.to_string())?;
        self.state.option_at = found.at;
        Ok(u32::from(found.over))
    }

    /// Restores state that no variable holds, when called by the text that a parent shell wrote.
    pub(super) fn resumed(&mut self, arguments: &[String]) -> Run {
        let [name, pid, status, background] = arguments else { return Ok(2) };
        self.state.name = name.clone();
        self.state.pid = pid.parse().unwrap_or(self.state.pid);
        self.state.background = background.parse().ok();
        self.state.subshell = true;
        self.state.status = status.parse().unwrap_or(0);
        Ok(self.state.status)
    }
}

/// Returns `EXIT` or a signal's name.
fn signal_name(text: &str) -> Option<String> {
    use penumbra::process::signal;
    if text == "0" || text.eq_ignore_ascii_case("EXIT") {
        return Some("EXIT".to_string());
    }
    let number = signal::parse(text).filter(|n| *n != 0)?;
    signal::NAMES.get(number as usize).map(|name| name.to_string())
}

/// Result of a `getopts` step.
struct Found {
    letter: String,
    argument: Option<String>,
    message: Option<String>,
    index: usize,
    at: usize,
    over: bool,
}

/// Returns the next option of `given`, starting at argument `index` (from 1) and position `at`
/// within it.
fn step(wanted: &str, given: &[String], mut index: usize, at: usize) -> Found {
    let silent = wanted.starts_with(':');
    let mut found =
        Found { letter: "?".to_string(), argument: None, message: None, index, at: 0, over: true };
    let Some(text) = given.get(index - 1) else { return found };
    let at = if at == 0 { 1 } else { at };
    let letters: Vec<char> = text.chars().collect();
    if letters.first() != Some(&'-') || letters.len() < 2 {
        return found;
    }
    if text == "--" {
        found.index = index + 1;
        return found;
    }
    let Some(letter) = letters.get(at).copied() else { return found };
    let mut next = at + 1;
    if next >= letters.len() {
        (index, next) = (index + 1, 0);
    }
    found.over = false;
    let place = wanted.chars().position(|c| c == letter).filter(|_| letter != ':');
    let takes = place.is_some_and(|p| wanted.chars().nth(p + 1) == Some(':'));
    found.letter = letter.to_string();
    if place.is_none() {
        found.letter = "?".to_string();
        match silent {
            true => found.argument = Some(letter.to_string()),
            false => found.message = Some(format!("unknown option -{letter}")),
        }
    } else if takes {
        let rest: Option<String> = (next > 0).then(|| letters.iter().skip(next).collect());
        let argument = rest.or_else(|| given.get(index - 1).cloned());
        index += 1;
        next = 0;
        if argument.is_none() {
            found.letter = if silent { ":" } else { "?" }.to_string();
            match silent {
                true => found.argument = Some(letter.to_string()),
                false => found.message = Some(format!("-{letter} requires an argument")),
            }
        } else {
            found.argument = argument;
        }
    }
    found.index = index;
    found.at = next;
    found
}
