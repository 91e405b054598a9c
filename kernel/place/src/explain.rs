//! A decision in words, for people: what is known of each kernel, what each step left, and the
//! result.

use crate::{Decision, Facts, Kernels, Preferences, Reason, Refused, Step};
use abi::platform;
use core::fmt::{self, Write};

/// A decision with everything that its explanation mentions.
pub struct Explanation<'a> {
    pub preferences: &'a Preferences,
    pub kernels: &'a [Facts],
    /// The caller's kernel.
    pub here: usize,
    pub outcome: Result<Decision, Refused>,
    /// Returns the name of a kernel.
    pub name: &'a dyn Fn(usize) -> &'static str,
}

impl Explanation<'_> {
    /// Writes a line for each kernel, then one for each step, then the result.
    pub fn write(&self, out: &mut dyn Write) -> fmt::Result {
        for (at, facts) in self.kernels.iter().enumerate() {
            self.kernel(out, at, facts)?;
        }
        let decision = match &self.outcome {
            Ok(decision) => decision,
            Err(refused) => return self.refusal(out, *refused),
        };
        for (number, step) in (1..).zip(decision.steps()) {
            write!(out, "  {number}. ")?;
            self.step(out, &step)?;
        }
        writeln!(out, "  So {}: {}.", (self.name)(decision.kernel), why(decision.reason))
    }

    fn kernel(&self, out: &mut dyn Write, at: usize, facts: &Facts) -> fmt::Result {
        write!(out, "  {} (", (self.name)(at))?;
        write_names(out, facts.platforms())?;
        out.write_char(')')?;
        if facts.is_on_demand {
            return writeln!(out, ": starts when it is needed");
        }
        if !facts.is_available {
            return writeln!(out, ": does not run, or has a process table of its own");
        }
        match facts.busy {
            Some(busy) => write!(out, ": {busy} % busy")?,
            None => out.write_str(": use unknown")?,
        }
        let plural = if facts.processes == 1 { "" } else { "es" };
        write!(out, ", {} process{plural}", facts.processes)?;
        if facts.is_low_on_memory() {
            out.write_str(", short of memory")?;
        }
        if (facts.near, facts.apart) != (0, 0) {
            write!(out, "; near +{}, apart -{}", facts.near, facts.apart)?;
        }
        if at == self.here {
            out.write_str("; asked")?;
        }
        writeln!(out)
    }

    fn step(&self, out: &mut dyn Write, step: &Step) -> fmt::Result {
        match step.reason {
            Reason::Required => {
                out.write_str("It requires the platform ")?;
                write_names(out, self.preferences.required)?;
            }
            Reason::Memory => out.write_str("Enough memory is free")?,
            Reason::Preferred(platform) => {
                out.write_str("It prefers the platform ")?;
                write_names(out, platform)?;
            }
            Reason::Near => out.write_str("It wants to be near to servers that run there")?,
            Reason::Apart => out.write_str("It wants to be apart from servers elsewhere")?,
            Reason::Class => {
                let (class, cores) = if self.preferences.wants_strong() {
                    ("normal", "strong")
                } else {
                    ("light", "weak")
                };
                write!(out, "Its class is {class}, for {cores} cores")?;
            }
            Reason::Busy => out.write_str("Least busy")?,
            Reason::Processes => out.write_str("Fewest processes per core")?,
            Reason::Caller => out.write_str("Where the request was made")?,
            Reason::First => out.write_str("The first of the board")?,
            // These are no steps.
            Reason::Requested | Reason::Only | Reason::Starts => {}
        }
        self.left(out, step.left)
    }

    fn left(&self, out: &mut dyn Write, left: Kernels) -> fmt::Result {
        for (before, kernel) in [": "].into_iter().chain(core::iter::repeat(", ")).zip(left.iter())
        {
            write!(out, "{before}{}", (self.name)(kernel))?;
        }
        writeln!(out, ".")
    }

    fn refusal(&self, out: &mut dyn Write, refused: Refused) -> fmt::Result {
        match refused {
            Refused::NoSuchKernel => writeln!(out, "  Nowhere: the board has no such kernel."),
            Refused::Unavailable => writeln!(out, "  Nowhere: that kernel does not run."),
            Refused::NoPlatform { required, is_on_board } => {
                writeln!(out, "  Nowhere: {}.", missing(required, is_on_board))
            }
        }
    }
}

/// Returns why a kernel with the required platforms is missing.
pub fn missing(required: u8, is_on_board: bool) -> impl fmt::Display {
    core::fmt::from_fn(move |out| {
        out.write_str("it requires the platform ")?;
        write_names(out, required)?;
        out.write_str(match is_on_board {
            true => ", and no kernel that has it is available",
            false => ", which no kernel of this board has",
        })
    })
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Requested => "it was requested",
        Reason::Only => "no other kernel runs",
        Reason::Required => "no other kernel has the platform that it requires",
        Reason::Starts => "it starts, as no kernel that runs has the platform that it requires",
        Reason::Memory => "the others are short of memory",
        Reason::Preferred(_) => "no other kernel has the platform that it prefers",
        Reason::Near => "it is nearest to its servers there",
        Reason::Apart => "it is apart from other servers there",
        Reason::Class => "no other kernel has the cores of its class",
        Reason::Busy => "the others are busier",
        Reason::Processes => "the others have more processes per core",
        Reason::Caller => "nothing else distinguishes the kernels",
        Reason::First => "nothing distinguishes the kernels",
    }
}

fn write_names(out: &mut dyn Write, platforms: u8) -> fmt::Result {
    for (before, name) in
        [""].into_iter().chain(core::iter::repeat(" ")).zip(platform::names(platforms))
    {
        write!(out, "{before}{name}")?;
    }
    Ok(())
}
