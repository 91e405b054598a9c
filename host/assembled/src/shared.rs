//! Requests for what all callers share: files with the same names, one pipe, and each other's
//! processes. No caller knows what the others do, so only the history can judge the answers.

use crate::callers::{Caller, count};
use crate::chip::Broken;
use crate::history::{self, Kind};
use crate::judge::bytes;
use crate::processes::{self, with_table};
use crate::report::Count;
use crate::turn::control;
use ::processes::client::Spawn;
use abi::fs::{Errno, Reply, Request, flag};
use abi::process::{Errno as ProcessErrno, flag as process_flag, signal};
use fs::client::Client;
use std::sync::atomic::Ordering::Relaxed;

/// Names of the files.
const NAMES: [&[u8]; 3] = [b"s0", b"s1", b"s2"];
/// Most records of a list: what one message carries.
const LISTED: usize = 30;

impl Caller {
    /// Makes a request or a few for shared things.
    pub fn share(&mut self) {
        match self.random.below(3) {
            0 => self.shared_file(),
            1 => self.shared_pipe(),
            _ => self.shared_processes(),
        }
    }

    /// Makes requests that go into the history. If the service fails, that is [`Errno::Io`].
    fn recorded<T>(&self, work: impl FnOnce(&mut Client<'_>) -> Result<T, Errno>) -> Option<T> {
        let (session, caller) = (&self.session, self.known_as());
        let mut ask = |request: Request, bulk: &mut [u8]| {
            let call = history::invoked(Kind::Files, caller, true, bytes(&request), bulk);
            match session.kernel.services.fs.ask(session, request, bulk) {
                Ok(reply) => {
                    if Broken::Read.is_set() && reply.filled > 0 && control().below(8) == 0 {
                        bulk[0] ^= 1;
                    }
                    let filled = &bulk[..reply.filled as usize];
                    history::returned(call, caller, bytes(&reply), filled);
                    reply
                }
                Err(_) => {
                    history::failed(call, caller);
                    Reply::error(Errno::Io)
                }
            }
        };
        work(&mut Client(&mut ask)).ok()
    }

    fn shared_file(&mut self) {
        let [name, other] = [(); 2].map(|()| NAMES[self.random.below(3) as usize]);
        let (what, byte) = (self.random.below(6), self.random.next() as u8);
        self.recorded(|client| {
            client.at_root(|client, root| match what {
                0 => client.unlink(root, name),
                1 => client.rename(root, name, root, other),
                2 => client.open(root, name, flag::READ).and_then(|file| {
                    let mut room = [0; 64];
                    let read = client.read(file, &mut room).map(|_| ());
                    client.close(file).and(read)
                }),
                _ => {
                    let exclusive = if what == 3 { flag::EXCLUSIVE } else { 0 };
                    let flags = flag::WRITE | flag::CREATE | flag::APPEND | exclusive;
                    client.open(root, name, flags).and_then(|file| {
                        let written = client.write(file, &[byte; 3]).map(|_| ());
                        client.close(file).and(written)
                    })
                }
            })
        });
    }

    /// Uses the pipe that some caller, perhaps of a kernel that has died, has made; or makes one.
    fn shared_pipe(&mut self) {
        let [reader, writer] = control().pipe.each_ref().map(|end| end.load(Relaxed));
        let (what, byte) = (self.random.below(6), self.random.next() as u8);
        if reader == 0 || what == 0 {
            let made = self.recorded(|client| client.pipe(flag::NONBLOCK));
            let (reader, writer) = made.unwrap_or((0, 0));
            control().pipe[0].store(reader, Relaxed);
            control().pipe[1].store(writer, Relaxed);
            return;
        }
        self.recorded(|client| match what {
            1 => client.read(reader, &mut [0; 3]).map(|_| ()),
            2 => client.read(reader, &mut [0; 1]).map(|_| ()),
            3 => client.dup(writer).and_then(|copy| {
                let written = client.write(copy, &[byte]).map(|_| ());
                client.close(copy).and(written)
            }),
            _ => client.write(writer, &[byte; 2]).map(|_| ()),
        });
    }

    /// Kernel 0 writes a byte into a new pipe, and kernel 1 waits for it.
    pub fn pass_byte(&mut self) {
        let ends = &control().pipe;
        if self.kernel().me.0 == 0 {
            let Some((reader, writer)) = self.recorded(|client| client.pipe(0)) else { return };
            ends[0].store(reader, Relaxed);
            self.recorded(|client| {
                let written = client.write(writer, &[1]);
                client.close(writer).and(written)
            });
            return;
        }
        self.wait_until(|| ends[0].load(Relaxed) != 0);
        let reader = ends[0].load(Relaxed);
        let read = self.recorded(|client| {
            let read = client.read(reader, &mut [0; 1]);
            client.close(reader).and(read)
        });
        if read == Some(1) {
            count(Count::Pipes);
        }
    }

    /// Starts a process. On this kernel, its thread for tasks need not know.
    pub fn start(&mut self, spawn: Spawn<'_>) -> Result<u32, ProcessErrno> {
        let is_here = spawn.kernel == u16::from(self.kernel().me.0);
        if is_here && self.random.chance(1, 2) {
            let started = processes::start_here(&self.session, self.index, spawn);
            return started.inspect(|_| count(Count::Here));
        }
        with_table(&self.session, self.index, |client| client.spawn(spawn))
    }

    /// Starts, signals, lists and waits for processes of this and of other callers.
    fn shared_processes(&mut self) {
        let kernel = self.random.below(self.kernel().blob.domains().len() as u64) as u16;
        let what = self.random.below(4);
        let mut start = [0; 8];
        start[..4].copy_from_slice(&(1 | self.random.below(256) as u32).to_le_bytes());
        let parent = processes::any_here(self.random.next()).filter(|_| what > 0).unwrap_or(0);
        let watched = if parent == 0 { process_flag::WATCHED } else { 0 };
        let group = process_flag::NEW_GROUP * self.random.below(2) as u16;
        let flags = watched | group;
        let signal = [signal::NONE, signal::TERM, signal::KILL][self.random.below(3) as usize];
        let spawn = Spawn { kernel, parent, flags, beginning: &start, group: 0 };
        let Ok(pid) = self.start(spawn) else { return };
        let _ = with_table(&self.session, self.index, |client| {
            let number = i32::try_from(pid).unwrap_or(0);
            client.list_some(0, LISTED)?;
            let target = if group != 0 { -number } else { number };
            client.kill(if what == 3 { pid } else { parent }, target, signal)?;
            match parent {
                0 => client.wait(0, number).map(|_| ()),
                _ => client.poll(parent, -1).map(|_| ()),
            }
        });
    }
}
