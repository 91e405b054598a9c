//! What the coherence sanitizer is told of the chip's own accesses. Devices have no caches; each is
//! known by the address of its registers, the soc itself by 0. On a board that nobody watches, none
//! of this does anything.

use lab::model::Lab;
use lab::watch::{Watch, WatchError};
use lab_cache::Domain;
use std::path::Path;
use std::sync::Arc;

/// Why a board cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum EyeError {
    /// Its model.
    #[error(transparent)]
    Model(#[from] lab::model::ModelError),
    /// The sanitizer's files.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// One device's, or the soc's own, side of the sanitizer. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Eye {
    shared: Option<Arc<Shared>>,
    /// Address of the device's registers.
    device: u64,
}

#[derive(Debug)]
struct Shared {
    watch: Watch,
    lab: Lab,
}

impl Eye {
    /// Of the board in `folder`, with its RAM in the file `ram`.
    pub fn open(folder: &Path, ram: &Path) -> Result<Eye, EyeError> {
        let lab = Lab::read(folder)?;
        let watch = Watch::open(folder, ram, &lab)?;
        Ok(Eye { shared: Some(Arc::new(Shared { watch, lab })), device: 0 })
    }

    /// The same for the device with these registers.
    pub fn of_device(&self, registers: u64) -> Eye {
        Eye { device: registers, ..self.clone() }
    }

    /// Does anybody watch?
    pub fn is_open(&self) -> bool {
        self.shared.is_some()
    }

    /// It reads, or has just read.
    pub fn reads(&self, pa: u64, bytes: u64) {
        if let Some(shared) = self.shared.as_ref().filter(|_| bytes != 0) {
            shared.watch.device_read(pa, bytes, self.device);
        }
    }

    /// It writes, or has just written.
    pub fn writes(&self, pa: u64, bytes: u64) {
        if let Some(shared) = self.shared.as_ref().filter(|_| bytes != 0) {
            shared.watch.device_write(pa, bytes, self.device);
        }
    }

    /// Domain number `index` has no power any more: memory becomes what a chip's would be. Answers
    /// how many lines were lost. If it `returns`, it is told when it reads one of them.
    pub fn lose(&self, index: usize, returns: bool) -> usize {
        self.with(index, |watch, domain, loaded| watch.lose(domain, loaded, returns)).unwrap_or(0)
    }

    /// It begins anew.
    pub fn boots(&self, index: usize) {
        self.with(index, |watch, domain, loaded| watch.boots(domain, loaded));
    }

    fn with<R>(
        &self,
        index: usize,
        f: impl FnOnce(&Watch, Domain, &[(u64, u64)]) -> R,
    ) -> Option<R> {
        let shared = self.shared.as_ref()?;
        let domain = Domain::new(u8::try_from(index).ok()?)?;
        Some(f(&shared.watch, domain, &shared.lab.domains.get(index)?.loaded))
    }
}
