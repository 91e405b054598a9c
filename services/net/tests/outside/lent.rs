//! A step that is lent the device, of a service in an arena.

use super::world::Wire;
use base::port::Words;
use share::{Current, Device, Effects, Outbox, Token};
use std::marker::PhantomData;
use virtio::fake::View;

/// The device's words. What the simulation allocates for an access is not the service's; `C` sets
/// the thread's heap.
pub struct Apart<'a, C>(&'a View<'a, Wire>, PhantomData<C>);

impl<'a, C: Current> Apart<'a, C> {
    pub fn new(view: &'a View<'a, Wire>) -> Self {
        Apart(view, PhantomData)
    }

    fn apart<T>(&self, access: impl FnOnce(&View<'_, Wire>) -> T) -> T {
        let heap = C::set_heap(0);
        let result = access(self.0);
        C::set_heap(heap);
        result
    }
}

impl<C: Current> Words for Apart<'_, C> {
    fn load(&self, at: usize) -> u64 {
        self.apart(|view| view.load(at))
    }
    fn store(&self, at: usize, value: u64) {
        self.apart(|view| view.store(at, value));
    }
    fn barrier(&self) {
        self.apart(|view| view.barrier());
    }
}

/// The effects of the step.
pub struct Lent<'a> {
    pub outbox: Outbox,
    pub device: Device<'a>,
    pub seed: u64,
}

impl Effects for Lent<'_> {
    fn wake(&mut self, token: Token) {
        self.outbox.wake(token);
    }
    fn wake_all(&mut self) {
        self.outbox.wake_all();
    }
    fn timer(&mut self, at: u64) {
        Effects::timer(&mut self.outbox, at);
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn device(&self) -> Option<Device<'_>> {
        Some(self.device)
    }
}
