//! Sealed images of programs: a kernel runs the code of an image that it accepts.
//!
//! The input changes a valid image, or is an image with a valid seal over any head. Rules:
//! - nothing panics;
//! - an image is accepted only if it is, byte for byte, the one that was sealed;
//! - one that is sealed but invalid is refused, and what is accepted has strings that parse, and
//!   seals to the same bytes again;
//! - the class that is read without checking the seal is a known one.

use crate::bytes::Bytes;
use crate::{Target, mutate};
use abi::boot::isa;
use abi::platform;
use abi::program::{IMAGE_STRINGS, IMAGE_UNSEALED, ImageHead, class};
use base::prng::Prng;
use kernel_seal::{Contents, Image, Refused};

pub const TARGET: Target = Target {
    name: "seal",
    about: "sealed images of programs, as kernels check them",
    daily: 3000,
    nightly: 300_000,
    run: |bytes| judge(bytes, kernel_seal::check),
    seed,
    outcomes: || {
        vec![
            (ACCEPTED, "accepted"),
            (RESEALED, "accepted with another seal"),
            (Refused::Magic as u32, "magic"),
            (Refused::Version as u32, "version"),
            (Refused::Isa as u32, "isa"),
            (Refused::Size as u32, "size"),
            (Refused::Seal as u32, "seal"),
            (Refused::Shape as u32, "shape"),
        ]
    },
};

const ACCEPTED: u32 = 16;
const RESEALED: u32 = 17;
const KEY: [u8; kernel_seal::KEY] = [7; kernel_seal::KEY];
/// Bytes of an input that is used.
const LONGEST: usize = 512;

/// A kernel's check.
type Check = for<'a> fn(&'a [u8], u32, &[u8; kernel_seal::KEY]) -> Result<Image<'a>, Refused>;

/// Returns a valid image.
fn image() -> Vec<u8> {
    let code: Vec<u8> = (0..300u32).map(|it| ((it * 31) >> 3) as u8).collect();
    let contents = Contents {
        isa: isa::AARCH64,
        class: class::LIGHT,
        required: 1,
        preferred: 0x48,
        memory: 64 << 20,
        files: 12,
        rights: 0,
        tree_processes: 20,
        tree_files: 300,
        arguments: b"-v\0two words\0",
        environment: b"HOME=/\0",
        preopens: b"rw /data=/data\0+r /bin=tools=old\0",
        endpoints: b"-5 echo.v1 00112233445566778899aabbccddeeff\0self disk\0",
        net: b"connect:*:443\0listen:80\0",
        listen: b"tcp:80\0",
        source: [9; 32],
        code: &code,
    };
    kernel_seal::seal(&contents, &KEY).unwrap()
}

/// Seals any bytes as they are.
fn reseal(file: &mut [u8]) {
    let Some(rest) = file.get(IMAGE_UNSEALED + 32..) else { return };
    let mut hasher = blake3::Hasher::new_keyed(&KEY);
    let seal = *hasher.update(&file[..IMAGE_UNSEALED]).update(rest).finalize().as_bytes();
    file[IMAGE_UNSEALED..][..32].copy_from_slice(&seal);
}

/// Applies the input to a valid image. Returns the file, and whether it has a seal of its own.
fn changed(bytes: &[u8]) -> (Vec<u8>, bool) {
    let (mut input, mut file) = (Bytes::new(bytes, LONGEST), image());
    let how = input.byte();
    while !input.is_empty() && !file.is_empty() {
        let near = if input.once_in(4) { file.len() } else { size_of::<ImageHead>() + 64 };
        let at = input.below(near).min(file.len() - 1);
        match input.below(8) {
            0..3 => file[at] ^= 1 << input.below(8),
            3 => file[at] = input.byte(),
            4 => {
                // A field of the head.
                let (at, number) = (at & !3, input.number(32) as u32);
                let end = file.len().min(at + 4);
                file[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
            5 => drop(file.drain(at..file.len().min(at + 1 + input.below(70)))),
            6 => file.truncate(at),
            _ => file.extend(input.take(3)),
        }
    }
    let own = how % 3 == 0;
    if own {
        reseal(&mut file);
    }
    (file, own)
}

fn judge(bytes: &[u8], check: Check) -> u64 {
    let (file, own) = changed(bytes);
    if let Some(preferences) = kernel_seal::Preferences::of(&file) {
        assert!([class::NORMAL, class::LIGHT].contains(&preferences.class));
        assert!(
            platform::can_be_one(preferences.required)
                && platform::is_packed(preferences.preferred)
        );
        assert!(preferences.endpoints.len() <= IMAGE_STRINGS);
    }
    match check(&file, isa::AARCH64, &KEY) {
        Err(refused) => 1 << refused as u32,
        Ok(_) if !own => {
            assert!(file == image(), "a changed image was accepted");
            1 << ACCEPTED
        }
        Ok(image) => {
            assert_eq!(image.preopens().count(), count(image.preopens));
            assert_eq!(image.endpoints().count(), count(image.endpoints));
            let again = kernel_seal::seal(&image, &KEY).expect("what was accepted can be sealed");
            let again = check(&again, isa::AARCH64, &KEY).expect("and is accepted again");
            assert_eq!(*again, *image);
            1 << RESEALED
        }
    }
}

fn count(strings: &[u8]) -> usize {
    strings.iter().filter(|byte| **byte == 0).count()
}

fn seed(seed: u64) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    match seed % 20 {
        0 => vec![1],
        1 => vec![0],
        _ => mutate::noise(&mut prng, 1, 40),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check that does not look at the seal, if the rest is right.
    fn without_seal<'a>(
        bytes: &'a [u8],
        isa: u32,
        key: &[u8; kernel_seal::KEY],
    ) -> Result<Image<'a>, Refused> {
        match kernel_seal::check(bytes, isa, key) {
            Err(Refused::Seal) => {
                let mut file = bytes.to_vec();
                reseal(&mut file);
                kernel_seal::check(Box::leak(file.into_boxed_slice()), isa, key)
            }
            other => other,
        }
    }

    #[test]
    fn a_check_without_the_seal_is_found() {
        let found = (0..300)
            .any(|number| std::panic::catch_unwind(|| judge(&seed(number), without_seal)).is_err());
        assert!(found);
    }
}
