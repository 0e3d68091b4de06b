//! Histograms of hops for people: measured bars, and a stroke where the formula puts their end.

use crate::cli::json::HopCountsJson;
use crate::cli::output::{Output, table_text};

/// A histogram with its mean, beside what is expected. Nothing if nothing was counted.
pub(super) fn histogram(title: &str, hops: &HopCountsJson, output: Output) -> String {
    let Some(mean) = hops.mean else { return String::new() };
    let expected = hops
        .expected
        .map_or(String::new(), |mean| format!(", {mean:.2} expected now, for askers drawn evenly"));
    let rows = rows(hops);
    let most =
        rows.iter().map(|row| row.share.max(row.expected.unwrap_or(0.0))).fold(0.0, f64::max);
    let mut table = output.table(&[">hops", ">lookups", ">share", ">expected", ""]);
    for row in rows {
        let name = match row.first == row.last {
            true => row.first.to_string(),
            false => format!("{}-{}", row.first, row.last),
        };
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        table.add_row([
            name,
            row.lookups.to_string(),
            percent(row.share),
            row.expected.map_or("-".to_owned(), percent),
            bar(row.share, row.expected, most),
        ]);
    }
    format!("\n{title}: mean {mean:.2}{expected}\n{}", table_text(&table))
}

/// One line: lookups of `first` to `last` hops.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Bin {
    first: usize,
    last: usize,
    lookups: u64,
    share: f64,
    expected: Option<f64>,
}

/// Several values in one line where there are many, over all that was measured or is expected.
fn rows(hops: &HopCountsJson) -> Vec<Bin> {
    let expected = hops.expected_shares.as_deref();
    let values = hops.histogram.len().max(expected.map_or(0, <[f64]>::len));
    let width = values.div_ceil(MOST_LINES).max(1);
    let total = hops.histogram.iter().sum::<u64>().max(1) as f64;
    let bin = |first: usize| {
        let last = (first + width).min(values) - 1;
        let within = |len: usize| first.min(len)..(last + 1).min(len);
        let lookups = hops.histogram[within(hops.histogram.len())].iter().sum();
        let expected =
            expected.map(|shares| shares[within(shares.len())].iter().fold(0.0, |a, b| a + b));
        Bin { first, last, lookups, share: lookups as f64 / total, expected }
    };
    (0..values).step_by(width).map(bin).collect()
}

/// A bar with a stroke where it should end.
fn bar(share: f64, expected: Option<f64>, most: f64) -> String {
    let length = |share: f64| (share / most.max(f64::MIN_POSITIVE) * BAR as f64).round() as usize;
    let measured = length(share);
    let stroke = expected.filter(|share| *share > 0.0).map(length);
    let sign = |at: usize| match stroke == Some(at) {
        true => '|',
        false if at < measured => '#',
        false => ' ',
    };
    (0..measured.max(stroke.map_or(0, |stroke| stroke + 1))).map(sign).collect()
}

/// Longest bar of a histogram, in characters.
const BAR: usize = 40;
/// So many lines at most, so that one histogram fits a terminal.
const MOST_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(histogram: &[u64], expected: Option<Vec<f64>>) -> HopCountsJson {
        HopCountsJson {
            mean: Some(1.0),
            p50: None,
            p90: None,
            p99: None,
            max: None,
            histogram: histogram.to_vec(),
            expected: Some(1.0),
            expected_shares: expected,
        }
    }

    #[test]
    fn measured_bars_stand_beside_what_is_expected() {
        let hops = counts(&[25, 75], Some(vec![0.5, 0.5, 0.0]));
        let text = histogram("hops", &hops, Output::bare(false));
        assert!(text.starts_with("\nhops: mean 1.00, 1.00 expected now"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[4].ends_with("25.0 %     50.0 %   #############              |"), "{text}");
        assert!(lines[5].ends_with(&format!("{}|{}", "#".repeat(27), "#".repeat(12))), "{text}");
        assert!(lines[6].contains("0.0 %") && !lines[6].contains(['|', '#']), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn many_values_share_lines_and_lose_nothing() {
        let hops = counts(&vec![3; 1000], Some(vec![0.001; 1000]));
        let rows = rows(&hops);
        assert_eq!((rows.len(), rows[0].first, rows[0].last), (20, 0, 49));
        assert_eq!(rows.iter().map(|row| row.lookups).sum::<u64>(), 3000);
        assert_eq!(rows[19].last, 999);
        let expected: f64 = rows.iter().filter_map(|row| row.expected).sum();
        assert!((expected - 1.0).abs() < 1e-9);
    }

    #[test]
    fn where_no_distribution_is_known_there_is_no_stroke() {
        let text = histogram("hops", &counts(&[1, 3], None), Output::bare(false));
        assert!(!text.contains('|') && text.contains(&"#".repeat(40)), "{text}");
        let none = HopCountsJson { mean: None, ..counts(&[], None) };
        assert_eq!(histogram("hops", &none, Output::bare(false)), "");
        // More was expected than was ever seen.
        let short = counts(&[4], Some(vec![0.1; 10]));
        assert_eq!(rows(&short).len(), 10);
    }
}
