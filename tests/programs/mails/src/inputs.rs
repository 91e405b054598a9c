//! Mails and signatures of viruses, from seeds: the same everywhere. No signature is in a mail.

use offload::texts;

/// The domain of all recipients.
pub const DOMAIN: &str = "chip.example";
/// Signatures of bytes, and as many of whole mails.
const SIGNATURES: usize = 1_000;
/// Bytes of a signature.
const LENGTH: usize = 24;
/// Words of a mail of text, at least and at most.
const WORDS: (usize, usize) = (20, 400);
/// Lines of a large mail, of 76 characters each as in an attachment: about 100 KB.
const LINES: usize = 1_300;
const SEED: u64 = 1;

/// What is in a mail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Text,
    Large,
}

/// A linear congruential generator: the upper half of its state.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 32) as u32
    }
}

fn text(number: usize) -> String {
    let (least, most) = WORDS;
    let seed = SEED + number as u64;
    let words = least + Random(seed).next() as usize % (most - least + 1);
    texts(seed, 1, words).map(|(_, text)| text.replace('\n', "\r\n")).collect()
}

fn attachment(number: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut random = Random(SEED + number as u64);
    let mut line = || -> String {
        let digit = |_| char::from(DIGITS[random.next() as usize % DIGITS.len()]);
        (0..76).map(digit).chain(['\r', '\n']).collect()
    };
    (0..LINES).map(|_| line()).collect()
}

/// Returns mails as SMTP sends them, with the line that ends each.
pub fn mails(size: Size, count: usize) -> Vec<String> {
    let body = |number| match size {
        Size::Text => text(number),
        Size::Large => attachment(number),
    };
    let head = format!("From: <ada@host.example>\r\nTo: <bob@{DOMAIN}>\r\n");
    let mail = |number| format!("{head}Subject: {number}\r\n\r\n{}.\r\n", body(number));
    (0..count).map(mail).collect()
}

/// Returns a file of signatures in ClamAV's forms, of random bytes.
pub fn signatures() -> String {
    let mut random = Random(SEED);
    let mut hex = |bytes: usize| -> String {
        (0..bytes).map(|_| format!("{:02x}", random.next() >> 24)).collect()
    };
    let mut lines = |number| {
        let (bytes, sum) = (hex(LENGTH), hex(16));
        format!("Bytes.{number}:0:*:{bytes}\n{sum}:*:Whole.{number}\n")
    };
    (0..SIGNATURES).map(&mut lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_each_time() {
        for size in [Size::Text, Size::Large] {
            assert!(mails(size, 3) == mails(size, 3));
            assert!(mails(size, 9).iter().all(|mail| mail.matches("\r\n.").count() == 1));
        }
        assert_eq!(signatures(), signatures());
        assert_eq!(signatures().lines().count(), 2 * SIGNATURES);
    }

    #[test]
    fn sizes_of_mails() {
        let bytes = |size| mails(size, 100).iter().map(String::len).sum::<usize>() / 100;
        let (text, large) = (bytes(Size::Text), bytes(Size::Large));
        assert!((1_500..2_100).contains(&text), "{text}");
        assert!((100_000..105_000).contains(&large), "{large}");
    }
}
