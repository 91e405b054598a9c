//! The blob: the board's description for its kernels. Also what is known of this domain before the
//! kernel is assembled.

use crate::symbols::{Symbols, mapped_bytes};
use abi::boot::{Blob, BlobError, FNV_START, fnv};
use arch::lock::Once;
use base::id::DomainId;
use core::sync::atomic::{AtomicU8, Ordering};
use zerocopy::{FromBytes, IntoBytes};

static BLOB: Once<Blob> = Once::new();
static ME: AtomicU8 = AtomicU8::new(0);

/// Copies the blob from physical address `pa` and checks it. Call once.
pub fn read(pa: u64) -> Result<&'static Blob, BlobError> {
    let bytes = mapped_bytes(pa, size_of::<Blob>() as u64);
    let mut blob = Blob::read_from_bytes(bytes).map_err(|_| BlobError::Magic)?;
    let checksum = core::mem::take(&mut blob.checksum);
    let sum = fnv(FNV_START, blob.as_bytes());
    blob.checksum = checksum;
    blob.check(sum)?;
    BLOB.set(blob).map_err(|_| BlobError::Magic)
}

/// Returns the blob, or `None` before [`read`].
pub fn get() -> Option<&'static Blob> {
    BLOB.get()
}

/// Sets the domain that this kernel runs.
pub fn set_me(me: DomainId) {
    ME.store(me.0, Ordering::Relaxed);
}

/// Returns the domain that this kernel runs; domain 0 before [`set_me`].
pub fn me() -> DomainId {
    DomainId(ME.load(Ordering::Relaxed))
}

/// Returns the symbol table of the running image; `None` before [`read`], or if none was staged.
pub fn symbols() -> Option<Symbols> {
    let domain = BLOB.get()?.domains().get(me().index())?;
    Symbols::staged(arch::image::staging_pa(), domain.staging_size)
}
