//! Makes inputs: random bytes, and valid inputs with a few mistakes.

use base::prng::Prng;

/// Returns between `least` and `most` random bytes.
pub fn noise(prng: &mut Prng, least: u64, most: u64) -> Vec<u8> {
    let length = least + prng.below(most - least);
    (0..length).map(|_| prng.next() as u8).collect()
}

fn pick<'a, T: ?Sized>(prng: &mut Prng, all: &[&'a T]) -> &'a T {
    all[prng.below(all.len() as u64) as usize]
}

/// Returns bytes with a few of them changed, or a piece lost, doubled or added.
pub fn spoil(prng: &mut Prng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + prng.below(4) {
        let at = prng.below(bytes.len().max(1) as u64) as usize;
        let end = bytes.len().min(at + 1 + prng.below(16) as usize);
        match prng.below(8) {
            0..4 if !bytes.is_empty() => bytes[at] ^= 1 << prng.below(8),
            4 if !bytes.is_empty() => bytes[at..end].fill([0, 0xff][prng.below(2) as usize]),
            5 => drop(bytes.drain(at.min(end)..end)),
            6 => {
                let piece = bytes[at.min(end)..end].to_vec();
                bytes.splice(at.min(end)..at.min(end), piece);
            }
            7 => bytes.truncate(at),
            _ => bytes.push(prng.next() as u8),
        }
    }
    bytes
}

/// Returns a text with a few mistakes: lines lost, doubled or exchanged, values replaced by `words`
/// or by numbers at an edge, bytes changed. Sometimes it has none.
pub fn text(prng: &mut Prng, text: &str, words: &[&str]) -> Vec<u8> {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for _ in 0..prng.below(4) {
        let at = prng.below(lines.len().max(1) as u64) as usize;
        if at >= lines.len() {
            break;
        }
        match prng.below(9) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = prng.below(lines.len() as u64) as usize;
                lines.swap(at, other);
            }
            3 => lines[at] = pick(prng, words).to_string(),
            4 => {
                let end = lines[at..].iter().position(String::is_empty).map_or(at, |it| at + it);
                let piece = lines[at..=end].to_vec();
                lines.extend(piece);
            }
            _ => lines[at] = revalued(prng, &lines[at], words),
        }
    }
    let text = lines.join("\n").into_bytes();
    if prng.chance(1, 4) { spoil(prng, &text) } else { text }
}

/// Picks a word, mostly a string in place of a string, so that a text often stays well formed.
fn similar<'a>(prng: &mut Prng, value: &str, words: &[&'a str]) -> &'a str {
    let is_string = |text: &str| text.trim_start().starts_with('"');
    let mut word = pick(prng, words);
    for _ in 0..4 {
        if is_string(word) == is_string(value) {
            break;
        }
        word = pick(prng, words);
    }
    word
}

/// Replaces what stands after `=`, or a word of it.
fn revalued(prng: &mut Prng, line: &str, words: &[&str]) -> String {
    const NUMBERS: [&str; 12] = [
        "0",
        "1",
        "-1",
        "2",
        "16",
        "4096",
        "65536",
        "4294967295",
        "0xffffffffffff",
        "9223372036854775807",
        "1e308",
        "18446744073709551616",
    ];
    let Some((key, value)) = line.split_once('=') else { return line.replace(']', "") };
    let new = match prng.below(5) {
        0 => pick(prng, &NUMBERS).to_string(),
        1 | 2 => similar(prng, value, words).to_string(),
        3 => value.replace(|c: char| c.is_ascii_digit(), &prng.below(10).to_string()),
        _ => format!("{value}{}", pick(prng, words)),
    };
    format!("{key}={new}")
}
