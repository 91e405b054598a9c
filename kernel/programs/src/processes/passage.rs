//! What passes from one kernel to the other when a process moves ([`super::moves`]).
//!
//! Contract: the handles that pass stay the origin's, which closes them when the process has moved;
//! the destination duplicates them. An error leaves the process as it was.

use super::accounts::account;
use super::guest::Guest;
use super::moves::depart;
use super::{LocalProcess, Running};
use crate::lights::memory::LentMemory;
use crate::moves::{Held, Rest, pack, unpack};
use abi::moves::{Departed, Image, MAGIC};
use abi::process::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::id::DomainId;
use core::sync::atomic::Ordering;
use kernel_engine::{Limits, Unwound};
use kernel_msg::Level;
use kernel_process::Process;
use kernel_services::files::with_files;
use kernel_services::session::Session;

impl Guest {
    /// Passes the program to the kernel that it is to move to. Returns false if it stays.
    pub(super) fn pass_on(&mut self, process: &Process, memory: &[u8], unwound: &Unwound) -> bool {
        let (life, session) = (self.life().clone(), Session::at(self.kernel(), Level(0)));
        let Some(to) = life.journey.destination() else { return false };
        // A later request to move is a new one.
        life.journey.call_off();
        let packed = self.packed(&session, (&life, process), to, (memory, unwound));
        let (head, carrier) = match packed {
            Ok(packed) => packed,
            Err(why) => {
                self.stays(why);
                return false;
            }
        };
        let departed = depart(&session, self.processes, &life, to, &head);
        drop(carrier);
        departed.inspect_err(|why| self.refuse(*why)).is_ok()
    }

    /// Makes all that the process has ready for kernel `to`. Its start data there refer to the
    /// frames of the memory that is returned.
    fn packed(
        &mut self,
        session: &Session,
        (life, process): (&Arc<LocalProcess>, &Process),
        to: DomainId,
        (memory, unwound): (&[u8], &Unwound),
    ) -> Result<(Departed, LentMemory), Errno> {
        let kernel = session.kernel;
        let running = life.running.get().ok_or(Errno::Inval)?;
        let isa = kernel.blob.domains().get(to.index()).ok_or(Errno::Hostunreach)?.isa;
        let image = life.image(isa).ok_or(Errno::Noent)?;
        self.share_objects(process, to)?;
        let table = process.table().save().map_err(|why| why.to_table())?;
        let used = account(&kernel.scheduler, life);
        let held = Held {
            used: [used.cpu, used.memory, used.messages],
            called: self.called(),
            images: life.images.get().cloned().unwrap_or_default(),
            children: life.children.all().ok_or(Errno::Nomem)?,
        };
        let rest = Rest::encode(&process.parts(), &table, unwound, &held);
        let rest = rest.map_err(|why| why.to_table())?;
        let carrier = pack(kernel, memory, &rest).ok_or(Errno::Nomem)?;
        let head = Departed {
            magic: MAGIC,
            image,
            memory: memory.len() as u64,
            rest: rest.len() as u64,
            limit: running.limits.memory,
            descriptors: process.table().limit(),
            kernel: kernel.me.0.into(),
            epoch: kernel.epoch.0,
            book: carrier.pages(),
            source: running.loaded.manifest.source,
            name: life.name,
        };
        Ok((head, carrier))
    }
}

/// Prepares a process that comes from another kernel.
pub fn prepare(
    session: &Session,
    guest: &mut Guest,
    life: &LocalProcess,
    head: &Departed,
) -> Result<Running, Errno> {
    let kernel = session.kernel;
    let programs = guest.processes.programs(kernel).ok_or(Errno::Nomem)?;
    let loaded = programs.load_handle(session, head.image, life.name())?;
    if loaded.manifest.source != head.source || !loaded.is_movable() {
        kernel_node::log!("process {}: its program here is another version", life.pid);
        return Err(Errno::Noexec);
    }
    let arrived = unpack(kernel, head)?;
    let rest = &arrived.rest;
    let table = &rest.table;
    let process = Process::of_parts(guest, head.descriptors, &rest.parts(), table);
    let process = Arc::new(process.map_err(|why| why.to_table())?);
    let Held { used: [cpu, peak, messages], called, images, children } = &rest.held;
    life.threads.have_run(*cpu);
    life.memory.store(*peak, Ordering::Relaxed);
    life.messages.fetch_add(*messages, Ordering::Relaxed);
    if !life.children.are(children) {
        process.close_all(guest);
        return Err(Errno::Nomem);
    }
    // Succeeds: a process begins once.
    let _ = life.images.set(duplicates(session, images));
    guest.comes_with(*called, Arc::new(arrived));
    Ok(Running { loaded, process, limits: Limits { memory: head.limit } })
}

fn duplicates(session: &Session, images: &[Image]) -> Vec<Image> {
    let own = |image: &Image| {
        let handle = with_files(session, |client| client.dup(image.handle)).ok()?;
        Some(Image { handle, ..*image })
    };
    images.iter().filter_map(own).collect()
}
