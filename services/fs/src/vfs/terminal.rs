//! Terminals: two pipes, and the mode that programs set.
//!
//! ```text
//!   screen  --keys-->  input   -->  terminal      the displaying end  |  programs
//!           <--text--  output  <--                one opening         |  any number, also none
//! ```
//! Contract: a terminal lives as long as its screen. After that its programs read an end of file,
//! and their writes fail. It does not end when no program has it open. An empty write to the screen
//! is an end of file that is read once (ctrl-d). Any holder of a handle may change the mode.

use super::handles::{Opening, Target};
use super::pipe::Pipe;
use super::{Call, Key, Result, Vfs};
use abi::fs::{Errno, Reply, flag};
use share::Effects;

/// Maximum number of terminals.
pub const TERMINALS: u32 = 64;

const MODES: u16 = flag::RAW | flag::COOKED | flag::GROUP;

#[derive(Debug)]
pub struct Terminal {
    /// Index of the pipe from the screen to programs.
    pub input: u32,
    /// Index of the pipe from programs to the screen.
    pub output: u32,
    raw: bool,
    group: u32,
    /// Number of openings of the programs' end.
    users: u32,
    shown: bool,
}

impl Vfs {
    pub(super) fn do_terminal(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        if call.request.handle == 0 {
            return self.make_terminal(call);
        }
        let flags = call.flags(MODES)?;
        let (Target::Terminal(at) | Target::Screen(at)) =
            self.handles.get(call.request.handle)?.target
        else {
            return Err(Errno::Inval.into());
        };
        let terminal = self.terminals.get_mut(at).ok_or(Errno::Badf)?;
        let group = u32::try_from(call.request.length).map_err(|_| Errno::Inval)?;
        if flags & (flag::RAW | flag::COOKED) != 0 {
            terminal.raw = flags & flag::RAW != 0;
        }
        if flags & flag::GROUP != 0 {
            terminal.group = group;
        }
        let flags = if terminal.raw { flag::RAW } else { flag::COOKED };
        Ok(Reply { flags, value: terminal.group.into(), ..Reply::default() })
    }

    fn make_terminal(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let console = call.flags(flag::CONSOLE)? != 0;
        let quota = call.request.quota();
        self.handles.room(quota, 2)?;
        let is_full = self.terminals.count() >= TERMINALS as usize;
        let room = if is_full { None } else { self.pipes.room(2) };
        room.ok_or(Errno::Nfile)?;
        let input = self.pipes.insert(Pipe::open()).ok_or(Errno::Nfile)?;
        let output = self.pipes.insert(Pipe::open()).ok_or(Errno::Nfile)?;
        let made = Terminal { input, output, raw: false, group: 0, users: 1, shown: true };
        let at = self.terminals.insert(made).ok_or(Errno::Nfile)?;
        if console {
            self.console = Some(at);
        }
        let both = flag::READ | flag::WRITE;
        let handle =
            self.handles.open(call.token, quota, Opening::new(Target::Screen(at), both))?;
        let other =
            self.handles.open(call.token, quota, Opening::new(Target::Terminal(at), both))?;
        Ok(Reply { handle, other, ..Reply::default() })
    }

    /// Opens the programs' end of the console.
    pub(super) fn open_console(&mut self, call: &Call<'_>, flags: u16) -> Result<Reply> {
        let at = self.console.ok_or(Errno::Nosys)?;
        let quota = call.request.quota();
        self.handles.room(quota, 1)?;
        let terminal = self.terminals.get_mut(at).ok_or(Errno::Nosys)?;
        terminal.users += 1;
        let opening = Opening::new(Target::Terminal(at), flags);
        Ok(Reply { handle: self.handles.open(call.token, quota, opening)?, ..Reply::default() })
    }

    /// Returns the pipe that this end of a terminal reads, and the one that it writes.
    pub(super) fn sides(&self, target: Target) -> Option<(u32, u32)> {
        match target {
            Target::Terminal(at) => self.terminals.get(at).map(|it| (it.input, it.output)),
            Target::Screen(at) => self.terminals.get(at).map(|it| (it.output, it.input)),
            _ => None,
        }
    }

    /// The last handle of an opening of a terminal is closed.
    pub(super) fn leave_terminal(&mut self, target: Target, effects: &mut dyn Effects) {
        let (Target::Terminal(at) | Target::Screen(at)) = target else { return };
        let Some(terminal) = self.terminals.get_mut(at) else { return };
        let pipes = [terminal.input, terminal.output];
        if target == Target::Screen(at) {
            terminal.shown = false;
        } else {
            terminal.users = terminal.users.saturating_sub(1);
        }
        let is_over = !terminal.shown && terminal.users == 0;
        if !terminal.shown {
            self.console.take_if(|console| *console == at);
            for at in pipes {
                if let Some(pipe) = self.pipes.get_mut(at) {
                    (pipe.reader, pipe.writer) = (at == pipes[0], at == pipes[1]);
                }
            }
        }
        if is_over {
            self.terminals.remove(at);
            for at in pipes {
                self.pipes.remove(at);
            }
        }
        for at in pipes {
            self.parked.wake(Key::Readable(at), effects);
            self.parked.wake(Key::Writable(at), effects);
        }
    }

    /// Adds an end of file for the next reader of the terminal.
    pub(super) fn end_input(&mut self, at: u32, effects: &mut dyn Effects) {
        if let Some(pipe) = self.pipes.get_mut(at) {
            pipe.mark_end();
        }
        self.parked.wake(Key::Readable(at), effects);
    }
}
