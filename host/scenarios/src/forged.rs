//! Program images that the installer did not make for this board: each is rejected, with the reason
//! and advice, on both kernels, and the board continues.

use super::host::{pattern, push};
use super::machine::demand;
use super::programs::{ready, says, wrong};
use super::{Failure, PATIENCE, Rig};
use abi::program::{FOLDER, IMAGE_VERSION, engine};
use board::Isa;
use builds::{compiler, kernels};
use deploy::exec::{Line, captured};
use deploy::install;
use tree::place::Place;

/// The program whose images are changed.
const TOOL: &str = "tests/programs/tool.wat";
/// Name of the changed programs.
const NAME: &str = "forged";
/// Offsets of the version and of the seal in a header (`abi::program::ImageHead`).
const VERSION: usize = 8;
const SEAL: usize = 16;

/// Texts of the rejections.
const DAMAGED: &str = "damaged, or sealed for another board";
const OTHER_VERSION: &str = "made by another version";
const OTHER_CORES: &str = "made for another ISA";
const CUT: &str = "truncated, or too large";
const NO_IMAGE: &str = "not a program image";
const NO_WAY_OUT: &str = "its last function is not the one that stops it";
/// Part of every rejection: what to do.
const ADVICE: &str = "`pen install`";

/// Returns a valid image with one byte changed.
fn changed(good: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = good.to_vec();
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 0x10;
    }
    bytes
}

/// Returns files that are not valid for a kernel, made from its own and its peer's valid images.
fn forged(good: &[u8], peers: &[u8], sealed: &[u8]) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let mut older = good.to_vec();
    older[VERSION..VERSION + 4].copy_from_slice(&(IMAGE_VERSION - 1).to_le_bytes());
    let (half, end) = (good.len() / 2, good.len() - 1);
    vec![
        ("a byte of its seal changed", changed(good, SEAL), DAMAGED),
        ("a byte of its head changed", changed(good, 2 * SEAL + 40), DAMAGED),
        ("a byte of its code changed", changed(good, half), DAMAGED),
        ("its last byte changed", changed(good, end), DAMAGED),
        ("sealed with another key", sealed.to_vec(), DAMAGED),
        ("of another version", older, OTHER_VERSION),
        ("for the other kernel", peers.to_vec(), OTHER_CORES),
        ("half of it", good[..half].to_vec(), CUT),
        ("and a byte more", [good, b"x"].concat(), CUT),
        ("WebAssembly", b"\0asm\x01\0\0\0".to_vec(), NO_IMAGE),
        ("any bytes", pattern(9, 100_000), NO_IMAGE),
        ("a few bytes of it", good[..20].to_vec(), NO_IMAGE),
        ("nothing", vec![], NO_IMAGE),
    ]
}

/// Tries each of them on each kernel; then the valid image.
pub fn refused(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    let key = rig.instance.program_key().map_err(failed)?;
    let good = images(rig, &key)?;
    let unstoppable = unstoppable(rig, &key)?;
    let sealed = images(rig, b"the key of quite another board..")?;
    for (kernel, own, other) in [("main", 0, 1), ("shadow", 1, 0)] {
        let path = format!("/{FOLDER}/{NAME}.{}", good[own].0.name());
        for (what, bytes, says) in forged(&good[own].1, &good[other].1, &sealed[own].1) {
            push(&rig.instance, &bytes[..], &path).map_err(Failure::Wrong)?;
            let told = match captured(&rig.instance, &Line::on(kernel, NAME, &["args"]), None) {
                Ok(ran) => return Err(wrong(what, ran)),
                Err(why) => format!("{why:#}"),
            };
            if !told.contains(says) || !told.contains(ADVICE) {
                return Err(wrong(what, told));
            }
        }
        push(&rig.instance, &unstoppable[own][..], &path).map_err(Failure::Wrong)?;
        if let Ok(ran) = captured(&rig.instance, &Line::on(kernel, NAME, &["args"]), None) {
            return Err(wrong("it could not be stopped", ran));
        }
        if !rig.early_log(kernel).contains(NO_WAY_OUT) {
            return Err(wrong("the log does not say why", rig.early_log(kernel)));
        }
        push(&rig.instance, &good[own].1[..], &path).map_err(Failure::Wrong)?;
        let ran = captured(&rig.instance, &Line::on(kernel, NAME, &["args", "fine"]), None);
        let ran = ran.map_err(failed)?;
        if ran.code != 0 || ran.out != b"fine\n" {
            return Err(wrong("the good one", ran));
        }
    }
    says(rig, "main", &["args", "still here"], b"", b"still here\n")?;
    demand(rig, "audit", "the invariant holds")?;
    rig.ask("main", "on shadow audit", PATIENCE).map(|_| ())
}

fn failed(why: anyhow::Error) -> Failure {
    Failure::Wrong(format!("{why:#}"))
}

/// Returns the tool's images for main and shadow, sealed with a key.
fn images(rig: &Rig, key: &[u8; 32]) -> Result<Vec<(Isa, Vec<u8>)>, Failure> {
    let place = Place::find()?;
    let made = install::images(&place, &place.root.join(TOOL), None, &rig.instance.board()?, key);
    made.map_err(failed)
}

/// Returns the tool's images for main and shadow, sealed for the board, in which the functions that
/// trap at once return instead.
fn unstoppable(rig: &Rig, key: &[u8; 32]) -> Result<Vec<Vec<u8>>, Failure> {
    let place = Place::find()?;
    let (tool, board) = (place.root.join(TOOL), rig.instance.board()?);
    let isas = kernels::isas(&board);
    let wasm = std::fs::read(&tool)?;
    let codes = compiler::code(&place, compiler::chosen(), &tool, &wasm, &isas).map_err(failed)?;
    let seal = |(isa, mut code): (Isa, Vec<u8>)| {
        let trap = engine::trap_at_once(isa.number());
        let returns: &[u8] = match isa {
            Isa::Aarch64 => &[0xc0, 0x03, 0x5f, 0xd6],
            Isa::Riscv64 => &[0x67, 0x80, 0, 0],
        };
        let found = |at: &usize| code[*at..].starts_with(trap);
        let all: Vec<usize> = (0..code.len()).filter(found).collect();
        all.into_iter().for_each(|at| code[at..at + 4].copy_from_slice(returns));
        let manifest = program::Manifest::default();
        let image = program::seal(&code, &manifest, isa.number(), program::source_hash(&wasm), key);
        image.map_err(|why| failed(why.into()))
    };
    isas.into_iter().zip(codes).map(seal).collect()
}
