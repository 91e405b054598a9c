//! Pipelines and background commands: each stage is a program, runs in this shell, or runs in a
//! second shell.
//!
//! ```text
//!   program | echo | { while ...; } | last
//!      |       |          |             |
//!   started run here,  second shell   program: started; else run here as a subshell
//!           collected
//! ```

use super::program::{NotStarted, Plumbing};
use crate::ast::{AndOr, Command, Pipeline, Redirected, literal};
use crate::builtin;
use crate::print;
use crate::shell::{Run, Shell, Sink, Slot, Stop};
use crate::system::System;
use std::rc::Rc;

use super::simple::Meaning;

/// How a stage of a pipeline is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As a program.
    Program,
    /// As a builtin with bounded output: here, at once.
    Builtin,
    /// In a second shell.
    Shell,
}

/// A stage that is running or has ended.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Running(u32),
    Over(u32),
}

impl<S: System> Shell<S> {
    pub(crate) fn pipeline(&mut self, pipeline: &Pipeline) -> Run {
        match pipeline.commands.as_slice() {
            [command] => self.command(command),
            commands => self.stages(commands),
        }
    }

    fn way(&self, command: &Redirected) -> Way {
        let Command::Simple(simple) = &command.command else { return Way::Shell };
        let Some(name) = simple.words.first().and_then(|word| literal(word)) else {
            return Way::Shell;
        };
        match self.meaning(name) {
            Meaning::Program => Way::Program,
            Meaning::Builtin | Meaning::Special if builtin::is_bounded(name) => Way::Builtin,
            _ => Way::Shell,
        }
    }

    fn stages(&mut self, commands: &[Redirected]) -> Run {
        let Some((last, before)) = commands.split_last() else { return Ok(0) };
        let outside = self.slots.clone();
        let mut plumbing = Plumbing::new(self.state.options.has('m'));
        let mut stages = Vec::new();
        let mut result = Ok(());
        for command in before {
            match self.middle(command, &mut plumbing) {
                Ok((stage, read)) => {
                    stages.push(stage);
                    self.slots = outside.clone();
                    self.slots.insert(0, Slot::File(read));
                }
                Err(stop) => {
                    result = Err(stop);
                    break;
                }
            }
        }
        let ended = match result {
            Ok(()) => self.last(last, &mut plumbing),
            Err(stop) => Err(stop),
        };
        self.slots = outside;
        self.drain(plumbing);
        if let Ok(stage) = ended {
            stages.push(stage);
        }
        let statuses: Vec<u32> = stages.into_iter().map(|stage| self.await_stage(stage)).collect();
        ended?;
        let status = statuses.last().copied().unwrap_or(0);
        if self.state.options.has('o') {
            return Ok(statuses.into_iter().rev().find(|s| *s != 0).unwrap_or(0));
        }
        Ok(status)
    }

    fn await_stage(&mut self, stage: Stage) -> u32 {
        match stage {
            Stage::Running(pid) => self.await_program(pid),
            Stage::Over(status) => status,
        }
    }

