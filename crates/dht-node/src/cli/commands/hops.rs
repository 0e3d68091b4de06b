//! `hops`: measured hops beside theory, and what each routing takes.

mod text;

use std::collections::BTreeSet;

use dht_core::Id;
use dht_core::message::client::{NeighborhoodReport, NodeState};
use dht_core::message::ring::Routing;
use dht_core::theory;

use super::with_client;
use crate::cli::args::{Globals, HopsArgs};
use crate::cli::exit::{Exit, Failure, Kind};
use crate::cli::hop_report::{HopFiles, HopRecord};
use crate::cli::json::{HopRowJson, HopsJson};
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::units::count;
use crate::client::{
    Client, ExactHops, SurveyPlan, SurveyRow, Walk, WalkedMember, chi_square_p, entries_held,
    survey, upkeep_between, upkeep_bytes_per_s, without_dust,
};
pub(super) use text::rows_for_people;

/// The depths that are measured (`docs/cli.md`).
pub(super) const DEPTHS: [u16; 5] = [1, 2, 4, 8, 16];
/// The rows.
const ROWS: [(Routing, &[u16]); 4] = [
    (Routing::Successors, &DEPTHS),
    (Routing::BothWays, &DEPTHS),
    (Routing::Fingers, &[1, 16]),
    // Its depth means nothing where the map is right; where it is not, members step on by their heads.
    (Routing::Full, &[1]),
];

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
        let Measured { rows, came, went } =
            measure(client, &walk, samples, seed, &output.progress()).await?;
        let nodes = walk.members.len();
        let json = HopsJson { nodes, samples, seed, came, went, routings: rows };
        files.write(&HopRecord::of_ring(&json), output)?;
        output.result(&json, || for_people(&json, output))?;
        Ok(Exit::Done)
    })
}

/// What was measured, and what happened to the ring meanwhile.
pub(super) struct Measured {
    /// One for every routing and depth.
    pub(super) rows: Vec<HopRowJson>,
    /// Members in the lists at the end that the walk before did not meet.
    came: usize,
    /// Members of that walk that did not answer at the end.
    went: usize,
}

/// A row for every routing and depth.
pub(super) async fn measure(
    client: &Client,
    walk: &Walk,
    samples: u64,
    seed: u64,
    progress: &Progress,
) -> Result<Measured, Failure> {
    let (mut rows, mut silent) = (Vec::new(), BTreeSet::new());
    for (routing, depth) in ROWS
        .into_iter()
        .flat_map(|(routing, depths)| depths.iter().map(move |depth| (routing, *depth)))
    {
        let mut measured = None;
        if walk.serves(routing, depth) {
            progress.message(&match routing {
                Routing::Full => routing.as_str().to_owned(),
                _ => format!("{}, depth {depth}", routing.as_str()),
            });
            // Each row draws by itself: rows must not depend on which others are measured.
            let seed = seed.wrapping_add(u64::from(depth)).wrapping_add(256 * routing as u64);
            let plan = SurveyPlan { samples, seed, routing, depth };
            let told = |done| progress.count(done, samples);
            measured = Some(survey(client, walk, &mut silent, plan, told).await?);
        }
        rows.push(row(walk, routing, depth, measured));
    }
    progress.message("asking what it took");
    let meanwhile = ask_again(client, walk, &silent).await;
    for row in rows.iter_mut().filter(|row| row.available) {
        note_costs(row, &meanwhile);
    }
    let came = newcomers(walk, &meanwhile);
    Ok(Measured { rows, came, went: walk.members.len() - meanwhile.len() })
}

/// How many nodes the members list that a walk before did not meet.
fn newcomers(walk: &Walk, meanwhile: &[NeighborhoodReport]) -> usize {
    let met: BTreeSet<Id> = walk.ids().into_iter().collect();
    let listed = meanwhile.iter().flat_map(|report| &report.successors);
    let listed: BTreeSet<Id> = listed.map(|contact| contact.id).collect();
    listed.difference(&met).count()
}

/// What the members of the walk hold now, and what they sent for upkeep since: a young node's joining is
/// no upkeep, and its lists are not full yet. Those that do not answer are left out, and so are those that
/// were silent before.
async fn ask_again(client: &Client, walk: &Walk, silent: &BTreeSet<Id>) -> Vec<NeighborhoodReport> {
    let mut all = Vec::new();
    for member in walk.members.iter().filter(|member| !silent.contains(&member.contact().id)) {
        if let Some(mut now) = client.neighborhood_of(member.contact()).await {
            now.upkeep = upkeep_between(&member.report.upkeep, &now.upkeep);
            all.push(now);
        }
    }
    all
}

/// What a row takes of each member.
fn note_costs(row: &mut HopRowJson, members: &[NeighborhoodReport]) {
    let named = |routing: &Routing| routing.as_str() == row.routing;
    let Some(routing) = Routing::ALL.into_iter().find(named) else { return };
    let held = members
        .iter()
        .map(|member| Some(entries_held(member, routing, row.depth.unwrap_or(1)) as f64));
    row.state = mean(held);
    row.upkeep_bytes_per_s =
        mean(members.iter().map(|member| upkeep_bytes_per_s(&member.upkeep, routing)));
}

