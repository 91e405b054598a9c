//! The same calls where there is no Penumbra: each returns an error.
#![allow(missing_docs, reason = "as in `wasi`")]
use super::{Answered, Outgoing};
use crate::Errno;
use crate::channel::Block;
use crate::layout::{
    ChannelMessage, Ended, Event, Fdstat, Filestat, Identity, InheritedFile, Listed, SocketAddress,
    Spawn, Subscription,
};

type Answer<T> = Result<T, Errno>;

/// Addresses do not fit into 32 bits here; nothing reads them.
pub fn place<T>(of: &[T]) -> [u32; 2] {
    [0, of.len() as u32]
}
pub fn spawn(_: &Spawn, _: &[&[u8]], _: &[InheritedFile]) -> Answer<u32> {
    Err(Errno::NOSYS)
}
pub fn wait(_: i32, _: u32) -> Answer<Ended> {
    Err(Errno::NOSYS)
}
pub fn kill(_: i32, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn move_to(_: u32, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn group(_: u32, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn who() -> Answer<Identity> {
    Err(Errno::NOSYS)
}
pub fn list(_: u32, _: &mut [Listed]) -> Answer<usize> {
    Err(Errno::NOSYS)
}
pub fn pipe() -> Answer<[u32; 2]> {
    Err(Errno::NOSYS)
}
pub fn channel(_: &[u8]) -> Answer<[u32; 2]> {
    Err(Errno::NOSYS)
}
pub fn channel_use(_: u32, _: &[u8], _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn name_serve(_: &str, _: &[u8]) -> Answer<u32> {
    Err(Errno::NOSYS)
}
pub fn name_connect(_: &str, _: &[u8], _: u32) -> Answer<u32> {
    Err(Errno::NOSYS)
}
pub fn channel_send(_: u32, _: &Outgoing<'_>) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn channel_receive(_: u32, _: &mut [u8], _: &mut Block, _: u32) -> Answered {
    (Err(Errno::NOSYS), ChannelMessage::default())
}
pub fn channel_call(_: u32, _: &Outgoing<'_>, _: &mut [u8], _: &mut Block) -> Answered {
    (Err(Errno::NOSYS), ChannelMessage::default())
}
pub fn window_flush(_: *const u8, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn window_refresh(_: *const u8, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn window_close(_: *const u8) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn dup(_: u32) -> Answer<u32> {
    Err(Errno::NOSYS)
}
pub fn terminal(_: u32, _: u32, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn socket(_: u32, _: u32) -> Answer<u32> {
    Err(Errno::NOSYS)
}
pub fn bind(_: u32, _: &SocketAddress) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn listen(_: u32, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn connect(_: u32, _: &SocketAddress) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn accept(_: u32) -> Answer<(u32, SocketAddress)> {
    Err(Errno::NOSYS)
}
pub fn send(_: u32, _: &[u8], _: Option<&SocketAddress>) -> Answer<usize> {
    Err(Errno::NOSYS)
}
pub fn receive(_: u32, _: &mut [u8], _: u32) -> Answer<(usize, SocketAddress)> {
    Err(Errno::NOSYS)
}
pub fn shutdown(_: u32, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn local_address(_: u32) -> Answer<SocketAddress> {
    Err(Errno::NOSYS)
}
pub fn peer_address(_: u32) -> Answer<SocketAddress> {
    Err(Errno::NOSYS)
}
pub fn get_option(_: u32, _: u32) -> Answer<u32> {
    Err(Errno::NOSYS)
}
pub fn set_option(_: u32, _: u32, _: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn next_thread_is_light() {}
pub fn close(_: u32) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn read(_: u32, _: &mut [u8]) -> Answer<usize> {
    Err(Errno::NOSYS)
}
pub fn write(_: u32, _: &[u8]) -> Answer<usize> {
    Err(Errno::NOSYS)
}
pub fn seek(_: u32, _: i64, _: u32) -> Answer<u64> {
    Err(Errno::NOSYS)
}
pub fn fdstat(_: u32) -> Answer<Fdstat> {
    Err(Errno::NOSYS)
}
pub fn set_flags(_: u32, _: u16) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn prestat(_: u32) -> Answer<usize> {
    Err(Errno::NOSYS)
}
pub fn prestat_name(_: u32, _: &mut [u8]) -> Answer<()> {
    Err(Errno::NOSYS)
}
pub fn open(_: u32, _: &str, _: u16, _: [u64; 2], _: u16) -> Answer<u32> {
    Err(Errno::NOSYS)
}
pub fn filestat(_: u32, _: &str, _: bool) -> Answer<Filestat> {
    Err(Errno::NOSYS)
}
pub fn poll(_: &[Subscription], _: &mut [Event]) -> Answer<usize> {
    Err(Errno::NOSYS)
}
pub fn clock(_: u32) -> Answer<u64> {
    Err(Errno::NOSYS)
}
