//! Signals: `pen` stops its boards before it ends. If it is killed, boards that are tied to it
//! notice and end.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{PipeReader, PipeWriter};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A pipe to which nothing is ever written; no other process inherits its writer.
static LIFELINE: Mutex<Option<(PipeReader, PipeWriter)>> = Mutex::new(None);
static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the first signal is recorded instead of ending this process; a second one ends it.
pub fn listen() -> std::io::Result<()> {
    let came = CAME.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, came.clone())?;
        signal_hook::flag::register(signal, came.clone())?;
    }
    Ok(())
}

/// Returns whether a signal has come.
pub fn came() -> bool {
    CAME.get().is_some_and(|came| came.load(Ordering::Relaxed))
}

/// Returns standard input for a child that must end with this process: the child reads an end of
/// file when this process ends, even if it is killed.
pub fn lifeline() -> std::io::Result<Stdio> {
    let mut pipe = LIFELINE.lock().unwrap_or_else(PoisonError::into_inner);
    let (reader, _writer) = match &mut *pipe {
        Some(pipe) => pipe,
        none => none.insert(std::io::pipe()?),
    };
    Ok(reader.try_clone()?.into())
}
