//! Operations on the data and the metadata of files, pipes and terminals.

use super::handles::{Opening, Place, Target};
use super::opening::wait;
use super::pipe::{ATOMIC, CAPACITY};
use super::{Call, Halt, Key, Result, Vfs};
use crate::filesystem::{FileSystem, Kind, Times};
use crate::ramfs::content::LARGEST;
use abi::fs::{Errno, Op, Reply, Stat, flag, kind, ready};

/// A pipe with at most this many bytes is empty enough to wake its writer in another kernel.
const EMPTY_ENOUGH: usize = CAPACITY / 4;

impl Vfs {
    /// Returns the place and a copy of the opening of a handle that allows `how`.
    #[inline]
    fn usable(&self, handle: u64, how: u16) -> Result<(u32, Opening)> {
        let (at, opening) = self.handles.find_opening(handle)?;
        if opening.flags & how != 0 { Ok((at, *opening)) } else { Err(Errno::Badf.into()) }
    }

    /// Moves the position of an opening after what was done at `offset`, unless the request named
    /// that.
    #[inline]
    fn move_on(&mut self, (opening, at): (u32, bool), offset: u64, done: usize) {
        if !at && let Some(opening) = self.handles.opening_mut(opening) {
            opening.position = offset.saturating_add(done as u64);
        }
    }

    /// Reads. Returns the number of bytes.
    pub(super) fn read(&mut self, call: &mut Call<'_>) -> Result<usize> {
        let at = call.flags(flag::AT)? != 0;
        let (index, opening) = self.usable(call.request.handle, flag::READ)?;
        let length = call.length();
        let done = match opening.target {
            Target::Node(place) => {
                let offset = if at { call.request.offset } else { opening.position };
                let into = &mut call.bulk[..length];
                let done = self.on(place, |fs, node| fs.read(node, offset, into))?;
                self.move_on((index, at), offset, done);
                done
            }
            _ if at => return Err(Errno::Spipe.into()),
            Target::Reader(pipe) => self.read_pipe(call, opening.flags, pipe, length)?,
            Target::Writer(_) => return Err(Errno::Badf.into()),
            terminal => {
                let (input, _) = self.sides(terminal).ok_or(Errno::Badf)?;
                self.read_pipe(call, opening.flags, input, length)?
            }
        };
        Ok(done)
    }

    fn read_pipe(
        &mut self,
        call: &mut Call<'_>,
        flags: u16,
        at: u32,
        length: usize,
    ) -> Result<usize> {
        let pipe = self.pipes.get_mut(at).ok_or(Errno::Badf)?;
        let done = pipe.read(&mut call.bulk[..length]);
        let held = pipe.held();
        let done = done.ok_or_else(|| wait(flags, Key::Readable(at)))?;
        if done != 0 {
            let is_enough = held <= EMPTY_ENOUGH;
            self.wake_in_time(Key::Writable(at), is_enough, call);
        }
        Ok(done)
    }

    /// Writes. Returns the number of bytes.
    pub(super) fn write(&mut self, call: &mut Call<'_>) -> Result<usize> {
        let at = call.flags(flag::AT)? != 0;
        let (index, opening) = self.usable(call.request.handle, flag::WRITE)?;
        let length = call.length();
        let done = match opening.target {
            Target::Node(place) => {
                let offset = match (at, opening.flags & flag::APPEND != 0) {
                    (true, _) => call.request.offset,
                    (_, true) => self.on(place, |fs, node| fs.stat(node))?.size,
                    _ => opening.position,
                };
                let (from, now) = (&call.bulk[..length], call.time_of_day());
                let done = self.on(place, |fs, node| fs.write(node, offset, from, now))?;
                self.move_on((index, at), offset, done);
                done
            }
            _ if at => return Err(Errno::Spipe.into()),
            Target::Writer(pipe) => self.write_pipe(call, opening.flags, pipe, length)?,
            Target::Reader(_) => return Err(Errno::Badf.into()),
            terminal => {
                let (_, output) = self.sides(terminal).ok_or(Errno::Badf)?;
                if length == 0 && matches!(terminal, Target::Screen(_)) {
                    self.end_input(output, call.effects);
                }
                self.write_pipe(call, opening.flags, output, length)?
            }
        };
        Ok(done)
    }

