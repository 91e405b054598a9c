//! A picture made smaller by a whole factor, from strips of its rows: each pixel of the thumbnail
//! is the rounded mean of a square of pixels, which at the right and lower edge may be cut.
//!
//! Contract: the memory is that of the thumbnail and one row of sums, however large the picture is.
//! Strips come from another program: those that do not fit are refused.

use png_decoder::pixels::Format;

/// A thumbnail in the making.
pub struct Thumbnail {
    width: u32,
    height: u32,
    format: Format,
    /// Pixels of the picture for one of the thumbnail, in each direction.
    factor: u32,
    /// Row of the picture that comes next.
    row: u32,
    /// Of the row of squares that is incomplete.
    sums: Vec<u64>,
    pixels: Vec<u8>,
}

impl Thumbnail {
    /// For a picture of this size, with a thumbnail that is at most `most` pixels wide and high.
    /// `None`: there is no such picture.
    pub fn new(width: u32, height: u32, format: Format, most: u32) -> Option<Thumbnail> {
        let factor = width.max(height).div_ceil(most.max(1));
        if width == 0 || height == 0 {
            return None;
        }
        let sums = vec![0; width.div_ceil(factor) as usize * format.bytes()];
        Some(Thumbnail { width, height, format, factor, row: 0, sums, pixels: Vec::new() })
    }

    /// Adds a strip. Returns whether it was the one that comes next.
    pub fn add(&mut self, first_row: u32, strip: &[u8]) -> bool {
        let length = self.width as usize * self.format.bytes();
        let rows = strip.chunks_exact(length);
        let left = (self.height - self.row) as usize;
        let fits = rows.remainder().is_empty() && (1..=left).contains(&rows.len());
        if first_row != self.row || !fits {
            return false;
        }
        rows.for_each(|row| self.add_row(row));
        true
    }

    fn add_row(&mut self, row: &[u8]) {
        let bytes = self.format.bytes();
        let squares = row.chunks(self.factor as usize * bytes);
        for (square, sums) in squares.zip(self.sums.chunks_exact_mut(bytes)) {
            for pixel in square.chunks_exact(bytes) {
                sums.iter_mut().zip(pixel).for_each(|(sum, sample)| *sum += u64::from(*sample));
            }
        }
        self.row += 1;
        if self.row.is_multiple_of(self.factor) || self.row == self.height {
            self.end_squares();
        }
    }

    /// Turns sums into pixels.
    fn end_squares(&mut self) {
        let high = (self.row - 1) % self.factor + 1;
        let mut left = self.width;
        for sums in self.sums.chunks_exact_mut(self.format.bytes()) {
            let wide = self.factor.min(left);
            left -= wide;
            let count = u64::from(wide) * u64::from(high);
            self.pixels.extend(sums.iter().map(|sum| ((sum + count / 2) / count) as u8));
            sums.fill(0);
        }
    }

    /// Returns it as a file of the formats PPM or PGM. `None`: rows are missing.
    pub fn end(self) -> Option<Vec<u8>> {
        if self.row != self.height {
            return None;
        }
        let kind = if self.format == Format::Grey { "P5" } else { "P6" };
        let (width, height) = (self.width.div_ceil(self.factor), self.height.div_ceil(self.factor));
        let head = format!("{kind}\n{width} {height}\n255\n");
        Some([head.as_bytes(), &self.pixels].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_squares_that_are_cut_at_the_edges() {
        // 5 x 3 at most 3 wide: squares of 2 x 2, the last column and row are halves of one.
        let rows = [[0, 2, 10, 10, 7], [4, 7, 10, 11, 8], [1, 2, 3, 4, 5]];
        let mut made = Thumbnail::new(5, 3, Format::Grey, 3).unwrap();
        assert!(made.add(0, &rows[..2].concat()));
        assert!(made.add(2, &rows[2]));
        assert_eq!(made.end().unwrap(), b"P5\n3 2\n255\n\x03\x0a\x08\x02\x04\x05");
    }

    #[test]
    fn colours_are_apart_and_small_pictures_stay() {
        let pixels = [1, 2, 3, 250, 251, 252];
        let mut made = Thumbnail::new(2, 1, Format::Rgb, 64).unwrap();
        assert!(made.add(0, &pixels));
        assert_eq!(made.end().unwrap(), [b"P6\n2 1\n255\n", &pixels[..]].concat());
        let mut made = Thumbnail::new(2, 1, Format::Rgb, 1).unwrap();
        assert!(made.add(0, &pixels));
        assert_eq!(made.end().unwrap(), b"P6\n1 1\n255\n\x7e\x7f\x80");
    }

    #[test]
    fn strips_that_do_not_fit_are_refused() {
        assert!(Thumbnail::new(0, 1, Format::Grey, 1).is_none());
        let mut made = Thumbnail::new(2, 2, Format::Grey, 1).unwrap();
        for (row, strip) in [(1, &[0; 2][..]), (0, &[0; 3]), (0, &[0; 6]), (0, &[])] {
            assert!(!made.add(row, strip), "{row} {strip:?}");
        }
        assert!(made.add(0, &[1, 2]));
        assert!(!made.add(0, &[1, 2]));
        assert_eq!(made.end(), None);
    }
}
