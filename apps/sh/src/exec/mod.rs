//! Executes the tree: lists, compound commands, functions, subshells.
//!
//! There is no `fork`. A foreground subshell runs in this shell, which restores its state
//! afterwards; a command that must run concurrently with the shell becomes text for another one
//! ([`child`]).

mod child;
mod pipeline;
mod program;
mod redirect;
mod simple;

use crate::ast::{AndOr, Arm, Command, Join, List, Pipeline, Redirected, Word};
use crate::shell::{Run, Shell, Sink, Slot, Slots, State, Stop};
use crate::system::System;
use std::rc::Rc;

pub(crate) use child::RESUMED;

/// Maximum nesting of commands. Each level takes some of the shell's stack.
pub(crate) const DEPTH: u32 = 160;

/// State that a subshell does not change.
pub(crate) struct Saved<F> {
    state: State,
    slots: Slots<F>,
}

impl<S: System> Shell<S> {
    /// Runs commands one after another. Returns the last status.
    pub(crate) fn list(&mut self, list: &List) -> Run {
        let mut status = 0;
        for item in list {
            status = if item.background { self.background(item)? } else { self.and_or(item)? };
        }
        Ok(status)
    }

    fn and_or(&mut self, item: &AndOr) -> Run {
        let last = item.rest.len();
        let mut status = self.tested_pipeline(&item.first, last > 0)?;
        for (index, (join, pipeline)) in item.rest.iter().enumerate() {
            if (*join == Join::And) == (status == 0) {
                status = self.tested_pipeline(pipeline, index + 1 < last)?;
            }
        }
        Ok(status)
    }

    /// With `tested`, a failure is part of a condition; otherwise `set -e` may end the shell.
    fn tested_pipeline(&mut self, pipeline: &Pipeline, tested: bool) -> Run {
        let quiet = u32::from(tested || pipeline.negated);
        self.state.tested += quiet;
        let result = self.timed_pipeline(pipeline);
        self.state.tested = self.state.tested.saturating_sub(quiet);
        let status = match (result?, pipeline.negated) {
            (status, true) => u32::from(status == 0),
            (status, false) => status,
        };
        self.state.status = status;
        let ends = self.state.options.has('e') && self.state.tested + quiet == 0;
        let counts = match pipeline.commands.as_slice() {
            [one] => matches!(one.command, Command::Simple(_) | Command::Subshell(_)),
            _ => true,
        };
        if status != 0 && ends && counts { Err(Stop::Exit(status)) } else { Ok(status) }
    }

