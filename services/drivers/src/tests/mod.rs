//! The drivers with a simulated device and one state shared by two kernels.

use crate::request::{Request, kind};
use virtio::fake::Model;

mod basics;
mod console;
mod disk;
mod host;
mod hostile;
mod lives;
mod random;

/// A disk over an array.
pub struct DiskModel(pub Vec<u8>);

impl Model for DiskModel {
    fn serve(&mut self, _: usize, input: &[u8], room: usize) -> Option<Vec<u8>> {
        let at = u64::from_le_bytes(input[8..16].try_into().unwrap()) as usize * 512;
        Some(match input[0] {
            0 => [&self.0[at..at + room - 1], &[0]].concat(),
            1 => {
                let data = &input[16..];
                self.0[at..at + data.len()].copy_from_slice(data);
                vec![0]
            }
            4 => vec![0],
            _ => vec![2],
        })
    }
}

/// A console: what was printed, and what is typed.
#[derive(Default)]
pub struct ConsoleModel {
    pub printed: Vec<u8>,
    pub typed: Vec<u8>,
}

impl Model for ConsoleModel {
    fn serve(&mut self, queue: usize, input: &[u8], room: usize) -> Option<Vec<u8>> {
        if queue == 1 {
            self.printed.extend(input);
            return Some(Vec::new());
        }
        let bytes = room.min(self.typed.len());
        (bytes > 0).then(|| self.typed.drain(..bytes).collect())
    }
}

/// A source of sevens.
pub struct RandomModel;

impl Model for RandomModel {
    fn serve(&mut self, _: usize, _: &[u8], room: usize) -> Option<Vec<u8>> {
        Some(vec![7; room])
    }
}

pub fn read(length: usize, at: u64) -> Request {
    Request { kind: kind::READ, length: length as u32, at, life: 0 }
}

pub fn write(length: usize, at: u64) -> Request {
    Request { kind: kind::WRITE, length: length as u32, at, life: 0 }
}

pub fn of(kind: u32) -> Request {
    Request { kind, ..Request::default() }
}
