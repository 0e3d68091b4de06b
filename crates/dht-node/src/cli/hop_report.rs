//! Rows of measured hops, of a live ring or of simulated ones, as files: a table of numbers and a
//! picture.

mod chart;
mod csv;
mod panels;

use std::path::Path;

use dht_sim::hops::HopsReport;

use super::exit::Failure;
use super::json::HopsJson;
use super::output::Output;
use super::target::Target;

/// One row, with what it was measured on. The fields are those of `docs/json.md`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HopRecord<'a> {
    nodes: usize,
    samples: u64,
    /// `None` for a live ring.
    rings: Option<u32>,
    seed: u64,
    routing: &'static str,
    depth: Option<u16>,
    mean: Option<f64>,
    stderr: Option<f64>,
    stddev: Option<f64>,
    p50: Option<u32>,
    p90: Option<u32>,
    p99: Option<u32>,
    max: Option<u32>,
    expected: Option<f64>,
    expected_here: Option<f64>,
    growth: &'static str,
    failed: u64,
    timeouts: u64,
    available: bool,
    chi_square_p: Option<f64>,
    histogram: &'a [u64],
    /// Both only of live rings.
    state: Option<f64>,
    upkeep_bytes_per_s: Option<f64>,
}

impl HopRecord<'_> {
    /// The rows of a live ring.
    pub(crate) fn of_ring(json: &HopsJson) -> Vec<HopRecord<'_>> {
        let records = json.routings.iter().map(|row| HopRecord {
            nodes: json.nodes,
            samples: json.samples,
            rings: None,
            seed: json.seed,
            routing: row.routing,
            depth: row.depth,
            mean: row.mean,
            stderr: row.stderr,
            stddev: row.stddev,
            p50: row.p50,
            p90: row.p90,
            p99: row.p99,
            max: row.max,
            expected: row.expected,
            expected_here: row.expected_here,
            growth: row.growth,
            failed: row.failed,
            timeouts: row.timeouts,
            available: row.available,
            chi_square_p: row.chi_square_p,
            histogram: &row.histogram,
            state: row.state,
            upkeep_bytes_per_s: row.upkeep_bytes_per_s,
        });
        records.collect()
    }

    /// The rows of simulated rings, all sizes one after the other.
    pub(crate) fn of_simulation(report: &HopsReport) -> Vec<HopRecord<'_>> {
        let rows =
            report.sizes.iter().flat_map(|size| size.routings.iter().map(move |row| (size, row)));
        let records = rows.map(|(size, row)| HopRecord {
            nodes: size.nodes,
            samples: size.samples,
            rings: Some(size.rings),
            seed: report.seed,
            routing: row.routing,
            depth: row.depth,
            mean: row.mean,
            stderr: row.stderr,
            stddev: row.stddev,
            p50: row.p50,
            p90: row.p90,
            p99: row.p99,
            max: row.max,
            expected: row.expected,
            expected_here: row.expected_here,
            growth: row.growth,
            failed: row.failed,
            timeouts: row.timeouts,
            available: row.available,
            chi_square_p: None,
            histogram: row.histogram.counts(),
            state: None,
            upkeep_bytes_per_s: None,
        });
        records.collect()
    }

    /// What it is called beside others.
    fn name(&self) -> String {
        match self.depth {
            Some(depth) => format!("{}, depth {depth}", self.routing),
            None => self.routing.to_owned(),
        }
    }
}

/// The files that were asked for.
#[derive(Debug)]
pub(crate) struct HopFiles<'a> {
    plot: Option<(&'a Path, Target)>,
    csv: Option<(&'a Path, Target)>,
}

impl<'a> HopFiles<'a> {
    /// Tells what cannot be written, before anything is measured. What is there already will be
    /// replaced: a measurement that is made again is meant to be.
    pub(crate) fn choose(
        plot: Option<&'a Path>,
        csv: Option<&'a Path>,
    ) -> Result<HopFiles<'a>, Failure> {
        let choose = |path: &'a Path| -> Result<(&'a Path, Target), Failure> {
            let target = Target::choose(path, true)?;
            target.check()?;
            Ok((path, target))
        };
        let files =
            HopFiles { plot: plot.map(choose).transpose()?, csv: csv.map(choose).transpose()? };
        match &files {
            HopFiles { plot: Some((path, plot)), csv: Some((_, csv)) } if plot.is_same(csv) => {
                let path = path.display();
                let text = format!("--plot and --csv both name {path}; name two files");
                Err(Failure::usage(text))
            }
            _ => Ok(files),
        }
    }

    /// Writes them, each whole or not at all, and says so.
    pub(crate) fn write(&self, records: &[HopRecord<'_>], output: Output) -> Result<(), Failure> {
        if let Some((path, target)) = &self.plot {
            target.write(picture(records).as_bytes())?;
            output.note(&format!("plot in {}", path.display()));
        }
        if let Some((path, target)) = &self.csv {
            target.write(csv::text(records).as_bytes())?;
            output.note(&format!("table in {}", path.display()));
        }
        Ok(())
    }
}

