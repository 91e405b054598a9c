//! NextJob and JobDone: how a server takes and answers jobs, as a driver does with
//! [`super::disks`].

use super::{Call, Halt, Result, Vfs};
use crate::any::AnyFs;
use crate::served::{Found, Served};
use abi::fs::{Errno, Reply, flag};
use abi::served::Job;
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use share::{Effects, Token};
use zerocopy::IntoBytes;

impl Vfs {
    fn served(&mut self) -> impl Iterator<Item = &mut Served> {
        self.mounts.iter_mut().filter_map(|mount| match &mut mount.fs {
            AnyFs::Served(fs) => Some(&mut **fs),
            _ => None,
        })
    }

    pub(super) fn do_next_job(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let afresh = call.flags(flag::RESTARTED)? != 0;
        let (token, wanted) = (call.token, call.request.handle);
        self.stirred.servers = true;
        let is_it = |fs: &&mut Served| fs.number() == wanted && wanted != 0;
        let fs = self.served().find(is_it).ok_or(Errno::Noent)?;
        let Some(given) = fs.take(token, call.bulk.len(), afresh, call.now)? else {
            return Err(Halt::Listen);
        };
        let (head, names) = (given.job.as_bytes(), given.bulk);
        let filled = size_of::<Job>() + names.len();
        call.bulk[..head.len()].copy_from_slice(head);
        call.bulk[head.len()..filled].copy_from_slice(names);
        Ok(Reply { handle: given.number, filled: filled as u32, ..Reply::default() })
    }

    pub(super) fn do_job_done(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let data = call.bulk.get(..call.length()).unwrap_or_default();
        let code = u16::try_from(call.request.second).unwrap_or(u16::MAX);
        let said = match Errno::from_code(code) {
            Some(Errno::Success) => {
                let mut copy = Vec::new();
                copy.try_reserve_exact(data.len()).map_err(|_| Errno::Nomem)?;
                copy.extend_from_slice(data);
                Ok(Found { value: call.request.offset, data: copy })
            }
            Some(Errno::Restarted) | None => Err(Errno::Io),
            Some(why) => Err(why),
        };
        let (token, number, now) = (call.token, call.request.handle, call.now);
        self.stirred.servers = true;
        // A job number is that of one file system only.
        let mut all = self.served();
        let found = all.find(|fs| fs.has(number)).ok_or(Errno::Badf)?;
        found.done(token, number, said, now)?;
        Ok(Reply::default())
    }

    /// Wakes the servers that have jobs.
    pub(super) fn call_servers(&mut self, now: u64, effects: &mut dyn Effects) {
        self.served().for_each(|fs| fs.call(now, effects));
    }

    /// Drops the servers' answers to these callers, which have their reply or are gone.
    pub(super) fn forget_said(&mut self, whose: impl Fn(Token) -> bool) {
        let mut some = false;
        for fs in self.served() {
            some |= fs.forget(&whose);
        }
        self.stirred.servers |= some;
    }

    /// A kernel's life has ended: what only it served ends.
    pub(super) fn servers_gone(
        &mut self,
        kernel: DomainId,
        epoch: Epoch,
        effects: &mut dyn Effects,
    ) {
        for mount in &mut self.mounts {
            let AnyFs::Served(fs) = &mut mount.fs else { continue };
            if fs.gone(kernel, epoch) {
                mount.end(effects);
            }
        }
        self.stirred.servers = true;
    }

    /// Drops the waiting servers for which `which` holds. Returns whether others are needed now.
    pub(super) fn deafen_servers(&mut self, which: impl Fn(Token) -> bool) -> bool {
        self.served().fold(false, |some, fs| fs.deafen(&which) | some)
    }
}