fn row(walk: &Walk, routing: Routing, depth: u16, measured: Option<SurveyRow>) -> HopRowJson {
    let ids: &[Id] = &walk.ids();
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
        depth: (routing != Routing::Full).then_some(depth),
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
        state: None,
        upkeep_bytes_per_s: None,
    }
}

/// The mean; `None` if there is nothing, or one of them is not known.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = values.collect::<Option<_>>()?;
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn for_people(json: &HopsJson, output: Output) -> String {
    let changed = match (json.came, json.went) {
        (0, 0) => String::new(),
        (came, went) => format!(
            "\nmeanwhile {came} came and {went} went: what is expected here is of the {} at the beginning\n",
            json.nodes
        ),
    };
    format!(
        "{}, {} for each row, seed {}\n\n{}{changed}",
        count(json.nodes as u64, "node"),
        count(json.samples, "lookup"),
        json.seed,
        rows_for_people(&json.routings, output),
    )
}

#[cfg(test)]
mod tests {
    use dht_core::stats::Histogram;

    use super::*;
    use crate::client::testing::report;

    /// Members at the points of these names, each with the next one in its list.
    fn walk(count: u8) -> Walk {
        let members = (0..count).map(|n| {
            let mut report = report(n.into(), &[u64::from(n) + 1], &[], &[]);
            report.contact.id = Id::of_key(&[n]);
            WalkedMember { report, arc: 0.0 }
        });
        Walk { members: members.collect(), complete: true, problems: Vec::new() }
    }

    #[test]
    fn a_row_lays_the_measured_beside_the_expected() {
        let walk = walk(6);
        let hops = Histogram::from_counts(vec![1000, 2000, 2000, 1000]);
        let made =
            row(&walk, Routing::Successors, 2, Some(SurveyRow { hops, failed: 2, timeouts: 3 }));
        assert_eq!((made.mean, made.failed, made.timeouts), (Some(1.5), 2, 3));
        assert_eq!(made.expected, Some(1.5), "formula (c): 6 = 2 * 2 + 1 others");
        assert!((made.expected_here.expect("exact") - 1.5).abs() < 1e-9);
        assert!(made.chi_square_p.expect("enough") > 0.99 && made.available);
        assert_eq!((made.state, made.upkeep_bytes_per_s), (None, None), "not asked yet");
        let missing = row(&walk, Routing::BothWays, 16, None);
        assert!(!missing.available && missing.mean.is_none() && missing.expected.is_some());
        assert_eq!((missing.chi_square_p, missing.state), (None, None));
    }

    #[test]
    fn a_row_tells_what_it_takes_of_the_members() {
        let walk = walk(2);
        let mut members: Vec<NeighborhoodReport> =
            walk.members.iter().map(|member| member.report.clone()).collect();
        members[1] = report(7, &[8, 9, 10], &[], &[]);
        members[1].upkeep.links = 1000;
        let mut made = row(&walk, Routing::Successors, 2, Some(SurveyRow::default()));
        note_costs(&mut made, &members);
        // One of one entry, one of three, of which two are used; 600 and 1000 bytes in two seconds.
        assert_eq!((made.state, made.upkeep_bytes_per_s), (Some(1.5), Some(400.0)));
        note_costs(&mut made, &[]);
        assert_eq!((made.state, made.upkeep_bytes_per_s), (None, None), "nobody answered");
    }

    #[test]
    fn who_came_meanwhile_stands_in_the_lists() {
        let walk = walk(3);
        let mut reports: Vec<NeighborhoodReport> =
            walk.members.iter().map(|member| member.report.clone()).collect();
        let ids = walk.ids();
        for (at, report) in reports.iter_mut().enumerate() {
            report.successors[0].id = ids[(at + 1) % 3];
        }
        assert_eq!(newcomers(&walk, &reports), 0);
        for report in &mut reports[..2] {
            report.successors[0].id = Id::of_key(b"new");
        }
        assert_eq!(newcomers(&walk, &reports), 1, "in two lists, counted once");
        let mut json =
            HopsJson { nodes: 3, samples: 1, seed: 1, came: 0, went: 0, routings: Vec::new() };
        assert!(!for_people(&json, Output::bare(false)).contains("meanwhile"));
        (json.came, json.went) = (1, 2);
        assert!(for_people(&json, Output::bare(false)).contains("meanwhile 1 came and 2 went"));
    }

    #[test]
    fn a_row_needs_lists_that_are_long_enough() {
        let mut walk = walk(3);
        let rows = |walk: &Walk, routing| DEPTHS.map(|depth| walk.serves(routing, depth));
        assert_eq!(rows(&walk, Routing::BothWays), [true; 5]);
        walk.members[1].report.depth_back = 5;
        assert_eq!(rows(&walk, Routing::BothWays), [true, true, true, false, false]);
        assert_eq!(rows(&walk, Routing::Successors), [true; 5]);
        walk.members[2].report.depth = 8;
        assert_eq!(rows(&walk, Routing::Fingers), [true, true, true, true, false]);
        assert_eq!(rows(&walk, Routing::Full), [false; 5]);
    }

    #[test]
    fn a_mean_of_what_is_not_known_is_not_known() {
        assert_eq!(mean([Some(1.0), Some(2.0)].into_iter()), Some(1.5));
        assert_eq!(mean([Some(1.0), None].into_iter()), None);
        assert_eq!(mean([].into_iter()), None);
    }
}
