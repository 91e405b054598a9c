//! Compares with the standard library for all lengths, distances and overlaps that take different
//! paths.

use arch_copy::{compare, copy, fill, words};

const ROOM: usize = 512;

#[repr(align(8))]
struct Aligned([u8; ROOM]);

fn noise() -> [u8; ROOM] {
    let mut state = 1u32;
    std::array::from_fn(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
}

#[test]
fn ranges_are_copied_whatever_the_overlap() {
    for n in (0..=140).chain([191, 192, 193, 255, 256, 257, 300]) {
        for to in (0..72).chain([100, 130, 200]) {
            for from in [0, 1, 7, 8, 63, 64, 65, 72, 130, 200] {
                let (mut ours, mut theirs) = (noise(), noise());
                // SAFETY: both ranges are in the array.
                unsafe { copy(ours.as_mut_ptr().add(to), ours.as_ptr().add(from), n) };
                theirs.copy_within(from..from + n, to);
                assert_eq!(ours, theirs, "{n} bytes from {from} to {to}");
            }
        }
    }
}

#[test]
fn words_are_copied_wherever_both_ranges_begin() {
    for n in (0..=140).chain([191, 192, 193, 255, 256, 257]) {
        for to in 0..9 {
            for from in (0..9).map(|from| from + if n > 100 { 260 } else { 150 }) {
                // Downwards they may overlap.
                let from = if n > 20 { from - 8 * (n / 16) } else { from };
                let (mut ours, mut theirs) = (Aligned(noise()), noise());
                let (at, out) = (ours.0.as_mut_ptr(), ours.0.as_ptr());
                // SAFETY: both ranges are in the array, and `to` is below `from`.
                unsafe { words::copy(at.add(to), out.add(from), n) };
                theirs.copy_within(from..from + n, to);
                assert_eq!(ours.0, theirs, "{n} bytes from {from} to {to}");
            }
        }
    }
}

#[test]
fn words_are_filled_wherever_the_range_begins() {
    for n in 0..200 {
        for at in 0..20 {
            let (mut ours, mut theirs) = (Aligned(noise()), noise());
            // SAFETY: the range is in the array.
            unsafe { words::fill(ours.0.as_mut_ptr().add(at), 0xa5, n) };
            theirs[at..at + n].fill(0xa5);
            assert_eq!(ours.0, theirs, "{n} bytes at {at}");
        }
    }
}

#[test]
fn fill_sets_exactly_its_bytes() {
    for n in 0..200 {
        for at in 0..20 {
            let (mut ours, mut theirs) = (noise(), noise());
            // SAFETY: the range is in the array.
            unsafe { fill(ours.as_mut_ptr().add(at), 0xa5, n) };
            theirs[at..at + n].fill(0xa5);
            assert_eq!(ours, theirs, "{n} bytes at {at}");
        }
    }
}

#[test]
fn compare_decides_by_the_first_difference() {
    let same = noise();
    for n in 0..80 {
        // SAFETY: both arrays are longer.
        assert_eq!(unsafe { compare(same.as_ptr(), noise().as_ptr(), n) }, 0);
        for at in 0..n {
            for byte in [0, same[at].wrapping_add(1), 255] {
                let mut other = noise();
                other[at] = byte;
                other[at + 1] = !other[at + 1];
                let expected = same[..n].cmp(&other[..n]);
                // SAFETY: both arrays are longer.
                let found = unsafe { compare(same.as_ptr(), other.as_ptr(), n) };
                assert_eq!(found.cmp(&0), expected, "{n} bytes, byte {at}");
            }
        }
    }
}