    fn write_pipe(
        &mut self,
        call: &mut Call<'_>,
        flags: u16,
        at: u32,
        length: usize,
    ) -> Result<usize> {
        let pipe = self.pipes.get_mut(at).ok_or(Errno::Badf)?;
        if let Some((reader, room)) = self.parked.only(Key::Readable(at))
            && pipe.is_answer(length, room)
            && call.effects.give(reader, &call.bulk[..length])
        {
            self.parked.forget(reader);
            return Ok(length);
        }
        let done = pipe.write(&call.bulk[..length])?;
        let room = pipe.room();
        let done = done.ok_or_else(|| wait(flags, Key::Writable(at)))?;
        if done != 0 {
            let is_enough = room < ATOMIC || !self.late.goes_on();
            self.wake_in_time(Key::Readable(at), is_enough, call);
        }
        Ok(done)
    }

    pub(super) fn do_seek(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let whence = call.flags(flag::CURRENT | flag::END)?;
        let opening = *self.handles.get(call.request.handle)?;
        let Target::Node(place) = opening.target else { return Err(Errno::Spipe.into()) };
        let stat = self.on(place, |fs, node| fs.stat(node))?;
        if stat.kind == kind::DIRECTORY {
            return Err(Errno::Isdir.into());
        }
        let from = match whence {
            0 => 0,
            flag::CURRENT => opening.position,
            flag::END => stat.size,
            _ => return Err(Errno::Inval.into()),
        };
        let value = position(from, call.request.offset)?;
        self.handles.get_mut(call.request.handle)?.position = value;
        Ok(Reply { value, ..Reply::default() })
    }

    pub(super) fn do_set_size(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let (place, size) = (self.writable(call)?, call.request.length);
        self.on(place, |fs, node| fs.set_size(node, size, call.time_of_day()))?;
        Ok(Reply::default())
    }

    pub(super) fn do_allocate(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let place = self.writable(call)?;
        let (offset, length) = (call.request.offset, call.request.length);
        if length == 0 {
            return Err(Errno::Inval.into());
        }
        let value =
            self.on(place, |fs, node| fs.allocate(node, offset, length, call.time_of_day()))?;
        Ok(Reply { value, ..Reply::default() })
    }

    /// Returns the file of a handle that may write.
    fn writable(&mut self, call: &Call<'_>) -> Result<Place> {
        call.flags(0)?;
        self.usable(call.request.handle, flag::WRITE)?;
        self.node(call.request.handle)
    }

    pub(super) fn do_sync(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let data_only = call.request.op == Op::Datasync as u16;
        let whole = call.flags(if data_only { 0 } else { flag::WHOLE })? != 0;
        let place = self.node(call.request.handle)?;
        if whole {
            return match self.on(place, |fs, _| fs.settle()) {
                Ok(()) => Ok(Reply { value: 1, ..Reply::default() }),
                Err(Halt::Failed(Errno::Busy)) => Ok(Reply::default()),
                Err(halt) => Err(halt),
            };
        }
        let generation = call.request.offset;
        let value = self.on(place, |fs, node| fs.sync(node, data_only, generation))?;
        Ok(Reply { value, ..Reply::default() })
    }

    pub(super) fn do_stat(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let opening = *self.handles.get(call.request.handle)?;
        let stat = match opening.target {
            Target::Node(place) => self.stat_of(place)?,
            Target::Reader(at) | Target::Writer(at) => {
                self.pipes.get(at).ok_or(Errno::Badf)?.stat()
            }
            Target::Terminal(_) | Target::Screen(_) => {
                Stat { kind: kind::CHARACTER, links: 1, ..Stat::default() }
            }
        };
        Ok(Reply { stat, flags: opening.flags, ..Reply::default() })
    }

