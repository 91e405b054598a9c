//! `printf`'s formats.

use crate::escape::{Kind, unescape};

/// Maximum width and precision.
const WIDTH: usize = 4096;

/// The output and the error messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Formatted {
    pub bytes: Vec<u8>,
    pub wrong: Vec<String>,
}

/// A conversion such as `%-5.3s`.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

struct Printf<'a> {
    values: &'a [String],
    at: usize,
    out: Formatted,
    ends: bool,
}

/// Formats all values, repeating `format` while it consumes some.
pub(super) fn format(format: &str, values: &[String]) -> Formatted {
    let mut printf = Printf { values, at: 0, out: Formatted::default(), ends: false };
    loop {
        let before = printf.at;
        printf.once(format);
        if printf.ends || printf.at >= values.len() || printf.at == before {
            return printf.out;
        }
    }
}

impl Printf<'_> {
    fn next(&mut self) -> Option<String> {
        let value = self.values.get(self.at).cloned();
        self.at += usize::from(value.is_some());
        value
    }

    fn once(&mut self, format: &str) {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            let (text, tail) = rest.split_at(at);
            self.out.bytes.extend(unescape(text, Kind::Format).bytes);
            let tail = tail.get(1..).unwrap_or_default();
            if let Some(tail) = tail.strip_prefix('%') {
                self.out.bytes.push(b'%');
                rest = tail;
                continue;
            }
            rest = self.directive(tail);
            if self.ends {
                return;
            }
        }
        self.out.bytes.extend(unescape(rest, Kind::Format).bytes);
    }

    /// Formats one conversion after `%`. Returns the rest of the text.
    fn directive<'f>(&mut self, text: &'f str) -> &'f str {
        let mut spec = Spec::default();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            match c {
                '-' => spec.left = true,
                '0' => spec.zero = true,
                '+' => spec.plus = true,
                ' ' => spec.space = true,
                '#' => spec.alternate = true,
                _ => break,
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        let width;
        (width, rest) = self.number(rest);
        spec.left |= width < 0;
        spec.width = (width.unsigned_abs() as usize).min(WIDTH);
        if let Some(tail) = rest.strip_prefix('.') {
            let precision;
            (precision, rest) = self.number(tail);
            spec.precision = usize::try_from(precision).ok().map(|p| p.min(WIDTH));
        }
        rest = rest.trim_start_matches(['l', 'h', 'z', 'j', 't', 'q']);
        let Some(kind) = rest.chars().next() else {
            self.out.wrong.push("a format ends with %".to_string());
            return rest;
        };
        self.convert(kind, spec);
        rest.get(kind.len_utf8()..).unwrap_or_default()
    }

    /// Parses digits or `*`. Returns the rest of the text.
    fn number<'f>(&mut self, text: &'f str) -> (i64, &'f str) {
        if let Some(rest) = text.strip_prefix('*') {
            let value = self.next().unwrap_or_default();
            return (self.integer(&value).clamp(-4096, 4096), rest);
        }
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        (digits.parse().unwrap_or(if digits.is_empty() { 0 } else { WIDTH as i64 }), rest)
    }

    fn convert(&mut self, kind: char, spec: Spec) {
        match kind {
            's' => {
                let value = self.next().unwrap_or_default();
                self.text(&value, spec);
            }
            'b' => {
                let escaped = unescape(&self.next().unwrap_or_default(), Kind::Echo);
                self.pad(&escaped.bytes, escaped.bytes.len(), spec);
                self.ends = escaped.ends;
            }
            'c' => {
                let value = self.next().unwrap_or_default();
                let first: String = value.chars().take(1).collect();
                self.text(&first, spec);
            }
            'd' | 'i' => {
                let value = self.value();
                let sign = sign(value < 0, spec);
                self.padded_number(sign, value.unsigned_abs().to_string(), spec);
            }
            'u' | 'o' | 'x' | 'X' => {
                let value = self.value() as u64;
                let digits = match kind {
                    'u' => value.to_string(),
                    'o' => format!("{value:o}"),
                    'x' => format!("{value:x}"),
                    _ => format!("{value:X}"),
                };
                let prefix = match kind {
                    'x' if spec.alternate && value != 0 => "0x",
                    'X' if spec.alternate && value != 0 => "0X",
                    'o' if spec.alternate && value != 0 => "0",
                    _ => "",
                };
                self.padded_number(prefix, digits, spec);
            }
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => self.float(kind, spec),
            other => self.out.wrong.push(format!("%{other}: unknown conversion")),
        }
    }

    fn float(&mut self, kind: char, spec: Spec) {
        let text = self.next().unwrap_or_default();
        let value: f64 = match text.trim().parse() {
            Ok(value) => value,
            Err(_) if text.is_empty() => 0.0,
            Err(_) => self.integer(&text) as f64,
        };
        let digits = float(value.abs(), kind, spec.precision.unwrap_or(6), spec.alternate);
        let spec = Spec { precision: None, zero: spec.zero && value.is_finite(), ..spec };
        self.padded_number(sign(value.is_sign_negative(), spec), digits, spec);
    }

    fn text(&mut self, text: &str, spec: Spec) {
        let cut: String = text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect();
        self.pad(cut.as_bytes(), cut.chars().count(), spec);
    }

    fn pad(&mut self, bytes: &[u8], width: usize, spec: Spec) {
        let blanks = vec![b' '; spec.width.saturating_sub(width)];
        if spec.left {
            self.out.bytes.extend_from_slice(bytes);
            self.out.bytes.extend(blanks);
        } else {
            self.out.bytes.extend(blanks);
            self.out.bytes.extend_from_slice(bytes);
        }
    }

    fn padded_number(&mut self, sign: &str, mut digits: String, spec: Spec) {
        let mut least = spec.precision.unwrap_or(0);
        if spec.zero && !spec.left && spec.precision.is_none() {
            least = spec.width.saturating_sub(sign.len());
        }
        if digits.len() < least {
            digits = "0".repeat(least - digits.len()) + &digits;
        }
        let text = format!("{sign}{digits}");
        self.pad(text.as_bytes(), text.len(), spec);
    }

    fn value(&mut self) -> i64 {
        match self.next() {
            Some(text) => self.integer(&text),
            None => 0,
        }
    }

    /// Parses a decimal, octal or hexadecimal number, or returns the code of the character after a
    /// quote.
    fn integer(&mut self, text: &str) -> i64 {
        let trimmed = text.trim();
        if let Some(quoted) = trimmed.strip_prefix(['\'', '"']) {
            return quoted.chars().next().map_or(0, |c| i64::from(u32::from(c)));
        }
        let (negative, digits) = match trimmed.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
        };
        let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        let parsed = match hexadecimal {
            Some(digits) => u64::from_str_radix(digits, 16),
            None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
            None => digits.parse(),
        };
        match parsed {
            Ok(value) if negative => (value as i64).wrapping_neg(),
            Ok(value) => value as i64,
            Err(_) => {
                if !text.is_empty() {
                    self.out.wrong.push(format!("{text}: not a number"));
                }
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                let value: i64 = digits.get(..end).unwrap_or_default().parse().unwrap_or(0);
                if negative { -value } else { value }
            }
        }
    }
}

