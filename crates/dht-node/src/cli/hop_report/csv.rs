//! The table of numbers: RFC 4180, one line for each row, under names that stay.

use super::{HopRecord, off};

/// The names of the columns (`docs/json.md`, "Hops as CSV"). New ones come at the end.
const COLUMNS: [&str; 24] = [
    "nodes",
    "routing",
    "depth",
    "samples",
    "rings",
    "seed",
    "mean",
    "stderr",
    "stddev",
    "p50",
    "p90",
    "p99",
    "max",
    "expected",
    "expected_here",
    "off",
    "off_here",
    "growth",
    "failed",
    "timeouts",
    "available",
    "chi_square_p",
    "state",
    "upkeep_bytes_per_s",
];

/// The whole file.
pub(super) fn text(records: &[HopRecord<'_>]) -> String {
    let mut text = line(COLUMNS.map(str::to_owned));
    for record in records {
        text.push_str(&line(cells(record)));
    }
    text
}

/// What is not known is an empty field.
fn cells(record: &HopRecord<'_>) -> [String; COLUMNS.len()] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let whole = |value: Option<u32>| value.map_or_else(String::new, |value| value.to_string());
    [
        record.nodes.to_string(),
        record.routing.to_owned(),
        whole(record.depth.map(u32::from)),
        record.samples.to_string(),
        whole(record.rings),
        record.seed.to_string(),
        number(record.mean),
        number(record.stderr),
        number(record.stddev),
        whole(record.p50),
        whole(record.p90),
        whole(record.p99),
        whole(record.max),
        number(record.expected),
        number(record.expected_here),
        number(off(record.mean, record.expected)),
        number(off(record.mean, record.expected_here)),
        record.growth.to_owned(),
        record.failed.to_string(),
        record.timeouts.to_string(),
        record.available.to_string(),
        number(record.chi_square_p),
        number(record.state),
        number(record.upkeep_bytes_per_s),
    ]
}

/// One record (RFC 4180, section 2): commas between fields, CRLF at the end.
fn line<const FIELDS: usize>(fields: [String; FIELDS]) -> String {
    let mut line = fields.map(|field| quoted(&field)).join(",");
    line.push_str("\r\n");
    line
}

/// A field that holds a comma, a quote or an end of line stands in quotes, its own ones doubled.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::simulated;
    use super::*;

    #[test]
    fn there_is_a_line_for_every_size_and_row() {
        let report = simulated(&[1, 16]);
        let text = text(&HopRecord::of_simulation(&report));
        assert!(text.ends_with("\r\n") && text.matches('\r').count() == text.matches('\n').count());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 1 + 4);
        assert!(lines.iter().all(|fields| fields.len() == COLUMNS.len()), "{text}");
        assert_eq!(lines[0], COLUMNS);
        assert_eq!(lines[4][..6], ["16", "successors", "4", "200", "1", "9"]);
        let mean: f64 = lines[3][6].parse().expect("a number");
        assert_eq!(Some(mean), report.sizes[1].routings[0].mean, "every digit is there");
        assert_eq!(lines[1][15], "", "off from nothing");
    }

    #[test]
    fn fields_that_would_break_a_line_are_quoted() {
        assert_eq!(
            line(["a,b", "say \"x\"", "c\nd"].map(str::to_owned)),
            "\"a,b\",\"say \"\"x\"\"\",\"c\nd\"\r\n"
        );
    }

    #[test]
    fn the_columns_are_documented() {
        let doc = include_str!("../../../../../docs/json.md");
        let (_, section) = doc.split_once("\n## Hops as CSV").expect("a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        for column in COLUMNS {
            assert!(
                section.contains(&format!("`{column}`")),
                "docs/json.md does not name {column}"
            );
        }
    }
}
