//! Rows as files have them, with samples of 8 bits, in the format that a client wants.
//!
//! Contract: a picture without colour has equal red, green and blue; one without transparency is
//! opaque. Where the client wants no transparency, it is left out: the colours stay as they are.

use png::ColorType;

/// Format of the pixels of a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A byte: brightness, by the weights of ITU-R BT.601.
    Grey,
    /// Three bytes.
    Rgb,
    /// Four bytes, of which the last is opacity.
    Rgba,
}

impl Format {
    /// Returns the format with this number in the contract.
    pub const fn from_number(number: u8) -> Option<Format> {
        match number {
            0 => Some(Format::Grey),
            1 => Some(Format::Rgb),
            2 => Some(Format::Rgba),
            _ => None,
        }
    }

    /// Returns its number in the contract.
    pub const fn number(self) -> u8 {
        match self {
            Format::Grey => 0,
            Format::Rgb => 1,
            Format::Rgba => 2,
        }
    }

    /// Returns the bytes of a pixel.
    pub const fn bytes(self) -> usize {
        match self {
            Format::Grey => 1,
            Format::Rgb => 3,
            Format::Rgba => 4,
        }
    }
}

/// Adds a row with samples of 8 bits to `pixels`. An indexed row has colours already.
pub fn convert(row: &[u8], from: ColorType, to: Format, pixels: &mut Vec<u8>) {
    for pixel in row.chunks_exact(from.samples()) {
        let (colour, opacity) = match *pixel {
            [grey] => ([grey; 3], 255),
            [grey, opacity] => ([grey; 3], opacity),
            [red, green, blue] => ([red, green, blue], 255),
            [red, green, blue, opacity] => ([red, green, blue], opacity),
            _ => continue,
        };
        match to {
            Format::Grey => pixels.push(brightness(colour)),
            Format::Rgb => pixels.extend(colour),
            Format::Rgba => {
                pixels.extend(colour);
                pixels.push(opacity);
            }
        }
    }
}

/// Returns the brightness of a colour, rounded.
fn brightness([red, green, blue]: [u8; 3]) -> u8 {
    let sum = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    ((sum + 500) / 1000) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_row_becomes_each_format() {
        for (row, kind, rgba) in [
            (&[7, 200][..], ColorType::Grayscale, [7, 7, 7, 255, 200, 200, 200, 255]),
            (&[7, 9, 200, 0], ColorType::GrayscaleAlpha, [7, 7, 7, 9, 200, 200, 200, 0]),
            (&[1, 2, 3, 40, 50, 60], ColorType::Rgb, [1, 2, 3, 255, 40, 50, 60, 255]),
            (&[1, 2, 3, 9, 40, 50, 60, 0], ColorType::Rgba, [1, 2, 3, 9, 40, 50, 60, 0]),
        ] {
            let made = |format| {
                let mut pixels = vec![];
                convert(row, kind, format, &mut pixels);
                pixels
            };
            assert_eq!(made(Format::Rgba), rgba, "{kind:?}");
            let [a, b, c, _, d, e, f, _] = rgba;
            assert_eq!(made(Format::Rgb), [a, b, c, d, e, f], "{kind:?}");
            assert_eq!(made(Format::Grey), [brightness([a, b, c]), brightness([d, e, f])]);
        }
    }

    #[test]
    fn white_is_as_bright_as_can_be_and_green_brighter_than_blue() {
        assert_eq!([[0; 3], [255; 3], [128; 3]].map(brightness), [0, 255, 128]);
        assert_eq!([[255, 0, 0], [0, 255, 0], [0, 0, 255]].map(brightness), [76, 150, 29]);
    }

    #[test]
    fn formats_have_the_numbers_of_the_contract() {
        for format in [Format::Grey, Format::Rgb, Format::Rgba] {
            assert_eq!(Format::from_number(format.number()), Some(format));
        }
        assert_eq!(Format::from_number(3), None);
    }
}