    fn timed_pipeline(&mut self, pipeline: &Pipeline) -> Run {
        if !pipeline.timed {
            return self.pipeline(pipeline);
        }
        let (begin, cpu) = (self.system.now(), self.jobs.cpu);
        let result = self.pipeline(pipeline);
        let real = self.system.now().saturating_sub(begin);
        let cpu = self.jobs.cpu.saturating_sub(cpu);
        let seconds = |ns: u64| format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000);
        let line = format!("real {}, on a core {}\n", seconds(real), seconds(cpu));
        // An error is ignored: it could only be reported to the same descriptor.
        let _ = self.put(2, line.as_bytes());
        result
    }

    /// Runs one command in this shell.
    pub(crate) fn command(&mut self, command: &Redirected) -> Run {
        if self.depth >= DEPTH {
            self.say("too many commands within each other");
            return Err(Stop::Abort(2));
        }
        self.depth += 1;
        self.state.line = command.line;
        let result = match &command.command {
            Command::Simple(simple) => self.simple(simple, &command.redirects),
            Command::Function { name, body } => {
                self.state.functions.insert(name.clone(), body.clone());
                Ok(0)
            }
            compound => self.redirected(compound, command),
        };
        self.depth = self.depth.saturating_sub(1);
        if let Ok(status) = result {
            self.state.status = status;
        }
        result
    }

    fn redirected(&mut self, compound: &Command, command: &Redirected) -> Run {
        if command.redirects.is_empty() {
            return self.compound(compound);
        }
        let before = self.slots.clone();
        let result = match self.redirect(&command.redirects) {
            Ok(true) => self.compound(compound),
            Ok(false) => Ok(1),
            Err(stop) => Err(stop),
        };
        self.slots = before;
        result
    }

    fn compound(&mut self, command: &Command) -> Run {
        match command {
            Command::Simple(simple) => self.simple(simple, &[]),
            Command::Function { .. } => Ok(0),
            Command::Group(list) => self.list(list),
            Command::Subshell(list) => self.subshell(|shell| shell.list(list)),
            Command::If { branches, otherwise } => self.branches(branches, otherwise.as_ref()),
            Command::Loop { until, condition, body } => self.repeat(*until, condition, body),
            Command::For { name, words, body } => self.each(name, words.as_deref(), body),
            Command::Case { word, arms } => self.case(word, arms),
        }
    }

    /// Runs a condition, whose failure does not end the shell.
    fn condition(&mut self, list: &List) -> Run {
        self.state.tested += 1;
        let result = self.list(list);
        self.state.tested = self.state.tested.saturating_sub(1);
        result
    }

    fn branches(&mut self, branches: &[(List, List)], otherwise: Option<&List>) -> Run {
        for (condition, body) in branches {
            if self.condition(condition)? == 0 {
                return self.list(body);
            }
        }
        otherwise.map_or(Ok(0), |body| self.list(body))
    }

    fn repeat(&mut self, until: bool, condition: &List, body: &List) -> Run {
        self.state.loops += 1;
        let result = self.rounds(|shell, status| {
            if (shell.condition(condition)? == 0) == until {
                return Ok(None);
            }
            let _ = status;
            shell.list(body).map(Some)
        });
        self.state.loops = self.state.loops.saturating_sub(1);
        result
    }

    fn each(&mut self, name: &str, words: Option<&[Word]>, body: &List) -> Run {
        let values = match words {
            Some(words) => self.expand(words)?,
            None => self.state.arguments.clone(),
        };
        self.state.loops += 1;
        let mut values = values.into_iter();
        let result = self.rounds(|shell, _| {
            let Some(value) = values.next() else { return Ok(None) };
            shell.assign(name, &value)?;
            shell.list(body).map(Some)
        });
        self.state.loops = self.state.loops.saturating_sub(1);
        result
    }

    /// Runs rounds of a loop until one returns `None`; handles `break` and `continue`.
    fn rounds(
        &mut self,
        mut round: impl FnMut(&mut Self, u32) -> Result<Option<u32>, Stop>,
    ) -> Run {
        let mut status = 0;
        loop {
            match round(self, status) {
                Ok(Some(next)) => status = next,
                Ok(None) => return Ok(status),
                Err(Stop::Break(0 | 1)) => return Ok(0),
                Err(Stop::Continue(0 | 1)) => status = 0,
                Err(Stop::Break(levels)) => return Err(Stop::Break(levels - 1)),
                Err(Stop::Continue(levels)) => return Err(Stop::Continue(levels - 1)),
                Err(stop) => return Err(stop),
            }
        }
    }

    fn case(&mut self, word: &Word, arms: &[Arm]) -> Run {
        let text: Vec<char> = self.expand_one(word)?.chars().collect();
        let (mut falls, mut status) = (false, 0);
        for arm in arms {
            if !falls && !self.fits_any(&text, &arm.patterns)? {
                continue;
            }
            status = self.list(&arm.body)?;
            falls = arm.falls;
            if !falls {
                break;
            }
        }
        Ok(status)
    }

    fn fits_any(&mut self, text: &[char], patterns: &[Word]) -> Result<bool, Stop> {
        for pattern in patterns {
            if self.expand_pattern(pattern)?.fits(text) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs `inner` and undoes its changes of the shell's state; its `exit` ends only `inner`.
    pub(crate) fn subshell(&mut self, inner: impl FnOnce(&mut Self) -> Run) -> Run {
        let saved = self.enter();
        let result = inner(self);
        let status = self.subshell_status(result);
        let status = self.leave(status);
        self.restore(saved);
        Ok(status)
    }

    fn subshell_status(&mut self, result: Run) -> u32 {
        match result {
            Ok(status) => status,
            Err(Stop::Break(_) | Stop::Continue(_)) => self.state.status,
            Err(Stop::Return(status) | Stop::Exit(status) | Stop::Abort(status)) => status,
        }
    }

    pub(crate) fn enter(&mut self) -> Saved<S::File> {
        let saved = Saved { state: self.state.clone(), slots: self.slots.clone() };
        self.state.subshell = true;
        self.state.traps.clear();
        saved
    }

    pub(crate) fn restore(&mut self, saved: Saved<S::File>) {
        let substituted = self.state.substituted;
        self.state = saved.state;
        self.state.substituted = substituted;
        self.slots = saved.slots;
    }

    /// Returns the output of a list.
    pub(crate) fn capture(&mut self, list: &List) -> Result<Vec<u8>, Stop> {
        if self.depth >= DEPTH {
            self.say("too many commands within each other");
            return Err(Stop::Abort(2));
        }
        self.depth += 1;
        let sink = Sink::default();
        let status = self.subshell(|shell| {
            shell.slots.insert(1, Slot::Sink(sink.clone()));
            // Failures inside do not end the shell; an assignment takes over the status.
            shell.state.tested = 0;
            shell.list(list)
        });
        self.depth = self.depth.saturating_sub(1);
        self.drain_rest(&sink);
        let status = status?;
        self.state.substituted = Some(status);
        self.state.status = status;
        Ok(Rc::try_unwrap(sink).map_or_else(|s| s.borrow().clone(), |s| s.into_inner()))
    }

    /// Calls a function.
    pub(crate) fn call(&mut self, body: &Rc<Redirected>, arguments: &[String]) -> Run {
        let arguments = arguments.iter().skip(1).cloned().collect();
        let arguments = std::mem::replace(&mut self.state.arguments, arguments);
        let loops = std::mem::take(&mut self.state.loops);
        self.state.functions_deep += 1;
        self.state.variables.enter();
        let result = self.command(body);
        self.state.variables.leave();
        self.state.functions_deep = self.state.functions_deep.saturating_sub(1);
        self.state.loops = loops;
        self.state.arguments = arguments;
        match result {
            Err(Stop::Return(status)) => Ok(status),
            result => result,
        }
    }
}