/// Two panels for a live ring, which has one size and no other like it; for simulated rings one chart.
fn picture(records: &[HopRecord<'_>]) -> String {
    match records.iter().any(|record| record.rings.is_some()) {
        true => chart::of(records).svg(),
        false => panels::of(records).svg(),
    }
}

/// A standard error for people: three decimals, as means have them, unless that would show nothing.
pub(crate) fn show_error(error: Option<f64>) -> String {
    match error {
        None => "-".to_owned(),
        Some(error) if error > 0.0 && error < 0.0005 => format!("{error:.0e}"),
        Some(error) => format!("{error:.3}"),
    }
}

/// How far a measured mean lies from an expected one, as a share of it.
pub(crate) fn off(mean: Option<f64>, expected: Option<f64>) -> Option<f64> {
    match (mean, expected) {
        (Some(mean), Some(expected)) if expected > 0.0 => Some(mean / expected - 1.0),
        _ => None,
    }
}

/// The same for people.
pub(crate) fn show_off(off: Option<f64>) -> String {
    off.map_or("-".to_owned(), |off| format!("{:+.2} %", 100.0 * off))
}

#[cfg(test)]
mod tests {
    use dht_sim::hops::HopsConfig;

    use super::*;
    use crate::cli::exit::Kind;

    pub(super) fn simulated(sizes: &[usize]) -> HopsReport {
        let (sizes, depths) = (sizes.to_vec(), vec![1, 4]);
        let config = HopsConfig {
            sizes,
            routings: vec![dht_core::message::ring::Routing::Successors],
            depths,
            lookups: Some(200),
            rings: None,
            seed: 9,
        };
        dht_sim::hops::run(&config, |_| {}).expect("within all bounds")
    }

    #[test]
    fn files_that_cannot_be_written_are_told_of_early() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (plot, csv) = (folder.path().join("a.svg"), folder.path().join("a.csv"));
        let left = || std::fs::read_dir(folder.path()).expect("readable").count();
        let nowhere = folder.path().join("no/such/place.svg");
        let kind = |files: Result<HopFiles<'_>, Failure>| match files {
            Err(Failure::Told { kind, .. }) => kind,
            other => panic!("no failure: {other:?}"),
        };
        assert_eq!(kind(HopFiles::choose(Some(&nowhere), Some(&csv))), Kind::Io);
        assert_eq!(kind(HopFiles::choose(Some(folder.path()), None)), Kind::Io);
        // A directory that is there and takes no files, also not from root.
        #[cfg(target_os = "linux")]
        assert_eq!(kind(HopFiles::choose(None, Some(Path::new("/proc/a.csv")))), Kind::Io);
        let again = folder.path().join(".").join("a.svg");
        assert_eq!(kind(HopFiles::choose(Some(&plot), Some(&again))), Kind::Usage);
        HopFiles::choose(Some(&plot), Some(&csv)).expect("both can be written");
        assert_eq!(left(), 0, "nothing was measured yet");
    }

    #[test]
    fn files_are_written_and_replaced() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (plot, csv) = (folder.path().join("a.svg"), folder.path().join("a.csv"));
        let output = Output::bare(true);
        let report = simulated(&[8, 16]);
        for _ in 0..2 {
            let files = HopFiles::choose(Some(&plot), Some(&csv)).expect("both can be written");
            files.write(&HopRecord::of_simulation(&report), output).expect("writable");
        }
        let read = |path| std::fs::read_to_string(path).expect("it is there");
        assert!(read(&plot).starts_with("<svg ") && read(&csv).starts_with("nodes,"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 2);
    }

    #[test]
    fn small_errors_are_not_shown_as_none() {
        let shown = [None, Some(0.0), Some(0.00042), Some(0.5), Some(12.0)].map(show_error);
        assert_eq!(shown, ["-", "0.000", "4e-4", "0.500", "12.000"]);
        assert_eq!(show_off(off(Some(1.01), Some(1.0))), "+1.00 %");
        assert_eq!(show_off(off(Some(0.0), Some(0.0))), "-");
    }
}
