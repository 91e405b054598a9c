//! Files that the crate has written, whole and damaged.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use png::{BitDepth, Encoder};

/// Returns a file with bytes that look random, as samples of 8 bits.
fn file(width: u32, height: u32, kind: ColorType) -> (Vec<u8>, Vec<u8>) {
    let mut state = 1u32;
    let samples: Vec<u8> = (0..width as usize * height as usize * kind.samples())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    let mut file = vec![];
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(kind);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&samples).unwrap();
    writer.finish().unwrap();
    (file, samples)
}

/// Decodes all of a file.
fn decoded(file: Vec<u8>, most: u32, format: Format) -> Result<Vec<Strip>, Refusal> {
    let mut picture = Picture::open(file, most, format)?;
    let mut strips = vec![];
    loop {
        strips.push(picture.next_strip()?);
        if strips.last().is_some_and(|strip| strip.is_last) {
            return Ok(strips);
        }
    }
}

#[test]
fn strips_together_are_the_picture() {
    for (width, height) in [(1, 1), (300, 700), (87_381, 3), (2, 10_000)] {
        let (file, samples) = file(width, height, ColorType::Rgb);
        let strips = decoded(file, u32::MAX, Format::Rgb).unwrap();
        let rows = (MOST_STRIP / (3 * width as usize)).min(height as usize);
        assert_eq!(strips.len(), (height as usize).div_ceil(rows));
        for (strip, index) in strips.iter().zip(0..) {
            assert_eq!(strip.first_row, index * rows as u32);
            assert!(strip.pixels.len() <= MOST_STRIP);
        }
        let all: Vec<u8> = strips.into_iter().flat_map(|strip| strip.pixels).collect();
        assert!(all == samples, "{width} x {height}");
    }
}

#[test]
fn a_picture_that_is_too_large_is_refused_before_it_is_decoded() {
    let (file, _) = file(100, 50, ColorType::Grayscale);
    assert!(decoded(file.clone(), 5_000, Format::Grey).is_ok());
    let refused = decoded(file, 4_999, Format::Grey).unwrap_err();
    assert_eq!(refused.reason, "100 x 50; at most 4999 pixels");
    assert!(refused.offset < 100, "{refused:?}");
}

#[test]
fn rows_that_are_longer_than_a_strip_are_refused() {
    let (file, _) = file(90_000, 1, ColorType::Grayscale);
    assert!(decoded(file.clone(), u32::MAX, Format::Grey).is_ok());
    let refused = decoded(file, u32::MAX, Format::Rgb).unwrap_err();
    assert_eq!(refused.reason, "its rows of 90000 pixels are too long");
}

#[test]
fn no_part_of_a_file_is_a_picture() {
    let (file, _) = file(20, 30, ColorType::Rgba);
    for length in 0..file.len() {
        let refused = decoded(file[..length].to_vec(), u32::MAX, Format::Rgba).unwrap_err();
        assert!(refused.offset as usize <= length, "{length}: {refused:?}");
    }
}

#[test]
fn a_changed_bit_is_noticed_wherever_it_is() {
    let (file, _) = file(20, 30, ColorType::Rgb);
    for at in 0..file.len() {
        let mut file = file.clone();
        file[at] ^= 4;
        assert!(decoded(file, u32::MAX, Format::Rgb).is_err(), "byte {at}");
    }
}