fn sign(negative: bool, spec: Spec) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    }
}

/// Formats a non-negative number.
fn float(value: f64, kind: char, precision: usize, alternate: bool) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan" } else { "inf" }.to_string();
    }
    match kind {
        'f' | 'F' => format!("{value:.precision$}"),
        'e' | 'E' => exponent(value, precision, kind),
        _ => {
            let precision = precision.max(1);
            let shown = format!("{value:.*e}", precision - 1);
            let power: i64 = shown.split_once('e').and_then(|(_, p)| p.parse().ok()).unwrap_or(0);
            let text = if power < -4 || power >= precision as i64 {
                exponent(value, precision - 1, if kind == 'g' { 'e' } else { 'E' })
            } else {
                let decimals = usize::try_from(precision as i64 - 1 - power).unwrap_or(0);
                format!("{value:.decimals$}")
            };
            if alternate { text } else { trimmed(&text) }
        }
    }
}

/// `1.5e+03`
fn exponent(value: f64, precision: usize, kind: char) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}{kind}{sign}{:02}", power.abs())
}

/// Removes trailing zeroes after the decimal point.
fn trimmed(text: &str) -> String {
    let (digits, power) = match text.find(['e', 'E']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits}{power}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, values: &[&str]) -> String {
        let values: Vec<String> = values.iter().map(|v| v.to_string()).collect();
        String::from_utf8_lossy(&format(text, &values).bytes).into_owned()
    }

    #[test]
    fn formats() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("%s\\n", &["a", "b"], "a\nb\n"),
            ("%d", &["42"], "42"),
            ("%5d|", &["42"], "   42|"),
            ("%-5d|", &["42"], "42   |"),
            ("%05d", &["42"], "00042"),
            ("%+d", &["5"], "+5"),
            ("%x %X %o", &["255", "255", "8"], "ff FF 10"),
            ("%#x", &["255"], "0xff"),
            ("%.3s", &["abcdef"], "abc"),
            ("%5s|", &["ab"], "   ab|"),
            ("%-5s|", &["ab"], "ab   |"),
            ("%c%c", &["xyz", "abc"], "xa"),
            ("%%", &[], "%"),
            ("%b", &["a\\tb"], "a\tb"),
            ("%d", &["0x10"], "16"),
            ("%d", &["010"], "8"),
            ("%d", &["'A"], "65"),
            ("%s", &[], ""),
            ("%d", &[], "0"),
            ("%*d", &["5", "42"], "   42"),
            ("%.2f", &["3.14159"], "3.14"),
            ("%e", &["12345.678"], "1.234568e+04"),
            ("%g", &["0.0001"], "0.0001"),
            ("%g", &["1000000"], "1e+06"),
            ("%g", &["100000"], "100000"),
            ("%6.2f|", &["2"], "  2.00|"),
            ("%i", &["-7"], "-7"),
            ("%u", &["-1"], "18446744073709551615"),
            ("%.3d", &["5"], "005"),
            ("a\\nb", &[], "a\nb"),
            ("%s-%s ", &["1", "2", "3"], "1-2 3- "),
            ("%05d", &["-42"], "-0042"),
            ("%b%s", &["x\\cy", "z"], "x"),
            ("%s", &["%d"], "%d"),
        ];
        for (format, values, expected) in cases {
            assert_eq!(shown(format, values), *expected, "{format} {values:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_does_no_harm() {
        for (text, value) in [("%d", "x"), ("%q", "1"), ("%", "1"), ("%d", "5x"), ("%z", "")] {
            assert!(!format(text, &[value.to_string()]).wrong.is_empty(), "{text}");
        }
        assert_eq!(shown("%d", &["5x"]), "5");
        assert_eq!(shown("%9999999999999s", &["x"]).len(), WIDTH);
        assert_eq!(shown("%d", &["-9223372036854775808"]), i64::MIN.to_string());
    }
}
