//! Serializes builds in this process: scenarios run concurrently and may build the same program, to
//! the same file.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

static BUILDS: Mutex<()> = Mutex::new(());
thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// While it exists, no other thread builds. The thread that holds it may start nested builds.
pub struct Alone {
    _first: Option<MutexGuard<'static, ()>>,
}

/// Waits until no other thread builds.
pub fn alone() -> Alone {
    let depth = DEPTH.get();
    let _first = (depth == 0).then(|| BUILDS.lock().unwrap_or_else(PoisonError::into_inner));
    DEPTH.set(depth + 1);
    Alone { _first }
}

impl Drop for Alone {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_thread_builds_at_a_time_and_may_nest() {
        let outer = alone();
        drop(alone());
        let other = std::thread::spawn(|| drop(alone()));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!other.is_finished());
        drop(outer);
        other.join().unwrap();
    }
}
