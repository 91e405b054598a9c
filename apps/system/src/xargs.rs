//! `xargs`: passes words of the input to a program as arguments.
//!
//! POSIX's, with GNU's `-0` and `-r`. Input is read as it arrives: a program starts as soon as its
//! arguments are complete. Programs run one at a time, with `/dev/null` as standard input.

use crate::Answer;
use crate::begin::{ROOM, Ran, begin, bytes};
use crate::options::{Options, number};
use penumbra::End;
use std::io::BufRead;
use std::os::fd::AsRawFd;

/// Maximum length of an input line in bytes.
const LINE: u64 = 1 << 20;

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Words end with a NUL.
    zero: bool,
    /// Do not run a program without words.
    no_empty: bool,
    /// Print each command line.
    tell: bool,
    /// One program per line, which replaces this text in its arguments.
    replace: Option<String>,
    /// Maximum lines per program.
    lines: Option<usize>,
    /// Maximum words per program.
    words: Option<usize>,
    /// The word that ends the input.
    end: Option<String>,
    /// The program and its first arguments.
    program: Vec<String>,
}

impl Plan {
    fn of(arguments: &[String]) -> Result<Plan, String> {
        let options = Options::of(arguments, "ILnE", false)?;
        let mut plan = Plan { program: options.rest, ..Plan::default() };
        for (letter, value) in options.all {
            match letter {
                '0' => plan.zero = true,
                'r' => plan.no_empty = true,
                't' => plan.tell = true,
                'I' => plan.replace = Some(value),
                'L' => plan.lines = Some(number(letter, &value)?),
                'n' => plan.words = Some(number(letter, &value)?),
                'E' => plan.end = Some(value),
                _ => return Err(format!("-{letter}: no such option")),
            }
        }
        if plan.program.is_empty() {
            plan.program.push("echo".to_string());
        }
        Ok(plan)
    }

    /// Splits a line into words according to the options.
    fn divided(&self, line: &str) -> Result<Vec<String>, String> {
        match (self.zero, &self.replace) {
            (true, _) => Ok(vec![line.to_string()]),
            (_, Some(_)) => {
                let line = line.trim_start_matches([' ', '\t']);
                Ok(if line.is_empty() { vec![] } else { vec![line.to_string()] })
            }
            _ => words(line),
        }
    }

    /// Returns the command line with these words.
    fn with(&self, words: &[String]) -> Vec<String> {
        match (&self.replace, words) {
            (Some(text), [word]) => self.program.iter().map(|a| a.replace(text, word)).collect(),
            _ => self.program.iter().chain(words).cloned().collect(),
        }
    }
}

/// Splits at blanks; quotes and backslashes work as in a shell.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut found, mut word) = (Vec::new(), None::<String>);
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' => found.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(rest.next()),
            '"' | '\'' => {
                let (inside, behind) =
                    rest.as_str().split_once(c).ok_or("a quote without its other one")?;
                word.get_or_insert_default().push_str(inside);
                rest = behind.chars();
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    Ok(found)
}

/// Words collected for the next program.
struct Batch<'a> {
    plan: &'a Plan,
    /// Maximum bytes of a program's arguments.
    room: usize,
    /// Maximum words per program.
    most: usize,
    held: Vec<String>,
    /// Number of lines that the words come from.
    lines: usize,
    /// A program was run.
    begun: bool,
    /// Runs a program. Returns whether to continue.
    run: &'a mut dyn FnMut(&[String]) -> Result<bool, String>,
}

