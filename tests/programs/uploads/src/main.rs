//! Measures uploads of PNG files by where the decoder and the server run, after Helios' figure 6:
//! `./pen bench helios.png` runs it on main.
//!
//! ```text
//!   uploads, on main --TCP--> upload, beside png or as its manifest says --png.v1--> png
//! ```
//! For each placement it uploads one file alone, and then from 8 clients at the same time. It
//! prints records in ms: of the upload that was alone, and of one of many, which is all of the time
//! divided by their number. The clients' own work is on main in each placement.

mod client;

use client::upload;
use penumbra::channel::connect_when_served;
use penumbra::process::{list, signal};
use penumbra::{Child, Command};
use png::{BitDepth, ColorType, Encoder};
use png_decoder::png_v1::CONTRACT;

/// Kernels of the board.
const MAIN: u32 = 0;
const SHADOW: u32 = 1;
/// The picture, whose file is about as large as one of the paper's.
const WIDTH: u32 = 256;
const HEIGHT: u32 = 186;
const CLIENTS: usize = 8;
const EACH: usize = 4;

type Failure = Box<dyn std::error::Error>;

/// A placement: its name, the decoder's kernel, and that of the server; `by_manifest`: the server
/// starts where its manifest says, which must be there.
struct Placement {
    name: &'static str,
    decoder: u32,
    server: u32,
    by_manifest: bool,
}

const PLACEMENTS: [Placement; 4] = [
    Placement { name: "beside", decoder: MAIN, server: MAIN, by_manifest: false },
    Placement { name: "apart", decoder: MAIN, server: SHADOW, by_manifest: true },
    Placement { name: "shadow_beside", decoder: SHADOW, server: SHADOW, by_manifest: false },
    Placement { name: "shadow_apart", decoder: SHADOW, server: MAIN, by_manifest: true },
];

/// Returns a file: colours that change slowly, with noise in half of the bits.
fn picture() -> Result<Vec<u8>, png::EncodingError> {
    let mut state = 1_u32;
    let mut samples = Vec::new();
    for (x, y) in (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y))) {
        for slope in [x, y, x + y] {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            samples.push((slope / 2) as u8 & 0xf0 | (state >> 28) as u8);
        }
    }
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, WIDTH, HEIGHT);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&samples)?;
    writer.finish()?;
    Ok(file)
}

/// Checks that a program runs on a kernel.
fn is_on(child: &Child, kernel: u32, name: &str) -> Result<(), Failure> {
    let all = list()?;
    let listed = all.iter().find(|process| process.pid == child.pid());
    match listed.is_some_and(|process| u32::from(process.kernel) == kernel) {
        true => Ok(()),
        false => Err(format!("{name}: its server does not run on kernel {kernel}").into()),
    }
}

fn end(child: Child) -> Result<(), Failure> {
    child.kill(signal::KILL)?;
    child.wait()?;
    Ok(())
}

fn record(name: &str, ns: u64) {
    println!("record helios.png_{name} {} ms", ns as f64 / 1e6);
}

fn measure(placement: &Placement, file: &[u8]) -> Result<(), Failure> {
    let Placement { name, decoder, server, by_manifest } = *placement;
    let decoder = Command::new("/bin/png").kernel(decoder).spawn()?;
    drop(connect_when_served("png", CONTRACT)?);
    let command = Command::new("/bin/upload");
    let command = if by_manifest { command } else { command.kernel(server) };
    let started = command.spawn()?;
    // The first run of a program on a kernel is slower: its image comes into memory.
    upload(file, CLIENTS, 1)?;
    is_on(&started, server, name)?;
    record(&format!("{name}_one"), upload(file, 1, 1)?);
    record(name, upload(file, CLIENTS, EACH)? / (CLIENTS * EACH) as u64);
    end(started)?;
    end(decoder)
}

fn main() -> Result<(), Failure> {
    let file = picture()?;
    PLACEMENTS.iter().try_for_each(|placement| measure(placement, &file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_as_large_as_one_of_the_paper() -> Result<(), Failure> {
        let kilobytes = picture()?.len() / 1_000;
        assert!((88..=96).contains(&kilobytes), "{kilobytes} KB");
        Ok(())
    }
}
