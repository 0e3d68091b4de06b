//! `hops`: measured hops beside theory.

use dht_core::Id;
use dht_core::message::client::NodeState;
use dht_core::message::ring::Routing;
use dht_core::theory;

use super::with_client;
use crate::cli::args::{Globals, HopsArgs};
use crate::cli::exit::{Exit, Failure, Kind};
use crate::cli::hop_report::{HopFiles, HopRecord, off, show_error, show_off};
use crate::cli::json::{HopRowJson, HopsJson};
use crate::cli::output::{Output, table_text};
use crate::cli::progress::Progress;
use crate::cli::units::count;
use crate::client::{
    Client, ExactHops, SurveyPlan, SurveyRow, Walk, WalkedMember, chi_square_p, survey,
    without_dust,
};

/// The depths that are measured (`docs/cli.md`).
pub(super) const DEPTHS: [u16; 5] = [1, 2, 4, 8, 16];
/// The rows.
const ROWS: [(Routing, &[u16]); 3] =
    [(Routing::Successors, &DEPTHS), (Routing::BothWays, &DEPTHS), (Routing::Fingers, &[1, 16])];

pub(super) fn run(globals: &Globals, args: &HopsArgs, output: Output) -> Result<Exit, Failure> {
    let files = HopFiles::choose(args.plot.as_deref(), args.csv.as_deref())?;
    let (samples, seed) = (args.samples, args.seed.unwrap_or_else(super::drawn_seed));
    with_client(globals, async |client| {
        let walk = client.walk().await?;
        let is_member = |member: &WalkedMember| member.report.state == NodeState::Member;
        if !walk.members.first().is_some_and(is_member) {
            let text = "the member asked has no place in its ring now; ask another with --node";
            return Err(Failure::new(Kind::NotMember, text));
        }
        if !walk.complete {
            let text = "the ring is not closed now, so nobody knows all its members; \
                        `dht-node ring` shows what is wrong";
            return Err(Failure::new(Kind::Unreachable, text));
        }
        let routings = measure(client, &walk, samples, seed, &output.progress()).await?;
        let json = HopsJson { nodes: walk.members.len(), samples, seed, routings };
        files.write(&HopRecord::of_ring(&json), output)?;
        output.result(&json, || for_people(&json, output))?;
        Ok(Exit::Done)
    })
}

/// A row for every routing and depth.
pub(super) async fn measure(
    client: &Client,
    walk: &Walk,
    samples: u64,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<HopRowJson>, Failure> {
    let ids = walk.ids();
    let mut rows = Vec::new();
    for (routing, depth) in ROWS
        .into_iter()
        .flat_map(|(routing, depths)| depths.iter().map(move |depth| (routing, *depth)))
    {
        let mut measured = None;
        if depth <= walk.depth() && walk.keeps(routing) {
            progress.message(&format!("{}, depth {depth}", routing.as_str()));
            // Each row draws by itself: rows must not depend on which others are measured.
            let seed = seed.wrapping_add(u64::from(depth)).wrapping_add(256 * routing as u64);
            let plan = SurveyPlan { samples, seed, routing, depth };
            let told = |done| progress.count(done, samples);
            measured = Some(survey(client, walk, plan, told).await?);
        }
        rows.push(row(&ids, routing, depth, measured));
    }
    Ok(rows)
}

fn row(ids: &[Id], routing: Routing, depth: u16, measured: Option<SurveyRow>) -> HopRowJson {
    let available = measured.is_some();
    let SurveyRow { hops, failed, timeouts } = measured.unwrap_or_default();
    // Along successors the whole distribution is known, of the others the mean.
    let exact = (routing == Routing::Successors).then(|| ExactHops::of_ring(ids, depth));
    let expected_here = match &exact {
        Some(exact) => Some(exact.mean),
        None => theory::exact_mean(ids, routing, depth).map(without_dust),
    };
    HopRowJson {
        routing: routing.as_str(),
        depth,
        mean: hops.mean(),
        stderr: hops.standard_error(),
        stddev: hops.stddev(),
        p50: hops.quantile(0.5),
        p90: hops.quantile(0.9),
        p99: hops.quantile(0.99),
        max: hops.max(),
        expected: theory::expected_mean(routing, ids.len() as u64, depth).map(without_dust),
        expected_here,
        growth: theory::growth(routing),
        failed,
        timeouts,
        available,
        chi_square_p: exact.and_then(|exact| chi_square_p(hops.counts(), &exact)),
        histogram: hops.counts().to_vec(),
    }
}

fn for_people(json: &HopsJson, output: Output) -> String {
    format!(
        "{}, {} for each row, seed {}\n\n{}",
        count(json.nodes as u64, "node"),
        count(json.samples, "lookup"),
        json.seed,
        rows_for_people(&json.routings, output),
    )
}

/// The rows as a table.
pub(super) fn rows_for_people(rows: &[HopRowJson], output: Output) -> String {
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
        ">p99",
        ">max",
        ">failed",
        ">chi2 p",
        ">growth",
    ]);
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let whole = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    for row in rows {
        table.add_row([
            row.routing.to_owned(),
            row.depth.to_string(),
            if row.available { number(row.mean) } else { "not kept".to_owned() },
            show_error(row.stderr),
            number(row.expected),
            number(row.expected_here),
            show_off(off(row.mean, row.expected_here)),
            number(row.stddev),
            whole(row.p50),
            whole(row.p99),
            whole(row.max),
            row.failed.to_string(),
            number(row.chi_square_p),
            row.growth.to_owned(),
        ]);
    }
    table_text(&table)
}

#[cfg(test)]
mod tests {
    use dht_core::stats::Histogram;

    use super::*;

    #[test]
    fn a_row_lays_the_measured_beside_the_expected() {
        let ids: Vec<Id> = (0..6u8).map(|n| Id::of_key(&[n])).collect();
        let hops = Histogram::from_counts(vec![1000, 2000, 2000, 1000]);
        let made =
            row(&ids, Routing::Successors, 2, Some(SurveyRow { hops, failed: 2, timeouts: 3 }));
        assert_eq!((made.mean, made.failed, made.timeouts), (Some(1.5), 2, 3));
        assert_eq!(made.expected, Some(1.5), "formula (c): 6 = 2 * 2 + 1 others");
        assert!((made.expected_here.expect("exact") - 1.5).abs() < 1e-9);
        assert!(made.chi_square_p.expect("enough") > 0.99 && made.available);
        let missing = row(&ids, Routing::BothWays, 16, None);
        assert!(!missing.available && missing.mean.is_none() && missing.expected.is_some());
        assert_eq!(missing.chi_square_p, None);
    }
}
