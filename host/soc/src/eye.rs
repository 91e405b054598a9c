//! Reports the chip's own accesses to the coherence sanitizer. Devices have no caches; each is
//! identified by the address of its registers, the soc itself by 0. On a board without sanitizer,
//! nothing here has an effect.

use lab::model::Lab;
use lab::watch::{Watch, WatchError};
use lab_cache::Domain;
use std::path::Path;
use std::sync::Arc;

/// Why the sanitizer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EyeError {
    /// The board's model is invalid.
    #[error(transparent)]
    Model(#[from] lab::model::ModelError),
    /// The sanitizer's files cannot be opened.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// The sanitizer's view of one device, or of the soc itself. Clones share it.
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
    /// Opens the sanitizer of the board in `folder`, with RAM in the file `ram`.
    pub fn open(folder: &Path, ram: &Path) -> Result<Eye, EyeError> {
        let lab = Lab::read(folder)?;
        let watch = Watch::open(folder, ram, &lab)?;
        Ok(Eye { shared: Some(Arc::new(Shared { watch, lab })), device: 0 })
    }

    /// Returns the same for the device with these registers.
    pub fn of_device(&self, registers: u64) -> Eye {
        Eye { device: registers, ..self.clone() }
    }

    /// Returns whether the sanitizer is active.
    pub fn is_open(&self) -> bool {
        self.shared.is_some()
    }

    /// Reports a read, before or after it happens.
    pub fn reads(&self, pa: u64, bytes: u64) {
        if let Some(shared) = self.shared.as_ref().filter(|_| bytes != 0) {
            shared.watch.device_read(pa, bytes, self.device);
        }
    }

    /// Reports a write, before or after it happens.
    pub fn writes(&self, pa: u64, bytes: u64) {
        if let Some(shared) = self.shared.as_ref().filter(|_| bytes != 0) {
            shared.watch.device_write(pa, bytes, self.device);
        }
    }

    /// Records that domain `index` has lost power: lines that only its caches held are lost in
    /// memory too. Returns their number. With `returns`, the domain's later reads of them are
    /// reported.
    pub fn lose(&self, index: usize, returns: bool) -> usize {
        self.with(index, |watch, domain, loaded| watch.lose(domain, loaded, returns)).unwrap_or(0)
    }

    /// Records that a domain boots cold.
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
