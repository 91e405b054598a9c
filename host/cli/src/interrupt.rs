//! Ctrl-c, or a kill: who drives boards takes them down before it ends.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a signal is noted instead of ending this process.
pub fn listen() -> std::io::Result<()> {
    let came = CAME.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, came.clone())?;
    }
    Ok(())
}

/// Did one come?
pub fn came() -> bool {
    CAME.get().is_some_and(|came| came.load(Ordering::Relaxed))
}
