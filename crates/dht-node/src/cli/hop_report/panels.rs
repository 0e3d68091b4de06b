//! The picture of one ring that was measured: where it lies among the formulas, and how its hops are
//! distributed.

use std::collections::BTreeSet;

use dht_core::message::ring::Routing;
use dht_core::theory;

use super::HopRecord;
use super::chart::{mean_point, measured_on, rounded, routing};
use crate::cli::plot::{
    Axis, Bars, Cell, Chart, Look, Panels, Point, Row, Scale, Series, Unit, with_commas,
};
use crate::cli::units::count;

/// The picture of these rows, all of one ring.
pub(super) fn of(records: &[HopRecord<'_>]) -> Panels {
    let main = formulas(records);
    Panels {
        title: "What a lookup costs, by routing".to_owned(),
        subtitle: measured_on(records),
        description: format!("{} {}", main.description, distributions_told(records)),
        main,
        heading: "(b) share of the lookups by their hops, from none to the most; means on top"
            .to_owned(),
        caption:
            "bars: measured, each chart on its own scale; strokes: the formula, where there is one"
                .to_owned(),
        rows: rows(records),
    }
}

/// Every formula over the sizes of rings, and the means that were measured at the size of this one.
fn formulas(records: &[HopRecord<'_>]) -> Chart {
    let nodes = records.first().map_or(1, |record| record.nodes);
    let sizes = line_sizes(nodes as u64);
    let series: Vec<Series> = names(records)
        .into_iter()
        .map(|(routing, depth)| {
            let measured = records.iter().find(|record| is_of(record, routing, depth));
            let points: Vec<Point> = measured.and_then(mean_point).into_iter().collect();
            let line = sizes.iter().filter_map(|nodes| {
                let mean = theory::near_mean(routing, *nodes, depth.unwrap_or(1))?;
                (mean > 0.0).then_some((*nodes as f64, mean))
            });
            let name = match depth {
                Some(depth) => format!("{}, depth {depth}", routing.as_str()),
                None => routing.as_str().to_owned(),
            };
            let look = Some(look(records, routing, depth));
            Series { name, points, line: line.collect(), look }
        })
        .collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let lines = || series.iter().flat_map(|series| &series.line);
    let ends = points().flat_map(|point| [point.y, point.y + point.error]);
    let y = Axis::new("mean hops", Scale::Log, Unit::Number, ends.chain(lines().map(|(_, y)| *y)));
    let widths = sizes.iter().map(|nodes| *nodes as f64);
    let x = Axis::new("nodes", Scale::Log, Unit::Number, widths);
    let told: Vec<&str> = points().map(|point| point.label.as_str()).collect();
    Chart {
        title: "(a) mean hops against the size of the ring".to_owned(),
        subtitle: String::new(),
        caption:
            "lines: the formulas; marks: measured on this ring, with two standard errors up and \
                  down; both axes are logarithmic"
                .to_owned(),
        description: format!("Formulas, and means measured on one ring: {}.", told.join("; ")),
        x,
        y,
        guide: (nodes > 1)
            .then(|| (nodes as f64, format!("this ring: {}", count(nodes as u64, "node")))),
        series,
    }
}

/// Routings and depths in the order of the legend: those of the rows, and the full map, which needs no
/// row to have a formula.
fn names(records: &[HopRecord<'_>]) -> Vec<(Routing, Option<u16>)> {
    let rows = records.iter().filter_map(|record| Some((routing(record)?, record.depth)));
    let mut names: Vec<(Routing, Option<u16>)> = rows.collect();
    if !names.iter().any(|(routing, _)| *routing == Routing::Full) {
        names.push((Routing::Full, None));
    }
    names
}

/// A colour and a kind of line for each routing, a marker for each depth.
fn look(records: &[HopRecord<'_>], routing: Routing, depth: Option<u16>) -> Look {
    let depths = depths(records);
    let marker = depth.and_then(|depth| depths.iter().position(|held| *held == depth));
    let color = color(routing);
    Look { color, marker: marker.unwrap_or(depths.len()), dash: color }
}

fn color(routing: Routing) -> usize {
    Routing::ALL.iter().position(|held| *held == routing).unwrap_or(0)
}

fn depths(records: &[HopRecord<'_>]) -> Vec<u16> {
    let depths: BTreeSet<u16> = records.iter().filter_map(|record| record.depth).collect();
    depths.into_iter().collect()
}

fn is_of(record: &HopRecord<'_>, of: Routing, depth: Option<u16>) -> bool {
    routing(record) == Some(of) && record.depth == depth
}

/// Sizes at equal ratios, and that of the ring.
fn line_sizes(nodes: u64) -> BTreeSet<u64> {
    let (low, high) = (FEWEST_NODES.min(nodes.max(2)), MOST_NODES.max(nodes.saturating_mul(2)));
    let ratio = high as f64 / low as f64;
    let at = |n: u32| low as f64 * ratio.powf(f64::from(n) / f64::from(LINE_SIZES));
    let all = (0..=LINE_SIZES).map(|n| at(n).round() as u64);
    all.chain([nodes.max(low)]).collect()
}

/// A row for each routing, a column for each depth.
fn rows(records: &[HopRecord<'_>]) -> Vec<Row> {
    let depths = depths(records);
    let mut rows: Vec<Row> = Vec::new();
    for record in records {
        let Some(routing) = routing(record) else { continue };
        if rows.last().is_none_or(|row| row.name != record.routing) {
            let cells = vec![None; depths.len().max(1)];
            rows.push(Row { name: record.routing.to_owned(), color: color(routing), cells });
        }
        let column = depths.iter().position(|depth| Some(*depth) == record.depth).unwrap_or(0);
        if let Some(row) = rows.last_mut() {
            row.cells[column] = Some(cell(record));
        }
    }
    rows
}

fn cell(record: &HopRecord<'_>) -> Cell {
    let depth = record.depth.map(|depth| format!("depth {depth}"));
    let mean = record.mean.map(|mean| format!("{mean:.2}"));
    let title = match (depth, mean) {
        (Some(depth), Some(mean)) => format!("{depth}: {mean}"),
        (Some(depth), None) => depth,
        (None, mean) => mean.unwrap_or_default(),
    };
    let bars = match record.histogram.iter().any(|count| *count > 0) {
        true => Ok(bars(record)),
        false if record.available => Err("nothing found".to_owned()),
        false => Err("not kept".to_owned()),
    };
    Cell { title, bars }
}

/// Measured shares, several values in one bar where there are many.
fn bars(record: &HopRecord<'_>) -> Bars {
    let total: u64 = record.histogram.iter().sum();
    let expected = expected_shares(record, record.histogram.len());
    let values = record.histogram.len().max(expected.len());
    let width = values.div_ceil(MOST_BARS).max(1);
    let shares: Vec<f64> =
        record.histogram.iter().map(|count| *count as f64 / total.max(1) as f64).collect();
    let binned = |shares: &[f64]| shares.chunks(width).map(|bin| bin.iter().sum()).collect();
    let last = with_commas(values.saturating_sub(1) as f64);
    Bars { measured: binned(&shares), expected: binned(&expected), ends: ("0".to_owned(), last) }
}

/// The same by formula; nothing for a routing whose distribution has none.
fn expected_shares(record: &HopRecord<'_>, seen: usize) -> Vec<f64> {
    let (Some(Routing::Successors), Some(depth)) = (routing(record), record.depth) else {
        return Vec::new();
    };
    let nodes = record.nodes as u64;
    let most = nodes.saturating_sub(1).div_ceil(u64::from(depth.max(1))) as usize;
    (0..=most.max(seen.saturating_sub(1)))
        .map(|hops| theory::successors_probability(nodes, depth, hops as u64))
        .collect()
}

fn distributions_told(records: &[HopRecord<'_>]) -> String {
    let measured = records.iter().filter(|record| record.mean.is_some());
    let told = measured.map(|record| {
        let whole = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
        let mean = with_commas(rounded(record.mean.unwrap_or_default()));
        let (p50, p99, max) = (whole(record.p50), whole(record.p99), whole(record.max));
        format!("{}: mean {mean}, median {p50}, 99 of 100 within {p99}, most {max}", record.name())
    });
    format!("Distributions: {}.", told.collect::<Vec<_>>().join("; "))
}

/// Sizes of rings that the lines reach to, at least: from what one can draw on a board to where a walk
/// along one successor takes thousands of hops (guess).
const FEWEST_NODES: u64 = 4;
const MOST_NODES: u64 = 10_000;
/// Sizes between which the formulas are drawn (guess: straight lines between them look curved).
const LINE_SIZES: u32 = 80;
/// Most bars of one chart, so that one is a few pixels wide (guess).
const MOST_BARS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plot::tests::well_formed;

    const EVEN: [u64; 16] = [10; 16];

    fn record<'a>(
        routing: &'static str,
        depth: Option<u16>,
        histogram: &'a [u64],
    ) -> HopRecord<'a> {
        let is_measured = !histogram.is_empty();
        HopRecord {
            nodes: 16,
            samples: 160,
            rings: None,
            seed: 7,
            routing,
            depth,
            mean: is_measured.then_some(7.5),
            stderr: is_measured.then_some(0.36),
            stddev: None,
            p50: Some(7),
            p90: Some(14),
            p99: Some(15),
            max: Some(15),
            expected: Some(7.5),
            expected_here: Some(7.5),
            growth: "O(N)",
            failed: 0,
            timeouts: 0,
            available: is_measured,
            chi_square_p: None,
            histogram,
            state: None,
            upkeep_bytes_per_s: None,
        }
    }

    fn all() -> Vec<HopRecord<'static>> {
        vec![
            record("successors", Some(1), &EVEN),
            record("successors", Some(16), &[10, 150]),
            record("both-ways", Some(1), &[10, 50, 100]),
            record("fingers", Some(1), &[10, 50, 100]),
            record("fingers", Some(16), &[]),
        ]
    }

    #[test]
    fn every_formula_is_a_line_and_every_row_a_mark_at_the_size_of_the_ring() {
        let panels = of(&all());
        well_formed(&panels.svg());
        let series = &panels.main.series;
        let names: Vec<&str> = series.iter().map(|series| &series.name[..]).collect();
        let expected = [
            "successors, depth 1",
            "successors, depth 16",
            "both-ways, depth 1",
            "fingers, depth 1",
            "fingers, depth 16",
            "full",
        ];
        assert_eq!(names, expected);
        let marks: Vec<usize> = series.iter().map(|series| series.points.len()).collect();
        assert_eq!(marks, [1, 1, 1, 1, 0, 0], "what was not measured has no mark");
        assert_eq!((series[0].points[0].x, series[0].points[0].y), (16.0, 7.5));
        for line in series.iter().map(|series| &series.line) {
            assert_eq!(line.last().map(|(nodes, _)| *nodes), Some(10_000.0));
            assert!(line.len() > 60 && line.iter().all(|(_, hops)| *hops > 0.0));
        }
        let at =
            |series: &Series| series.line.iter().find(|(nodes, _)| *nodes == 16.0).map(|at| at.1);
        assert_eq!((at(&series[0]), at(&series[5])), (Some(7.5), Some(0.9375)));
        let look = |at: usize| series[at].look.expect("told");
        assert_eq!(look(0).color, look(1).color);
        assert_eq!(look(0).marker, look(3).marker);
        assert!(look(0).dash != look(2).dash && look(0).marker != look(1).marker);
        assert_eq!(panels.main.guide.as_ref().map(|(nodes, _)| *nodes), Some(16.0));
        assert!(panels.subtitle.starts_with("16 nodes, 160 lookups for each row, a live ring"));
    }

    #[test]
    fn distributions_stand_in_rows_by_routing_and_columns_by_depth() {
        let rows = of(&all()).rows;
        let names: Vec<&str> = rows.iter().map(|row| &row.name[..]).collect();
        assert_eq!(names, ["successors", "both-ways", "fingers"]);
        let filled: Vec<Vec<bool>> =
            rows.iter().map(|row| row.cells.iter().map(Option::is_some).collect()).collect();
        assert_eq!(filled, [[true, true], [true, false], [true, true]]);
        let cell = |row: usize, column: usize| rows[row].cells[column].clone().expect("filled");
        let even = cell(0, 0).bars.expect("measured");
        assert!(even.measured.iter().chain(&even.expected).all(|share| *share == 1.0 / 16.0));
        assert_eq!((even.measured.len(), even.expected.len()), (16, 16));
        assert_eq!(even.ends, ("0".to_owned(), "15".to_owned()));
        assert_eq!(cell(0, 0).title, "depth 1: 7.50");
        assert!(cell(1, 0).bars.expect("measured").expected.is_empty(), "no formula is known");
        assert_eq!(cell(2, 1).bars, Err("not kept".to_owned()));
    }

    #[test]
    fn a_long_distribution_is_put_into_few_bars() {
        let histogram = vec![1; 1000];
        let mut long = record("successors", Some(1), &histogram);
        long.nodes = 1000;
        let bars = bars(&long);
        assert!(bars.measured.len() <= MOST_BARS && bars.expected.len() == bars.measured.len());
        for shares in [&bars.measured, &bars.expected] {
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
        assert_eq!(bars.ends.1, "999");
        let lines = line_sizes(50_000);
        assert!(lines.contains(&50_000) && lines.last() == Some(&100_000));
    }

    #[test]
    fn rings_of_one_and_no_rows_at_all_are_pictures_too() {
        let mut alone = record("successors", Some(1), &[160]);
        (alone.nodes, alone.mean) = (1, Some(0.0));
        well_formed(&of(std::slice::from_ref(&alone)).svg());
        well_formed(&of(&[]).svg());
    }
}
