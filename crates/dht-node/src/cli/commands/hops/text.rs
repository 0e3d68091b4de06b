//! Measured rows for people: bars first, in eighty columns, then every figure.

use crate::cli::hop_report::{off, show_error, show_off};
use crate::cli::json::HopRowJson;
use crate::cli::output::{Output, table_text};

/// The rows as two tables. The same on a terminal and in a pipe.
pub(in crate::cli::commands) fn rows_for_people(rows: &[HopRowJson], output: Output) -> String {
    format!("{}\n{}{}", bars(rows, output), figures(rows, output), upkeep(rows))
}

/// What each row costs: hops as bars, against entries held.
fn bars(rows: &[HopRowJson], output: Output) -> String {
    let mut table = output.table(&["routing", ">depth", ">mean", ">here", ">state", ""]);
    let most = rows.iter().filter_map(|row| row.mean).fold(0.0, f64::max);
    for row in rows {
        table.add_row([
            row.routing.to_owned(),
            depth(row),
            mean(row),
            number(row.expected_here),
            row.state.map_or("-".to_owned(), |state| format!("{state:.1}")),
            row.mean.map_or(String::new(), |mean| bar(mean, most)),
        ]);
    }
    table_text(&table)
}

fn depth(row: &HopRowJson) -> String {
    row.depth.map_or("-".to_owned(), |depth| depth.to_string())
}

/// A bar as long as the mean is beside the greatest one. One that is not zero shows.
fn bar(mean: f64, most: f64) -> String {
    if mean <= 0.0 || most <= 0.0 {
        return String::new();
    }
    let length = (mean / most * BAR as f64).round() as usize;
    "#".repeat(length.clamp(1, BAR))
}

fn figures(rows: &[HopRowJson], output: Output) -> String {
    let mut table = output.table(&[
        "routing",
        ">depth",
        ">mean",
        ">stderr",
        ">expected",
        ">here",
        ">off",
        ">stddev",
        ">p50",
        ">p90",
        ">p99",
        ">max",
        ">timeouts",
        ">failed",
        ">chi2 p",
        ">growth",
    ]);
    let whole = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    for row in rows {
        table.add_row([
            row.routing.to_owned(),
            depth(row),
            mean(row),
            show_error(row.stderr),
            number(row.expected),
            number(row.expected_here),
            show_off(off(row.mean, row.expected_here)),
            number(row.stddev),
            whole(row.p50),
            whole(row.p90),
            whole(row.p99),
            whole(row.max),
            row.timeouts.to_string(),
            row.failed.to_string(),
            number(row.chi_square_p),
            row.growth.to_owned(),
        ]);
    }
    table_text(&table)
}

/// What upkeep takes: it differs by routing, not by depth.
fn upkeep(rows: &[HopRowJson]) -> String {
    let mut told: Vec<(&str, f64)> = Vec::new();
    for row in rows {
        if let Some(rate) = row.upkeep_bytes_per_s
            && !told.iter().any(|(routing, _)| *routing == row.routing)
        {
            told.push((row.routing, rate));
        }
    }
    if told.is_empty() {
        return String::new();
    }
    let each: Vec<String> =
        told.iter().map(|(routing, rate)| format!("{routing} {rate:.0}")).collect();
    format!("\nupkeep, bytes/s that a member sent meanwhile: {}\n", each.join(", "))
}

fn mean(row: &HopRowJson) -> String {
    if row.available { number(row.mean) } else { "not kept".to_owned() }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.3}"))
}

/// Longest bar: with the columns before it, it fits a terminal of 80.
const BAR: usize = 26;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(routing: &'static str, depth: u16, mean: Option<f64>) -> HopRowJson {
        HopRowJson {
            routing,
            depth: Some(depth),
            mean,
            stderr: mean.map(|_| 0.01),
            stddev: mean.map(|mean| mean / 2.0),
            p50: Some(1),
            p90: Some(2),
            p99: Some(3),
            max: Some(4),
            expected: Some(1.0),
            expected_here: Some(1.5),
            growth: "O(log N)",
            failed: 5,
            timeouts: 6,
            available: mean.is_some(),
            chi_square_p: None,
            histogram: vec![1],
            state: mean.map(|_| 16.0),
            upkeep_bytes_per_s: mean.map(|_| 120.4),
        }
    }

    #[test]
    fn bars_are_as_long_as_the_means_and_fit_eighty_columns() {
        let rows = [
            row("successors", 1, Some(1234.5)),
            row("both-ways", 16, Some(617.25)),
            row("fingers", 16, Some(0.1)),
            row("full", 1, None),
        ];
        let text = rows_for_people(&rows, Output::bare(false));
        let (first, rest) = text.split_once("\n\n").expect("two tables");
        assert!(first.lines().all(|line| line.len() <= 80), "{first}");
        let bars: Vec<usize> =
            first.lines().skip(2).map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [26, 13, 1, 0], "{first}");
        assert!(first.lines().last().is_some_and(|line| line.contains("not kept")), "{first}");
        let heading = rest.lines().next().expect("a heading");
        let columns: Vec<&str> = heading.split_whitespace().collect();
        for name in ["mean", "stddev", "p50", "p90", "p99", "max", "expected", "here", "growth"] {
            assert!(columns.contains(&name), "{name}: {heading}");
        }
        assert!(columns.contains(&"timeouts") && columns.contains(&"failed"), "{heading}");
        let last = text.lines().last().unwrap_or_default();
        assert!(last.ends_with("successors 120, both-ways 120, fingers 120"), "{last}");
    }

    #[test]
    fn a_ring_of_one_has_no_bars() {
        let text = bars(&[row("successors", 1, Some(0.0))], Output::bare(false));
        assert!(!text.contains('#') && text.contains("0.000"), "{text}");
    }
}