    pub(super) fn stat_of(&mut self, place: Place) -> Result<Stat> {
        let stat = self.on(place, |fs, node| fs.stat(node))?;
        Ok(Stat { device: self.device_number(place.mount), ..stat })
    }

    pub(super) fn do_set_times(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let times = times(call, call.request.flags)?;
        let place = self.node(call.request.handle)?;
        self.on(place, |fs, node| fs.set_times(node, times, call.time_of_day()))?;
        Ok(Reply::default())
    }

    pub(super) fn do_statfs(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let place = self.node(call.request.handle)?;
        let (space, flags) = self.on(place, |fs, _| Ok((fs.space()?, fs.about())))?;
        Ok(Reply { value: space.total, other: space.free, flags, ..Reply::default() })
    }

    /// Returns what a handle is ready for, and how many bytes it would move without waiting.
    pub(super) fn readiness(&mut self, opening: &Opening, want: u16) -> Result<(u16, u64)> {
        let found = match opening.target {
            Target::Node(place) => {
                let got = self.on(place, |fs, node| fs.poll(node, want))?;
                let file = self.on(place, |fs, node| fs.stat(node))?;
                let is_file = file.kind == Kind::File.code();
                let ahead = file.size.saturating_sub(opening.position);
                return Ok((got & want, if is_file { ahead } else { 0 }));
            }
            Target::Reader(at) => return self.to_read(at, want),
            Target::Writer(at) => return self.to_write(at, want),
            terminal => self.sides(terminal).ok_or(Errno::Badf)?,
        };
        // A caller that wants both, with neither ready, waits for input only.
        let (input, output) = found;
        match self.to_write(output, want) {
            Ok(found) if want & ready::WRITE != 0 => Ok(found),
            written if want & ready::READ == 0 => written,
            _ => self.to_read(input, want),
        }
    }

    fn to_read(&self, at: u32, want: u16) -> Result<(u16, u64)> {
        let pipe = self.pipes.get(at).ok_or(Errno::Badf)?;
        let hangup = if pipe.writer { 0 } else { ready::HANGUP };
        let got = want & ready::READ;
        let found = Ok((got | hangup, pipe.held() as u64));
        if pipe.readable() && got | hangup != 0 {
            found
        } else {
            Err(Halt::Park(Key::Readable(at)))
        }
    }

    fn to_write(&self, at: u32, want: u16) -> Result<(u16, u64)> {
        let pipe = self.pipes.get(at).ok_or(Errno::Badf)?;
        let hangup = if pipe.reader { 0 } else { ready::HANGUP };
        let got = want & ready::WRITE;
        let found = Ok((got | hangup, pipe.room() as u64));
        if pipe.writable() && got | hangup != 0 {
            found
        } else {
            Err(Halt::Park(Key::Writable(at)))
        }
    }
}

/// Returns `from` moved by the signed distance `by`.
fn position(from: u64, by: u64) -> Result<u64> {
    let to = from.checked_add_signed(by.cast_signed()).ok_or(Errno::Inval)?;
    if to > LARGEST { Err(Errno::Overflow.into()) } else { Ok(to) }
}

/// Returns the times that a request sets.
pub(super) fn times(call: &Call<'_>, flags: u16) -> Result<Times> {
    let known = flag::ACCESSED | flag::ACCESSED_NOW | flag::MODIFIED | flag::MODIFIED_NOW;
    let one = |given: u16, now: u16, time: u64| match (flags & given != 0, flags & now != 0) {
        (true, true) => Err(Errno::Inval),
        (true, false) => Ok(Some(time)),
        (false, true) => Ok(Some(call.time_of_day())),
        (false, false) => Ok(None),
    };
    if flags & !known != 0 {
        return Err(Errno::Inval.into());
    }
    Ok(Times {
        accessed: one(flag::ACCESSED, flag::ACCESSED_NOW, call.request.accessed)?,
        modified: one(flag::MODIFIED, flag::MODIFIED_NOW, call.request.modified)?,
    })
}
