//! Formats numbers for people: grouped digits, times and energies in suitable units.

/// Formats a number without rounding, with thin spaces between groups of three digits.
pub fn full(value: f64) -> String {
    let text = value.to_string();
    let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.len() < 5 || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return text;
    }
    format!("{sign}{}{rest}", thousands(whole))
}

/// Formats a count.
pub fn count(value: u64) -> String {
    full_integer(&value.to_string())
}

fn full_integer(digits: &str) -> String {
    if digits.len() < 5 { digits.to_string() } else { thousands(digits) }
}

fn thousands(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with three or four significant digits.
pub fn short(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.001 => 4,
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => full(text.parse().unwrap_or(value)),
    }
}

/// A unit's name, and its size in the smallest unit.
pub type Unit = (f64, &'static str);

const TIMES: [Unit; 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "\u{b5}s"), (1.0, "ns")];
const ENERGIES: [Unit; 4] = [(1e6, "J"), (1e3, "mJ"), (1.0, "\u{b5}J"), (1e-3, "nJ")];

fn fitting(units: [Unit; 4], value: f64) -> Unit {
    units.into_iter().find(|(size, _)| value >= *size).unwrap_or(units[3])
}

/// Returns a suitable unit for a time in nanoseconds.
pub fn time_unit(ns: f64) -> Unit {
    fitting(TIMES, ns)
}

/// Formats a time.
pub fn time(ns: u64) -> String {
    let (size, unit) = time_unit(ns as f64);
    format!("{} {unit}", short(ns as f64 / size))
}

/// Formats an energy.
pub fn energy(uj: f64) -> String {
    if uj == 0.0 {
        return "0".to_string();
    }
    let (size, unit) = fitting(ENERGIES, uj);
    format!("{} {unit}", short(uj / size))
}

/// Formats a number of bytes.
pub fn bytes(value: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
    let (size, unit) = fitting(units, value as f64);
    format!("{} {unit}", short(value as f64 / size))
}

/// Formats a share in percent.
pub fn share(part: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return "\u{2013}".to_string();
    }
    let percent = part / whole * 100.0;
    match percent {
        p if p > 0.0 && p < 0.01 => "< 0.01 %".to_string(),
        p if p < 10.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_numbers_lose_nothing() {
        assert_eq!(full(5504.0), "5504");
        assert_eq!(full(941e6), "941\u{2009}000\u{2009}000");
        assert_eq!(full(-12345.625), "-12\u{2009}345.625");
        assert_eq!(full(0.1), "0.1");
        assert_eq!(full(1e-7), "0.0000001");
        assert_eq!(count(12), "12");
        assert_eq!(count(u64::MAX).replace('\u{2009}', ""), u64::MAX.to_string());
    }

    #[test]
    fn short_numbers_fit() {
        assert_eq!(short(79.84), "79.8");
        assert_eq!(short(1.5), "1.5");
        assert_eq!(short(672.4), "672");
        assert_eq!(short(0.0), "0");
        assert_eq!(time(5504), "5.5 \u{b5}s");
        assert_eq!(time(0), "0 ns");
        assert_eq!(time(2_000_000_000), "2 s");
        assert_eq!(energy(0.0123), "12.3 nJ");
        assert_eq!(energy(4_500_000.0), "4.5 J");
        assert_eq!(share(1.0, 3.0), "33.3 %");
        assert_eq!(share(1.0, 1e9), "< 0.01 %");
        assert_eq!(share(1.0, 0.0), "\u{2013}");
    }
}
