//! Numbers with units, as people write and read them.

use std::time::Duration;

/// A text that is no number with a unit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum UnitError {
    /// No digits, or something that is no digit.
    #[error("'{text}' does not begin with a number")]
    NoNumber {
        /// The text.
        text: String,
    },
    /// No unit, or one that is not known.
    #[error("'{text}' does not end in one of the units {units}")]
    BadUnit {
        /// The text.
        text: String,
        /// Those that are known.
        units: &'static str,
    },
    /// More than can be counted.
    #[error("'{text}' is too much")]
    TooMuch {
        /// The text.
        text: String,
    },
}

/// Reads a duration: `500ms`, `30s`, `5m`, `1.5h`, `2d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const UNITS: &str = "us, ms, s, m, h, d";
    let (number, unit) = split(text)?;
    let micros: f64 = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        "d" => 86_400e6,
        _ => return Err(UnitError::BadUnit { text: text.to_owned(), units: UNITS }),
    };
    let total = number * micros;
    // 2^53 microseconds are 285 years: beyond, floating point begins to round.
    if total > 9.0e15 {
        return Err(UnitError::TooMuch { text: text.to_owned() });
    }
    Ok(Duration::from_micros(total.round() as u64))
}

/// Reads a size in bytes: `4096`, `64KiB`, `1MiB`, `10MB`. A letter alone is a power of 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    const UNITS: &str = "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB";
    let (number, unit) = split(text)?;
    let factor: f64 = match unit {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "K" | "k" | "KiB" => 1024.0,
        "M" | "MiB" => 1024.0 * 1024.0,
        "G" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        "T" | "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(UnitError::BadUnit { text: text.to_owned(), units: UNITS }),
    };
    let total = number * factor;
    if total > 9.0e15 {
        return Err(UnitError::TooMuch { text: text.to_owned() });
    }
    Ok(total.round() as u64)
}

/// A size for people: three digits and a unit.
pub(crate) fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let decimals = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {unit}")
}

/// A time in microseconds for people.
pub(crate) fn show_micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.2} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

/// A number of things, in words: `1 chunk`, `2 chunks`, `2 copies`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let stem = thing.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match (number, stem) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {thing}s"),
    }
}

/// An estimated number of nodes, in words: `about 1 node`, `about 3 nodes`.
pub(crate) fn about_nodes(estimate: f64) -> String {
    // The cast saturates, and makes 0 of what is no number.
    format!("about {}", count(estimate.round() as u64, "node"))
}

fn split(text: &str) -> Result<(f64, &str), UnitError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    match number.parse::<f64>() {
        Ok(number) => Ok((number, unit)),
        Err(_) => Err(UnitError::NoNumber { text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_the_contract() {
        let table = [
            ("500ms", 500_000),
            ("30s", 30_000_000),
            ("5m", 300_000_000),
            ("1.5h", 5_400_000_000),
            ("2d", 172_800_000_000),
            ("0s", 0),
            ("7us", 7),
        ];
        for (text, micros) in table {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "s", "30", "30x", "-5s", "1..5s", "5 s", "ms", ".", "inf"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
        let huge = parse_duration("99999999999999999999d");
        assert!(matches!(huge, Err(UnitError::TooMuch { .. })), "{huge:?}");
    }

    #[test]
    fn sizes() {
        let table = [
            ("4096", 4096),
            ("65536B", 65536),
            ("64KiB", 65536),
            ("64K", 65536),
            ("1MiB", 1 << 20),
            ("1.5M", 3 << 19),
            ("10MB", 10_000_000),
            ("2G", 2 << 30),
        ];
        for (text, bytes) in table {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "5XB", "-1", "1e400"] {
            assert!(parse_bytes(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn shown_for_people() {
        let sizes = [0, 1023, 1024, 1536, 10 << 20, 100 << 30, u64::MAX].map(show_bytes);
        assert_eq!(
            sizes,
            ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "10.0 MiB", "100 GiB", "16.0 EiB"]
        );
        let times = [7, 1_500, 2_340_000].map(show_micros);
        assert_eq!(times, ["7 us", "1.50 ms", "2.34 s"]);
        assert_eq!([0, 1, 2].map(|n| count(n, "hop")), ["0 hops", "1 hop", "2 hops"]);
        assert_eq!([1, 2].map(|n| count(n, "copy")), ["1 copy", "2 copies"]);
        assert_eq!([1, 2].map(|n| count(n, "key")), ["1 key", "2 keys"]);
        assert_eq!([1.2, 2.6].map(about_nodes), ["about 1 node", "about 3 nodes"]);
    }
}
