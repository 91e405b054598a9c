//! Sizes in board files: `"48 MiB"`, or plain bytes.

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A number of bytes in a board file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// Parses `"16 KiB"`, `"48 MiB"`, `"1 GiB"`.
fn parse(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let factor = match unit.trim() {
        "B" => 1u64,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Formats a size for people.
pub fn shown(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Bytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size such as \"48 MiB\" or a number of bytes")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Bytes, E> {
                u64::try_from(value).map(Bytes).map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Bytes, E> {
                Ok(Bytes(value))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                parse(text).map(Bytes).ok_or_else(|| {
                    E::custom(format!("\"{text}\" is no size: write \"48 MiB\" or bytes"))
                })
            }
        }
        from.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_written() {
        assert_eq!(parse("48 MiB"), Some(48 << 20));
        assert_eq!(parse("1 GiB"), Some(1 << 30));
        assert_eq!(parse("12 B"), Some(12));
        for bad in ["48MiB", "48 MB", "MiB", "-1 MiB", "1.5 GiB", "99999999999 GiB"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        assert_eq!(shown(48 << 20), "48 MiB");
        assert_eq!(shown(3 << 9), "1536 B");
        assert_eq!(shown(64 << 10), "64 KiB");
    }
}