impl<'a> Batch<'a> {
    fn new(
        plan: &'a Plan,
        room: usize,
        run: &'a mut dyn FnMut(&[String]) -> Result<bool, String>,
    ) -> Batch<'a> {
        let most = if plan.replace.is_some() { Some(1) } else { plan.words };
        let most = most.unwrap_or(usize::MAX);
        Batch { plan, room, most, held: Vec::new(), lines: 0, begun: false, run }
    }

    /// Processes the whole input.
    fn all(&mut self, mut input: impl BufRead) -> Result<(), String> {
        while let Some(line) = line(&mut input, self.plan.zero)? {
            let mut found = self.plan.divided(&line)?;
            let end = found.iter().position(|word| self.plan.end.as_ref() == Some(word));
            found.truncate(end.unwrap_or(found.len()));
            self.lines += usize::from(!found.is_empty());
            for word in found {
                if !self.add(word)? {
                    return Ok(());
                }
            }
            let is_full = self.plan.lines.is_some_and(|most| self.lines >= most);
            if (is_full || self.held.len() >= self.most) && !self.flush()? {
                return Ok(());
            }
            if end.is_some() {
                break;
            }
        }
        let at_least_once = !self.begun && !self.plan.no_empty && self.plan.replace.is_none();
        if !self.held.is_empty() || at_least_once {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds a word; runs the program first if the word does not fit. Returns whether to continue.
    fn add(&mut self, word: String) -> Result<bool, String> {
        let wanted = |held: &[String]| bytes(&self.plan.program) + bytes(held) + word.len() + 1;
        if wanted(&[]) > self.room {
            return Err("an argument is too long".to_string());
        }
        let is_full = self.held.len() >= self.most || wanted(&self.held) > self.room;
        let goes_on = !is_full || self.flush()?;
        self.held.push(word);
        Ok(goes_on)
    }

    fn flush(&mut self) -> Result<bool, String> {
        (self.begun, self.lines) = (true, 0);
        let words = std::mem::take(&mut self.held);
        (self.run)(&self.plan.with(&words))
    }
}

/// Reads the next line, or the next text that ends with a NUL.
fn line(input: &mut impl BufRead, zero: bool) -> Result<Option<String>, String> {
    let end = if zero { 0 } else { b'\n' };
    let mut line = Vec::new();
    let read = std::io::Read::take(input, LINE).read_until(end, &mut line);
    match read.map_err(|error| error.to_string())? {
        0 => return Ok(None),
        _ if line.last() == Some(&end) => line.truncate(line.len() - 1),
        read if read as u64 == LINE => return Err("a line is too long".to_string()),
        _ => {}
    }
    String::from_utf8(line).map(Some).map_err(|_| "the input is no text".to_string())
}

/// Returns the overall exit code after one more program, and whether to continue.
fn judged(code: u32, ran: Ran, program: &str) -> (u32, bool) {
    match ran {
        Ran::Not(_) => (ran.code(program), false),
        Ran::Ended(End::Exit(255)) => (124, false),
        Ran::Ended(End::Exit(0)) => (code, true),
        Ran::Ended(End::Exit(_)) => (123, true),
        Ran::Ended(_) => (125, false),
    }
}

/// `xargs`
pub fn xargs(arguments: &[String]) -> Answer {
    let plan = Plan::of(arguments)?;
    let variables: Vec<(String, String)> = std::env::vars().collect();
    let environment: usize = variables.iter().map(|(n, v)| n.len() + v.len() + 2).sum();
    let null = std::fs::File::open("/dev/null").map_err(|e| format!("/dev/null: {e}"))?;
    let nothing = u32::try_from(null.as_raw_fd()).map_err(|e| e.to_string())?;
    let mut code = 0;
    let mut run = |words: &[String]| {
        let Some((program, rest)) = words.split_first() else { return Ok(false) };
        if plan.tell {
            eprintln!("{}", words.join(" "));
        }
        let ran = begin(program, rest, &variables, |command| command.file(nothing, 0))?;
        let (next, goes_on) = judged(code, ran, program);
        code = next;
        Ok(goes_on)
    };
    let room = ROOM.saturating_sub(environment);
    Batch::new(&plan, room, &mut run).all(std::io::stdin().lock())?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penumbra::Errno;

    fn plan(text: &str) -> Result<Plan, String> {
        Plan::of(&text.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    /// Returns the command lines that would run, one per line.
    fn begun(arguments: &str, input: &str, room: usize) -> Result<String, String> {
        let mut all = Vec::new();
        let mut run = |words: &[String]| {
            all.push(words.join("|"));
            Ok(true)
        };
        Batch::new(&plan(arguments)?, room, &mut run).all(input.as_bytes())?;
        Ok(all.join("\n"))
    }

    #[test]
    fn words_are_divided_as_asked() {
        for (arguments, input, expected) in [
            ("", "a b\nc\n", "echo|a|b|c"),
            ("", "", "echo"),
            ("-r", " \n\n", ""),
            ("-n2 rm -f", "a b c", "rm|-f|a|b\nrm|-f|c"),
            ("-n 2", "a b\nc d\n", "echo|a|b\necho|c|d"),
            ("-L 1", "a b\n\nc\n", "echo|a|b\necho|c"),
            ("-I {} mv {} {}.old", "  a b\nc\n", "mv|a b|a b.old\nmv|c|c.old"),
            ("-I{} echo x{}", "", ""),
            ("-0", "a b\0c\nd\0", "echo|a b|c\nd"),
            ("-0n1", "a\0b\0", "echo|a\necho|b"),
            ("", "'a b' \"c'\"d e\\ f ''", "echo|a b|c'd|e f|"),
            ("-E stop", "a stop b\nc", "echo|a"),
            ("-- -x", "a", "-x|a"),
        ] {
            assert_eq!(begun(arguments, input, 1000).as_deref(), Ok(expected), "{arguments}");
        }
        assert!(begun("", "'a", 1000).is_err());
    }

    #[test]
    fn no_program_gets_more_than_there_is_room_for() {
        assert_eq!(begun("", "aa bb cc", 11).as_deref(), Ok("echo|aa|bb\necho|cc"));
        assert!(begun("", "aaaaaaaa", 11).is_err());
        assert!(begun("", &"a".repeat(LINE as usize + 1), ROOM).is_err());
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for text in ["-n", "-n 0", "-n x", "-q", "-I", "-L -1", "-\u{e4}"] {
            assert!(plan(text).is_err(), "{text}");
        }
        assert_eq!(plan("-rt0").unwrap().program, ["echo"]);
    }

    #[test]
    fn the_worst_end_counts() {
        let ended = |code| Ran::Ended(End::Exit(code));
        assert_eq!(judged(0, ended(0), "a"), (0, true));
        assert_eq!(judged(0, ended(1), "a"), (123, true));
        assert_eq!(judged(123, ended(0), "a"), (123, true));
        assert_eq!(judged(0, ended(255), "a"), (124, false));
        assert_eq!(judged(0, Ran::Ended(End::Signal(9)), "a"), (125, false));
        assert_eq!(judged(0, Ran::Not(Errno::NOENT), "a"), (127, false));
        assert_eq!(judged(0, Ran::Not(Errno::NOEXEC), "a"), (126, false));
    }
}
