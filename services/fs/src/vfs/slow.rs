//! A file system that has to wait; the rest of the tests is beside it.
//!
//! Its one file, `slow`, has data only after a write; until then a read waits.

use crate::filesystem::{FileSystem, Kind, Node, Result, Stop};
use abi::fs::{Errno, Stat};

const KEY: u64 = 77;

/// The file system.
#[derive(Debug, Default)]
pub struct SlowFs {
    byte: Option<u8>,
    ready: bool,
}

impl FileSystem for SlowFs {
    fn lookup(&mut self, _directory: Node, name: &[u8]) -> Result<Node> {
        if name == b"slow" { Ok(2) } else { Err(Errno::Noent.into()) }
    }
    fn kind(&mut self, node: Node) -> Result<Kind> {
        Ok(if node == 1 { Kind::Directory } else { Kind::File })
    }
    fn stat(&mut self, node: Node) -> Result<Stat> {
        Ok(Stat { node, kind: self.kind(node)?.code(), ..Stat::default() })
    }
    fn hold(&mut self, _node: Node) -> Result<()> {
        Ok(())
    }
    fn poll(&mut self, _node: Node, want: u16) -> Result<u16> {
        if self.byte.is_some() { Ok(want) } else { Err(Stop::Wait(KEY)) }
    }
    fn read(&mut self, _node: Node, _offset: u64, into: &mut [u8]) -> Result<usize> {
        let Some(first) = into.first_mut() else { return Ok(0) };
        *first = self.byte.take().ok_or(Stop::Wait(KEY))?;
        Ok(1)
    }
    fn write(&mut self, _node: Node, _offset: u64, from: &[u8], _now: u64) -> Result<usize> {
        self.byte = from.first().copied();
        self.ready = self.byte.is_some();
        Ok(from.len().min(1))
    }
    fn ready(&mut self) -> Option<u64> {
        core::mem::take(&mut self.ready).then_some(KEY)
    }
}
