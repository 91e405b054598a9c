//! Builtins for jobs and processes.

use crate::jobs::Job;
use crate::shell::{Run, Shell};
use crate::system::System;
use penumbra::process::signal;
use penumbra::{End, Errno};

impl<S: System> Shell<S> {
    /// Collects ended background programs without waiting.
    pub(crate) fn look_after(&mut self) {
        for pid in self.jobs.running() {
            match self.system.wait(pid, false) {
                Ok(Some(ended)) => {
                    self.jobs.cpu = self.jobs.cpu.saturating_add(ended.cpu);
                    self.jobs.ended(pid, ended.end.code());
                }
                Err(Errno::CHILD | Errno::SRCH) => self.jobs.ended(pid, 127),
                _ => {}
            }
        }
    }

    /// Returns a line for each job that ended since the last prompt.
    pub fn news(&mut self) -> String {
        self.look_after();
        self.jobs.take_over().iter().map(|job| line(job) + "\n").collect()
    }

    pub(super) fn show_jobs(&mut self, arguments: &[String]) -> Run {
        self.look_after();
        let numbers = arguments.iter().any(|a| a == "-p");
        let mut text = String::new();
        for job in self.jobs.iter() {
            if numbers {
                let pids = job.programs.iter().map(|(pid, _)| format!("{pid}\n"));
                text.extend(pids);
            } else {
                text.push_str(&line(job));
                text.push('\n');
            }
        }
        self.jobs.take_over();
        self.out(text.as_bytes())
    }

    pub(super) fn wait(&mut self, arguments: &[String]) -> Run {
        if arguments.is_empty() {
            for pid in self.jobs.running() {
                self.await_one(pid);
            }
            self.jobs.take_over();
            return Ok(0);
        }
        let mut status = 0;
        for text in arguments {
            let Some(job) = self.jobs.find(text).cloned() else {
                status = 127;
                continue;
            };
            status = self.await_job(&job, text.parse().ok());
        }
        Ok(status)
    }

    fn await_one(&mut self, pid: u32) {
        loop {
            match self.system.wait(pid, true) {
                Ok(Some(ended)) => {
                    self.jobs.cpu = self.jobs.cpu.saturating_add(ended.cpu);
                    return self.jobs.ended(pid, ended.end.code());
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => return self.jobs.ended(pid, 127),
            }
        }
    }

    /// Waits for a job, or for one program of it. A finished job is removed.
    fn await_job(&mut self, job: &Job, only: Option<u32>) -> u32 {
        let waits = |pid: u32| only.is_none_or(|only| only == pid);
        for (pid, status) in &job.programs {
            if status.is_none() && waits(*pid) {
                self.await_one(*pid);
            }
        }
        let after = self.jobs.iter().find(|j| j.number == job.number).cloned();
        let Some(after) = after else { return 127 };
        let last = after.programs.iter().rfind(|(pid, _)| waits(*pid));
        let status = last.and_then(|(_, status)| *status).unwrap_or(127);
        if after.status().is_some() {
            self.jobs.remove(after.number);
        }
        status
    }

    /// `fg` waits for a job. `bg` does nothing, because jobs cannot be stopped.
    pub(super) fn foreground(&mut self, name: &str, arguments: &[String]) -> Run {
        let which = arguments.first().map_or("%%", String::as_str);
        let which = if which.starts_with('%') || which.parse::<u32>().is_err() {
            which.to_string()
        } else {
            format!("%{which}")
        };
        let Some(job) = self.jobs.find(&which).cloned() else {
            self.say(&format!("{name}: {which}: no such job"));
            return Ok(1);
        };
        self.out(format!("{}\n", job.title).as_bytes())?;
        if name == "bg" {
            return Ok(0);
        }
        self.system.foreground(job.group.unwrap_or(0));
        Ok(self.await_job(&job, None))
    }

    pub(super) fn kill(&mut self, arguments: &[String]) -> Run {
        if let Some(("-l", texts)) = arguments.split_first().map(|(a, rest)| (a.as_str(), rest)) {
            return self.signals(texts);
        }
        let (which, rest) = match signal::chosen(arguments) {
            Ok(chosen) => chosen,
            Err(text) => return self.misused("kill", &format!("{text}: no such signal")),
        };
        if rest.is_empty() {
            return self.misused("kill", "requires processes or jobs");
        }
        let mut status = 0;
        for text in rest {
            if let Err(error) = self.kill_one(text, which) {
                self.say(&format!("kill: {text}: {error}"));
                status = 1;
            }
        }
        Ok(status)
    }

    fn kill_one(&mut self, text: &str, which: u32) -> Result<(), Errno> {
        if !text.starts_with('%') {
            let pid: i32 = text.parse().map_err(|_| Errno::INVAL)?;
            return self.system.kill(pid, which);
        }
        let job = self.jobs.find(text).cloned().ok_or(Errno::SRCH)?;
        if let Some(group) = job.group.and_then(|group| i32::try_from(group).ok()) {
            return self.system.kill(-group, which);
        }
        for (pid, _) in job.programs.iter().filter(|(_, status)| status.is_none()) {
            self.system.kill(i32::try_from(*pid).map_err(|_| Errno::SRCH)?, which)?;
        }
        Ok(())
    }

    /// `kill -l`: prints all names, or the names of numbers (128 and above: exit statuses).
    fn signals(&mut self, texts: &[String]) -> Run {
        if texts.is_empty() {
            return self.out(format!("{}\n", signal::names()).as_bytes());
        }
        for text in texts {
            let Some(shown) = signal::told(text) else {
                return self.misused("kill", &format!("{text}: no such signal"));
            };
            self.out(format!("{shown}\n").as_bytes())?;
        }
        Ok(0)
    }

    /// `times`: CPU time of all programs that the shell waited for.
    pub(super) fn times(&mut self) -> Run {
        let ms = self.jobs.cpu / 1_000_000;
        let line = format!("0m0.000s 0m0.000s\n0m{}.{:03}s 0m0.000s\n", ms / 1000, ms % 1000);
        self.out(line.as_bytes())
    }
}

fn line(job: &Job) -> String {
    let state = match job.status() {
        None => "Running".to_string(),
        Some(0) => "Done".to_string(),
        Some(status) if status > 128 => {
            let name = signal::NAMES.get((status - 128) as usize).unwrap_or(&"?");
            format!("Ended ({name})")
        }
        Some(status) => format!("Done ({})", End::Exit(status).code()),
    };
    format!("[{}] {state:<12} {}", job.number, job.title)
}