    /// Starts a stage that is not the last. Returns it and the descriptor of its output.
    fn middle(
        &mut self,
        command: &Redirected,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<(Stage, Rc<S::File>), Stop> {
        if self.way(command) == Way::Builtin {
            let sink = Sink::default();
            let status = self.subshell(|shell| {
                shell.slots.insert(1, Slot::Sink(sink.clone()));
                shell.command(command)
            })?;
            let bytes = sink.borrow().clone();
            let read = self.hand_over(&bytes).ok_or(Stop::Abort(2))?;
            return Ok((Stage::Over(status), read));
        }
        let (read, write) = self.system.pipe().map_err(|error| {
            self.say(&format!("no pipe: {error}"));
            Stop::Abort(2)
        })?;
        let before = self.slots.insert(1, Slot::File(Rc::new(write)));
        let stage = self.beside(command, plumbing);
        match before {
            Some(slot) => self.slots.insert(1, slot),
            None => self.slots.remove(&1),
        };
        Ok((stage?, Rc::new(read)))
    }

    fn last(
        &mut self,
        command: &Redirected,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<Stage, Stop> {
        match self.way(command) {
            Way::Program => self.beside(command, plumbing),
            _ => self.subshell(|shell| shell.command(command)).map(Stage::Over),
        }
    }

    /// Starts a command concurrently with the shell.
    fn beside(
        &mut self,
        command: &Redirected,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<Stage, Stop> {
        if self.way(command) != Way::Program {
            let text = print::command(command);
            return Ok(stage(self.second_shell(&text, plumbing)));
        }
        let Command::Simple(simple) = &command.command else { return Ok(Stage::Over(0)) };
        let saved = self.enter();
        let result = self.begin_simple(simple, command, plumbing);
        self.restore(saved);
        match result {
            Err(Stop::Exit(status) | Stop::Abort(status)) => Ok(Stage::Over(status)),
            result => result,
        }
    }

    fn begin_simple(
        &mut self,
        simple: &crate::ast::Simple,
        command: &Redirected,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<Stage, Stop> {
        self.state.line = command.line;
        let words = self.expand(&simple.words)?;
        if !self.redirect(&command.redirects)? {
            return Ok(Stage::Over(1));
        }
        let assigns = self.assigned(&simple.assigns)?;
        self.trace(&assigns, &words);
        Ok(stage(self.launch(&words, &assigns, plumbing)))
    }

    /// Runs a list in the background (`&`).
    pub(crate) fn background(&mut self, item: &AndOr) -> Run {
        let outside = self.slots.clone();
        if !self.state.options.has('m') {
            let empty = self.empty().map(|file| Slot::File(Rc::new(file)));
            self.slots.extend(empty.ok().map(|slot| (0, slot)));
        }
        let mut plumbing = Plumbing::behind(self.state.options.has('m'));
        let simple = item.rest.is_empty()
            && !item.first.negated
            && !item.first.timed
            && item.first.commands.iter().all(|c| self.way(c) == Way::Program);
        let begun = match simple {
            true => self.begin_all(&item.first.commands, &mut plumbing),
            false => {
                let text = print::list(&vec![AndOr { background: false, ..item.clone() }]);
                Ok(vec![stage(self.second_shell(&text, &mut plumbing))])
            }
        };
        self.slots = outside;
        let group = plumbing.group;
        self.drain_later(plumbing);
        let pids: Vec<(u32, Option<u32>)> = begun?
            .into_iter()
            .map(|stage| match stage {
                Stage::Running(pid) => (pid, None),
                Stage::Over(status) => (0, Some(status)),
            })
            .collect();
        self.state.background = pids.last().map(|(pid, _)| *pid).filter(|pid| *pid != 0);
        let number = self.jobs.add(pids, group, print::title(item));
        if self.state.options.has('i')
            && let Some(pid) = self.state.background
        {
            let line = format!("[{number}] {pid}\n");
            // An error is ignored: it could only be reported to the same descriptor.
            let _ = self.put(2, line.as_bytes());
        }
        Ok(0)
    }

    fn begin_all(
        &mut self,
        commands: &[Redirected],
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<Vec<Stage>, Stop> {
        let outside = self.slots.get(&1).cloned();
        let mut begun = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            if index + 1 == commands.len() {
                match &outside {
                    Some(slot) => self.slots.insert(1, slot.clone()),
                    None => self.slots.remove(&1),
                };
                begun.push(self.beside(command, plumbing)?);
            } else {
                let (stage, read) = self.middle(command, plumbing)?;
                begun.push(stage);
                self.slots.insert(0, Slot::File(read));
            }
        }
        Ok(begun)
    }
}

fn stage(started: Result<u32, NotStarted>) -> Stage {
    match started {
        Ok(pid) => Stage::Running(pid),
        Err(NotStarted(status)) => Stage::Over(status),
    }
}
