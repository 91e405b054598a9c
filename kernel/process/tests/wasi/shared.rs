//! Memory of windows, and what becomes of it.

use kernel_contract::Shared;
use kernel_contract::exchange::WindowName;
use std::sync::{Arc, Mutex};

/// What happened to windows.
#[derive(Debug, Default)]
pub struct Windows {
    /// Reservations that are not ended, with their ranges.
    pub reserved: Vec<(u64, [u64; 2])>,
    /// Those that show something.
    pub shown: Vec<u64>,
    /// Ranges that were flushed.
    pub flushed: Vec<[usize; 2]>,
    /// Windows that were released.
    pub released: Vec<WindowName>,
    made: u64,
}

/// Memory of a window.
#[derive(Debug)]
pub struct Window(Mutex<Vec<u8>>, Arc<Mutex<Windows>>);

impl Shared for Window {
    fn length(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn place(&self) -> Option<u64> {
        None
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.lock().unwrap()[at..][..into.len()]);
    }

    fn store(&self, at: usize, from: &[u8]) {
        self.0.lock().unwrap()[at..][..from.len()].copy_from_slice(from);
    }

    fn flush(&self, at: usize, bytes: usize) {
        self.1.lock().unwrap().flushed.push([at, bytes]);
    }

    fn show(self: Arc<Self>, reserved: u64) -> bool {
        let windows = &mut *self.1.lock().unwrap();
        assert!(!windows.shown.contains(&reserved));
        let range = windows.reserved.iter_mut().find(|(id, _)| *id == reserved);
        range.expect("it is reserved").1[1] = self.length() as u64;
        windows.shown.push(reserved);
        true
    }
}

impl Windows {
    /// Reserves a range. Returns the number of the reservation.
    pub fn reserve(&mut self, range: [u64; 2]) -> u64 {
        self.made += 1;
        self.reserved.push((self.made, range));
        self.made
    }
}

impl Window {
    pub fn new(length: usize, windows: &Arc<Mutex<Windows>>) -> Arc<Window> {
        Arc::new(Window(Mutex::new(vec![0xaa; length]), windows.clone()))
    }
}
