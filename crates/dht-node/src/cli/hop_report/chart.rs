//! The picture: means against the number of nodes where there are several, else how the hops of one
//! ring are distributed.

use std::collections::BTreeSet;

use dht_core::message::ring::Routing;
use dht_core::theory;

use super::HopRecord;
use crate::cli::plot::{Axis, Chart, Point, Scale, Series, Unit, with_commas};
use crate::cli::settings::parse_routing;
use crate::cli::units::count;

/// The chart of these rows.
pub(super) fn of(records: &[HopRecord<'_>]) -> Chart {
    let sizes: BTreeSet<usize> = records.iter().map(|record| record.nodes).collect();
    if sizes.len() > 1 { means(records, &sizes) } else { distribution(records) }
}

/// Standard errors in one arm of a bar: the mean of all lookups lies within it 19 times out of 20.
const BAR: f64 = 2.0;
/// Sizes between which the formula is drawn (guess: straight lines between them look curved).
const LINE_SIZES: usize = 100;
/// Most points and steps of a distribution (guess: more could not be told apart).
const SHOWN_POINTS: usize = 20;
const SHOWN_STEPS: usize = 400;

fn means(records: &[HopRecord<'_>], sizes: &BTreeSet<usize>) -> Chart {
    let line_sizes = between(sizes);
    let mut series: Vec<Series> = Vec::new();
    let mut told = Vec::new();
    for first in first_of_each_name(records) {
        let rows = records.iter().filter(|record| record.name() == first.name());
        // Zero has no place on a logarithmic axis: a single node asks nobody.
        let points: Vec<Point> = rows.filter_map(mean_point).collect();
        let line = line_sizes.iter().filter_map(|nodes| {
            let expected =
                theory::expected_mean(routing(first)?, *nodes, first.depth.unwrap_or(1))?;
            (expected > 0.0).then_some((*nodes as f64, expected))
        });
        told.extend(points.iter().map(|point| point.label.clone()));
        series.push(Series { name: first.name(), line: line.collect(), points, look: None });
    }
    let points = || series.iter().flat_map(|series| &series.points);
    let lines = || series.iter().flat_map(|series| &series.line);
    let ends = points().flat_map(|point| [point.y, point.y + point.error]);
    let heights = ends.chain(lines().map(|(_, y)| *y));
    let y = Axis::new("mean hops", Scale::Log, Unit::Number, heights);
    let widths = sizes.iter().map(|nodes| *nodes as f64).filter(|nodes| *nodes > 1.0);
    let x = Axis::new("nodes", Scale::Log, Unit::Number, widths);
    Chart {
        title: "Mean hops of a lookup against the size of the ring".to_owned(),
        subtitle: measured_on(records),
        caption:
            "points: measured, with two standard errors up and down; lines: the formula; both \
                  axes are logarithmic"
                .to_owned(),
        description: format!(
            "Measured means beside the formula, on logarithmic axes. {}.",
            told.join(". ")
        ),
        x,
        y,
        guide: None,
        series,
    }
}

pub(super) fn mean_point(record: &HopRecord<'_>) -> Option<Point> {
    let mean = record.mean.filter(|mean| *mean > 0.0)?;
    let error = BAR * record.stderr.unwrap_or(0.0);
    let nodes = record.nodes as f64;
    let expected = match record.expected {
        Some(expected) => format!(", formula {}", with_commas(rounded(expected))),
        None => String::new(),
    };
    let label = format!(
        "{}: {} nodes, mean {} hops{expected}",
        record.name(),
        with_commas(nodes),
        with_commas(rounded(mean)),
    );
    Some(Point { x: nodes, y: mean, error, label })
}

/// Sizes from the least to the greatest, at equal ratios, and the measured ones.
fn between(sizes: &BTreeSet<usize>) -> BTreeSet<u64> {
    let (low, high) = (sizes.first().copied().unwrap_or(1), sizes.last().copied().unwrap_or(1));
    let (low, high) = (low.max(1) as f64, high.max(1) as f64);
    let at = |n: usize| low * (high / low).powf(n as f64 / LINE_SIZES as f64);
    let all = (0..=LINE_SIZES).map(|n| at(n).round() as u64);
    all.chain(sizes.iter().map(|nodes| *nodes as u64)).collect()
}

fn distribution(records: &[HopRecord<'_>]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let mut told = Vec::new();
    for record in first_of_each_name(records) {
        let points = shares(record);
        if let Some(mean) = record.mean {
            told.push(format!("{}: mean {} hops", record.name(), with_commas(rounded(mean))));
        }
        let line = expected_steps(record);
        series.push(Series { name: record.name(), points, line, look: None });
    }
    let points = || series.iter().flat_map(|series| &series.points);
    let lines = || series.iter().flat_map(|series| &series.line);
    let widths = points().map(|point| point.x).chain(lines().map(|(x, _)| *x)).chain([0.0]);
    let x = Axis::new("hops", Scale::Linear, Unit::Number, widths);
    let y = Axis::new("lookups with at most so many hops", Scale::Linear, Unit::Share, [0.0, 1.0]);
    Chart {
        title: "How many lookups take how many hops".to_owned(),
        subtitle: measured_on(records),
        caption: "points: measured; lines: the formula, where there is one".to_owned(),
        description: format!(
            "Share of lookups that took at most so many hops, measured beside the formula. {}.",
            told.join(". ")
        ),
        x,
        y,
        guide: None,
        series,
    }
}

/// The measured distribution: the share of lookups with at most so many hops, where it rises.
fn shares(record: &HopRecord<'_>) -> Vec<Point> {
    let total: u64 = record.histogram.iter().sum();
    let mut below = 0;
    let mut shown = None;
    let mut points = Vec::new();
    for (hops, count) in record.histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        below += count;
        // Of many points, those that lie a share of one over their number apart, and the last one.
        let slot = (u128::from(below) * SHOWN_POINTS as u128 / u128::from(total)) as usize;
        if record.histogram.len() <= SHOWN_POINTS || shown != Some(slot) {
            shown = Some(slot);
            let (x, y) = (hops as f64, below as f64 / total as f64);
            let (most, share) = (with_commas(x), with_commas(rounded(100.0 * y)));
            let label = format!("{}: {share} % took at most {most} hops", record.name());
            points.push(Point { x, y, error: 0.0, label });
        }
    }
    points
}

/// The same by formula, as steps; nothing for a routing whose distribution has none.
fn expected_steps(record: &HopRecord<'_>) -> Vec<(f64, f64)> {
    let (Some(Routing::Successors), Some(depth)) = (routing(record), record.depth) else {
        return Vec::new();
    };
    let nodes = record.nodes as u64;
    let most = (nodes.saturating_sub(1)).div_ceil(u64::from(depth.max(1)));
    let every = (most / SHOWN_STEPS as u64).max(1);
    let mut line = vec![(0.0, 0.0)];
    let mut below = 0.0;
    for hops in 0..=most {
        let before = below;
        below += theory::successors_probability(nodes, depth, hops);
        if every == 1 {
            line.push((hops as f64, before));
        }
        if hops % every == 0 || hops == most {
            line.push((hops as f64, below));
        }
    }
    line
}

/// The first row of each routing and depth, in their order.
fn first_of_each_name<'a>(records: &'a [HopRecord<'a>]) -> Vec<&'a HopRecord<'a>> {
    let mut seen = BTreeSet::new();
    records.iter().filter(|record| seen.insert(record.name())).collect()
}

pub(super) fn routing(record: &HopRecord<'_>) -> Option<Routing> {
    parse_routing(record.routing).ok()
}

/// What the rows were measured on, in one line.
pub(super) fn measured_on(records: &[HopRecord<'_>]) -> String {
    let Some(first) = records.first() else { return "nothing was measured".to_owned() };
    let is_same = |what: fn(&HopRecord<'_>) -> u64| records.iter().all(|r| what(r) == what(first));
    let mut parts = Vec::new();
    if is_same(|record| record.nodes as u64) {
        parts.push(count(first.nodes as u64, "node"));
    }
    let lookups = records.iter().map(|record| record.samples);
    let (least, most) = lookups
        .fold((u64::MAX, 0), |(least, most), samples| (least.min(samples), most.max(samples)));
    parts.push(match least == most {
        true => format!("{} for each row", count(most, "lookup")),
        false => format!("{least} to {most} lookups for each row"),
    });
    let rings: Option<Vec<u64>> = records.iter().map(|r| r.rings.map(u64::from)).collect();
    parts.push(match rings.as_deref().map(|all| (all.iter().min(), all.iter().max())) {
        // Small rings are made up more often than large ones.
        Some((Some(least), Some(most))) if least < most => {
            format!("{least} to {most} simulated rings of each size")
        }
        Some((_, Some(rings))) => format!("{} of each size", count(*rings, "simulated ring")),
        _ => "a live ring".to_owned(),
    });
    parts.push(format!("seed {}", first.seed));
    parts.join(", ")
}

/// To a thousandth.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::simulated;
    use super::*;
    use crate::cli::plot::tests::well_formed;

    #[test]
    fn a_caption_tells_how_many_rings_there_were() {
        let mut report = simulated(&[16, 256]);
        (report.sizes[0].rings, report.sizes[1].rings) = (40, 40);
        let said = measured_on(&HopRecord::of_simulation(&report));
        assert!(said.contains(", 40 simulated rings of each size,"), "{said}");
        report.sizes[1].rings = 7;
        let said = measured_on(&HopRecord::of_simulation(&report));
        assert!(said.contains(", 7 to 40 simulated rings of each size,"), "{said}");
    }

    #[test]
    fn several_sizes_are_plotted_as_means() {
        let report = simulated(&[1, 2, 16, 256]);
        let chart = of(&HopRecord::of_simulation(&report));
        well_formed(&chart.svg());
        let names: Vec<&str> = chart.series.iter().map(|series| &series.name[..]).collect();
        assert_eq!(names, ["successors, depth 1", "successors, depth 4"]);
        for (series, row) in chart.series.iter().zip(&report.sizes[3].routings) {
            assert_eq!(series.points.len(), 3, "one node has no mean to show");
            let last = &series.points[2];
            assert_eq!((last.x, Some(last.y)), (256.0, row.mean));
            assert_eq!(Some(last.error), row.stderr.map(|error| 2.0 * error));
            assert_eq!(series.line.last(), Some(&(256.0, row.expected.expect("a formula"))));
        }
        assert!(chart.description.contains("depth 1: 256 nodes, mean 127."), "{chart:?}");
        assert!(chart.subtitle.contains("seed 9") && !chart.subtitle.contains("nodes"));
    }

    #[test]
    fn one_size_is_plotted_as_a_distribution() {
        let report = simulated(&[16]);
        let chart = of(&HopRecord::of_simulation(&report));
        well_formed(&chart.svg());
        let all = &chart.series[0];
        assert_eq!(all.points.len(), 16);
        assert_eq!((all.points[15].x, all.points[15].y), (15.0, 1.0));
        let (hops, share) = *all.line.last().expect("a formula");
        assert!(hops == 15.0 && (share - 1.0).abs() < 1e-9);
        assert_eq!(chart.series[1].points.len(), 5, "0 to 4 hops at depth 4");
        assert!(chart.subtitle.starts_with("16 nodes, 200 lookups"), "{}", chart.subtitle);
    }

    #[test]
    fn a_long_distribution_is_thinned_and_ends_at_all_lookups() {
        let histogram = vec![1; 1000];
        let report = simulated(&[1000]);
        let mut record = HopRecord::of_simulation(&report).remove(0);
        record.histogram = &histogram;
        let points = shares(&record);
        assert!((SHOWN_POINTS..=SHOWN_POINTS + 1).contains(&points.len()), "{}", points.len());
        assert_eq!(points.last().map(|point| (point.x, point.y)), Some((999.0, 1.0)));
        assert!(expected_steps(&record).len() <= 2 * SHOWN_STEPS + 2);
    }

    #[test]
    fn rows_without_a_measurement_or_a_formula_leave_gaps() {
        let report = simulated(&[1]);
        let alone = of(&HopRecord::of_simulation(&report));
        well_formed(&alone.svg());
        let mut record = HopRecord::of_simulation(&report).remove(0);
        (record.routing, record.mean, record.histogram) = ("full", None, &[]);
        let chart = of(std::slice::from_ref(&record));
        well_formed(&chart.svg());
        assert!(chart.series[0].points.is_empty() && chart.series[0].line.is_empty());
        assert_eq!(chart.series[0].name, "full, depth 1");
        well_formed(&of(&[]).svg());
    }
}
