//! What a request does, and how it is answered: by a reply, an error, or later.

use super::{Call, Halt, Result, Vfs};
use abi::fs::{Errno, Op, Reply};
use share::Answer;

impl Vfs {
    /// `again`: it was parked before.
    pub(super) fn answer(&mut self, again: bool, call: Call<'_>, reply: &mut Reply) -> Answer<()> {
        let token = call.token;
        (self.asker, self.now) = (token, call.now);
        self.late.begin(token, call.request);
        let answer = self.answer_or_park(call, reply);
        // A server may have answered it before, even if it needs that no more.
        if (again || self.stirred.servers) && matches!(answer, Answer::Done(_)) {
            self.forget_said(|asker| asker == token);
        }
        answer
    }

    fn answer_or_park(&mut self, mut call: Call<'_>, reply: &mut Reply) -> Answer<()> {
        match self.perform(&mut call, reply) {
            Ok(()) => Answer::Done(()),
            Err(halt) => self.fail_or_park(halt, &call, reply),
        }
    }

    fn fail_or_park(&mut self, halt: Halt, call: &Call<'_>, reply: &mut Reply) -> Answer<()> {
        let error = match halt {
            Halt::Failed(error) => error,
            Halt::Listen => return Answer::Parked,
            Halt::Park(key) => {
                let reads = call.request.op == Op::Read as u16;
                let room = if reads { call.length() } else { 0 };
                match self.parked.park_with(call.token, key, room) {
                    Some(()) => return Answer::Parked,
                    None => Errno::Nomem,
                }
            }
        };
        self.parked.forget(call.token);
        *reply = Reply::error(error);
        Answer::Done(())
    }

    fn perform(&mut self, call: &mut Call<'_>, reply: &mut Reply) -> Result<()> {
        // Most requests are these. The bulk of a write is data.
        if call.request.op == Op::Write as u16 {
            let value = self.write(call)? as u64;
            *reply = Reply { value, ..Reply::default() };
        } else if call.request.op == Op::Read as u16 && call.request.names_fit() {
            let done = self.read(call)?;
            *reply = Reply { value: done as u64, filled: done as u32, ..Reply::default() };
        } else {
            *reply = self.perform_other(call)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn perform_other(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let op = Op::from_code(call.request.op).ok_or(Errno::Nosys)?;
        if !call.request.names_fit() {
            return Err(Errno::Nametoolong.into());
        }
        match op {
            Op::Root => self.do_root(call),
            Op::Open => self.do_open(call),
            Op::Close => self.do_close(call),
            Op::Dup => self.do_dup(call),
            Op::Pipe => self.do_pipe(call),
            Op::SetFlags => self.do_set_flags(call),
            // The caller handles these.
            Op::Read | Op::Write => Err(Errno::Nosys.into()),
            Op::Seek => self.do_seek(call),
            Op::SetSize => self.do_set_size(call),
            Op::Allocate => self.do_allocate(call),
            Op::Sync | Op::Datasync => self.do_sync(call),
            Op::Stat => self.do_stat(call),
            Op::SetTimes => self.do_set_times(call),
            Op::Statfs => self.do_statfs(call),
            Op::StatPath => self.do_stat_path(call),
            Op::SetTimesPath => self.do_set_times_path(call),
            Op::Mkdir => self.do_mkdir(call),
            Op::Rmdir | Op::Unlink => self.do_remove(call),
            Op::Rename => self.do_rename(call),
            Op::Link => self.do_link(call),
            Op::Symlink => self.do_symlink(call),
            Op::Readlink => self.do_readlink(call),
            Op::Mount => self.do_mount(call),
            Op::NextIo => self.do_next_io(call),
            Op::IoDone => self.do_io_done(call),
            Op::Terminal => self.do_terminal(call),
            Op::NextJob => self.do_next_job(call),
            Op::JobDone => self.do_job_done(call),
            Op::Mounts => self.do_mounts(call),
            Op::Unmount => self.do_unmount(call),
            Op::Readdir => self.do_readdir(call),
            Op::Poll => self.do_poll(call),
        }
    }
}
