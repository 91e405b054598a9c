//! Pictures from a seed as PNG files of each kind, and what becomes of them, by simple means.
//!
//! Contract: what a thumbnail must be is computed from the samples that were made, and not from the
//! file: nothing here decodes.

use png::{BitDepth, ColorType, Encoder, Filter};

/// What a file says of its pixels.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub colours: ColorType,
    pub depth: BitDepth,
    /// A filter of rows; `None`: the file is interlaced (Adam7), and not compressed.
    pub filter: Option<Filter>,
}

/// A picture: the file, and the red, green and blue of each pixel.
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
    pub file: Vec<u8>,
}

/// Columns and rows of each pass of an interlaced file: the first one, and the distance.
const PASSES: [[(usize, usize); 2]; 7] = [
    [(0, 8), (0, 8)],
    [(4, 8), (0, 8)],
    [(0, 4), (4, 8)],
    [(2, 4), (0, 4)],
    [(0, 2), (2, 4)],
    [(1, 2), (0, 2)],
    [(0, 1), (1, 2)],
];

/// Returns four samples of 16 bits for a pixel: colours that change slowly, with some noise.
fn samples(seed: u64, x: usize, y: usize) -> [u16; 4] {
    let place = (x as u64) << 32 | y as u64;
    let noise = (place ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let noise = (noise ^ noise >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let slopes = [(97, 3), (5, 61), (211, 127), (31, 17)];
    let mut which = 0;
    slopes.map(|(right, down)| {
        which += 1;
        let slope = (x * right + y * down) as u64 + seed * which;
        (slope << 5 | noise >> (which * 12) & 0x1f) as u16
    })
}

/// Returns the colours of an indexed file.
fn palette(seed: u64, depth: BitDepth) -> Vec<[u8; 3]> {
    let colour = |index: usize| samples(seed + 7, index * 37, index * 5).map(|it| (it >> 8) as u8);
    (0..1usize << depth as u32)
        .map(colour)
        .map(|[red, green, blue, _]| [red, green, blue])
        .collect()
}

/// The samples of a pixel in the file, and its colour once it is decoded.
fn pixel(seed: u64, kind: Kind, palette: &[[u8; 3]], x: usize, y: usize) -> (Vec<u16>, [u8; 3]) {
    let bits = kind.depth as u32;
    let all = samples(seed, x, y).map(|sample| sample >> (16 - bits));
    let [red, green, blue, opacity] = all;
    // The largest sample becomes 255; of 16 bits the upper half counts.
    let byte = |sample: u16| match bits {
        16 => (sample >> 8) as u8,
        bits => (u32::from(sample) * 255 / ((1 << bits) - 1)) as u8,
    };
    match kind.colours {
        ColorType::Grayscale => (vec![red], [byte(red); 3]),
        ColorType::GrayscaleAlpha => (vec![red, opacity], [byte(red); 3]),
        ColorType::Rgb => (vec![red, green, blue], [red, green, blue].map(byte)),
        ColorType::Rgba => (all.to_vec(), [red, green, blue].map(byte)),
        ColorType::Indexed => (vec![red], palette[usize::from(red)]),
    }
}

/// Packs samples of a row, the first bits first.
fn packed(samples: impl Iterator<Item = u16>, depth: BitDepth) -> Vec<u8> {
    let bits: Vec<bool> = samples
        .flat_map(|sample| (0..depth as u32).rev().map(move |bit| sample >> bit & 1 == 1))
        .collect();
    let byte = |bits: &[bool]| {
        bits.iter().zip((0..8).rev()).map(|(bit, at)| u8::from(*bit) << at).sum::<u8>()
    };
    bits.chunks(8).map(byte).collect()
}

impl Picture {
    /// Makes one.
    pub fn new(seed: u64, kind: Kind, (width, height): (usize, usize)) -> Picture {
        let palette = match kind.colours {
            ColorType::Indexed => palette(seed, kind.depth),
            _ => vec![],
        };
        let pixel = |x, y| pixel(seed, kind, &palette, x, y);
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels = places.map(|(x, y)| pixel(x, y).1).collect();
        let row = |y: usize, xs: &mut dyn Iterator<Item = usize>| {
            packed(xs.flat_map(|x| pixel(x, y).0), kind.depth)
        };
        let file = match kind.filter {
            Some(filter) => {
                let rows: Vec<u8> = (0..height).flat_map(|y| row(y, &mut (0..width))).collect();
                encoded(kind, filter, &palette, (width, height), &rows)
            }
            None => interlaced(kind, &palette, (width, height), row),
        };
        Picture { width, height, pixels, file }
    }

    /// Returns a file whose samples are all 0.
    pub fn blank(colours: ColorType, depth: BitDepth, (width, height): (usize, usize)) -> Vec<u8> {
        let kind = Kind { colours, depth, filter: None };
        let row = (width * colours.samples() * depth as usize).div_ceil(8);
        encoded(kind, Filter::NoFilter, &[], (width, height), &vec![0; row * height])
    }

    /// Returns the thumbnail as a PPM or, with `is_grey`, as a PGM.
    pub fn thumbnail(&self, size: usize, is_grey: bool) -> Vec<u8> {
        let factor = self.width.max(self.height).div_ceil(size);
        let (width, height) = (self.width.div_ceil(factor), self.height.div_ceil(factor));
        let kind = if is_grey { "P5" } else { "P6" };
        let mut made = format!("{kind}\n{width} {height}\n255\n").into_bytes();
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let colours = self.mean(x * factor, y * factor, factor, is_grey);
            made.extend(&colours[..if is_grey { 1 } else { 3 }]);
        }
        made
    }

    /// Returns the mean of a square.
    fn mean(&self, left: usize, top: usize, factor: usize, is_grey: bool) -> [u8; 3] {
        let columns = left..self.width.min(left + factor);
        let rows = top..self.height.min(top + factor);
        let count = columns.len() * rows.len();
        let mut sums = [0.0; 3];
        for (y, x) in rows.flat_map(|y| columns.clone().map(move |x| (y, x))) {
            let mut colours = self.pixels[y * self.width + x].map(f64::from);
            if is_grey {
                let [red, green, blue] = colours;
                colours = [(0.299 * red + 0.587 * green + 0.114 * blue).round(); 3];
            }
            sums.iter_mut().zip(colours).for_each(|(sum, colour)| *sum += colour);
        }
        sums.map(|sum| (sum / count as f64).round() as u8)
    }
}

/// Returns a file that the crate has compressed.
fn encoded(
    kind: Kind,
    filter: Filter,
    palette: &[[u8; 3]],
    (width, height): (usize, usize),
    rows: &[u8],
) -> Vec<u8> {
    let mut file = vec![];
    let mut encoder = Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(kind.colours);
    encoder.set_depth(kind.depth);
    encoder.set_filter(filter);
    if !palette.is_empty() {
        encoder.set_palette(palette.concat());
        // One colour is transparent, which a thumbnail does not show.
        encoder.set_trns(vec![255, 0]);
    }
    let mut writer = encoder.write_header().expect("its parts fit");
    writer.write_image_data(rows).expect("it has all rows");
    writer.finish().expect("a vector takes everything");
    file
}

/// Returns an interlaced file, which the crate cannot write. Its data are stored as they are.
fn interlaced(
    kind: Kind,
    palette: &[[u8; 3]],
    (width, height): (usize, usize),
    row: impl Fn(usize, &mut dyn Iterator<Item = usize>) -> Vec<u8>,
) -> Vec<u8> {
    let mut data = vec![];
    for [(left, right), (top, down)] in PASSES {
        for y in (top..height).step_by(down).filter(|_| left < width) {
            data.push(0);
            data.extend(row(y, &mut (left..width).step_by(right)));
        }
    }
    let about = [kind.depth as u8, kind.colours as u8, 0, 0, 1];
    let sizes = [width as u32, height as u32].map(u32::to_be_bytes).concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    file.extend(chunk(b"IHDR", &[&sizes[..], &about].concat()));
    if !palette.is_empty() {
        file.extend(chunk(b"PLTE", &palette.concat()));
    }
    file.extend(chunk(b"IDAT", &stored(&data)));
    file.extend(chunk(b"IEND", &[]));
    file
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [name, data].concat();
    let mut sum = u32::MAX;
    for byte in &named {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    [&(data.len() as u32).to_be_bytes(), &named[..], &(!sum).to_be_bytes()].concat()
}

/// Returns a stream of zlib whose blocks are not compressed.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = data.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend([length, !length].map(u16::to_le_bytes).concat());
        stream.extend(block);
    }
    let (mut low, mut high) = (1, 0);
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend((high << 16 | low).to_be_bytes());
    stream
}
