//! A PNG file that is decoded strip by strip, with the crate `png`.
//!
//! Contract: a file is refused as soon as it is found to be wrong, at the latest with its last
//! strip: no picture is complete whose sums or end are wrong. The memory does not depend on the
//! height, except that an interlaced picture, whose rows are not in order, is in memory as a whole.

use crate::pixels::{Format, convert};
use png::{ColorType, Decoder, DecodingError, Limits, Reader, Transformations};
use std::cell::Cell;
use std::io::{BufRead, Cursor, Read, Result as IoResult, Seek, SeekFrom};
use std::ops::Deref;
use std::rc::Rc;

/// Maximum size of a strip: the block of its message.
const MOST_STRIP: usize = 256 << 10;
/// Most bytes that the decoder keeps, besides its window.
const MOST_KEPT: usize = 4 << 20;
/// Most bytes of an interlaced picture. Each client may have one.
const MOST_INTERLACED: usize = 8 << 20;

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was read before the mistake, in bytes.
    pub offset: u32,
    /// In words.
    pub reason: String,
}

/// Some rows of a picture.
#[derive(Debug, PartialEq, Eq)]
pub struct Strip {
    /// Of its first pixel.
    pub first_row: u32,
    /// Whether no rows follow.
    pub is_last: bool,
    /// In the client's format.
    pub pixels: Vec<u8>,
}

/// A picture of which some strips are decoded.
pub struct Picture {
    reader: Reader<File>,
    read: Rc<Cell<u64>>,
    format: Format,
    /// Of the rows that come from the reader.
    kind: ColorType,
    /// All rows, if it is interlaced.
    whole: Option<Vec<u8>>,
    next_row: u32,
}

/// What owns the bytes of a file.
struct Source(Box<dyn Deref<Target = [u8]>>);

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A file in memory. `read` is how much of it the decoder has taken.
struct File {
    bytes: Cursor<Source>,
    read: Rc<Cell<u64>>,
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> IoResult<usize> {
        let some = self.bytes.read(into);
        self.read.set(self.bytes.position());
        some
    }
}

impl BufRead for File {
    fn fill_buf(&mut self) -> IoResult<&[u8]> {
        self.bytes.fill_buf()
    }

    fn consume(&mut self, some: usize) {
        self.bytes.consume(some);
        self.read.set(self.bytes.position());
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> IoResult<u64> {
        self.bytes.seek(to)
    }
}

fn refusal(read: &Cell<u64>, reason: impl Into<String>) -> Refusal {
    Refusal { offset: u32::try_from(read.get()).unwrap_or(u32::MAX), reason: reason.into() }
}

/// Returns why, in the words of the decoder, but for those that mean other programs than this one.
fn words(why: &DecodingError) -> String {
    match why {
        DecodingError::IoError(_) => "the file ends too early".to_string(),
        DecodingError::LimitsExceeded => "it needs too much memory".to_string(),
        why => why.to_string(),
    }
}

impl Picture {
    /// Begins to decode a file. Refuses what is no picture, one with more than `most_pixels`, and
    /// one of which a row is no strip.
    pub fn open(
        file: impl Deref<Target = [u8]> + 'static,
        most_pixels: u32,
        format: Format,
    ) -> Result<Picture, Refusal> {
        let read = Rc::new(Cell::new(0));
        let file = File { bytes: Cursor::new(Source(Box::new(file))), read: Rc::clone(&read) };
        let mut decoder = Decoder::new_with_limits(file, Limits { bytes: MOST_KEPT });
        decoder.set_transformations(Transformations::normalize_to_color8());
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let wrong = |why: DecodingError| refusal(&read, words(&why));
        let (width, height) = decoder.read_header_info().map_err(wrong)?.size();
        if u64::from(width) * u64::from(height) > u64::from(most_pixels) {
            let reason = format!("{width} x {height}; at most {most_pixels} pixels");
            return Err(refusal(&read, reason));
        }
        if width as usize * format.bytes() > MOST_STRIP {
            return Err(refusal(&read, format!("its rows of {width} pixels are too long")));
        }
        let reader = decoder.read_info().map_err(wrong)?;
        let kind = reader.output_color_type().0;
        let mut picture = Picture { reader, read, format, kind, whole: None, next_row: 0 };
        if picture.reader.info().interlaced {
            picture.whole = Some(picture.read_whole()?);
        }
        Ok(picture)
    }

    /// Returns width and height, in pixels.
    pub fn size(&self) -> (u32, u32) {
        self.reader.info().size()
    }

    /// Returns the rows of each strip but the last.
    pub fn strip_rows(&self) -> u32 {
        let row = self.size().0 as usize * self.format.bytes();
        u32::try_from(MOST_STRIP / row.max(1)).unwrap_or(u32::MAX).min(self.size().1)
    }

    /// Decodes the next strip. After the last one there is none to ask for.
    pub fn next_strip(&mut self) -> Result<Strip, Refusal> {
        let first_row = self.next_row;
        let after = self.size().1.min(first_row.saturating_add(self.strip_rows()));
        let row = self.size().0 as usize * self.format.bytes();
        let mut pixels = Vec::with_capacity(row * after.saturating_sub(first_row) as usize);
        while self.next_row < after {
            self.add_row(&mut pixels)?;
        }
        let is_last = after == self.size().1;
        if is_last {
            self.reader.finish().map_err(|why| self.wrong(&why))?;
        }
        Ok(Strip { first_row, is_last, pixels })
    }

    fn wrong(&self, why: &DecodingError) -> Refusal {
        refusal(&self.read, words(why))
    }

    /// Decodes an interlaced picture.
    fn read_whole(&mut self) -> Result<Vec<u8>, Refusal> {
        let bytes = self.reader.output_buffer_size().filter(|bytes| *bytes <= MOST_INTERLACED);
        let Some(bytes) = bytes else {
            return Err(refusal(&self.read, "it is interlaced, and too large for that"));
        };
        let mut whole = vec![0; bytes];
        self.reader.next_frame(&mut whole).map_err(|why| self.wrong(&why))?;
        Ok(whole)
    }

    fn add_row(&mut self, pixels: &mut Vec<u8>) -> Result<(), Refusal> {
        if let Some(whole) = &self.whole {
            let length = self.size().0 as usize * self.kind.samples();
            let row = whole.chunks_exact(length.max(1)).nth(self.next_row as usize);
            convert(row.unwrap_or_default(), self.kind, self.format, pixels);
        } else {
            let read = Rc::clone(&self.read);
            let row = self.reader.next_row().map_err(|why| refusal(&read, words(&why)))?;
            let row = row.ok_or_else(|| refusal(&read, "it has too few rows"))?;
            convert(row.data(), self.kind, self.format, pixels);
        }
        self.next_row += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
