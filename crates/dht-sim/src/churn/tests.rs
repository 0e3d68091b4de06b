use dht_core::theory::successors_mean;

use super::papers::{Ours, Table, TableConfig};
use super::*;

/// A small ring with an upkeep period of one second.
fn config(nodes: usize, rate: f64, seconds: u64) -> ChurnConfig {
    let lookup_rate = 10.0;
    let config = ChurnConfig::new(nodes, rate, Duration::from_secs(seconds), 7);
    ChurnConfig { depth: 8, lookup_rate, ..config }
}

fn measure(config: &ChurnConfig) -> ChurnReport {
    run(config, |_| {}).expect("within all bounds")
}

#[test]
fn where_nobody_comes_or_goes_all_is_as_the_formula_says() {
    let report = measure(&config(50, 0.0, 60));
    assert_eq!((report.joins, report.deaths, report.failed, report.wrong), (0, 0, 0, 0));
    assert_eq!((report.ring_breaks, report.mended_after_s), (0, Some(0.0)));
    assert_eq!(report.timeouts_per_lookup, Some(0.0));
    assert!(report.lookups > 400, "{report:?}");
    let expected = successors_mean(50, 8);
    assert_eq!(report.expected_hops, Some(expected));
    let (mean, stderr) = report.mean_hops.zip(report.mean_hops_stderr).expect("counted");
    assert!((mean - expected).abs() < 5.0 * stderr, "{report:?}");
}

/// Each node asks its head once per period, which answers "unchanged", and notifies it, with the list that
/// it sent before.
#[test]
fn upkeep_of_a_quiet_ring_costs_what_its_messages_cost() {
    let quiet = ChurnConfig { lookup_rate: 0.0, ..config(20, 0.0, 120) };
    let report = measure(&quiet);
    let exchange = |request, response| {
        let path = quiet.path;
        let asked = path.request(crate::traffic::request_len(&request));
        asked.and(path.answer(crate::traffic::answer_len(&response))).bytes as f64
    };
    use dht_core::message::{Request, Response};
    let asks = exchange(Request::Neighbors { stamp: Some(1 << 20) }, Response::Unchanged);
    let expected = asks + exchange(Request::NotifySame { digest: u64::MAX }, Response::Done);
    let upkeep = report.bytes["upkeep"];
    // Merge probes come on top: one in ten seconds, with a walk to see whether both are one ring.
    assert!(upkeep > 0.95 * expected && upkeep < 1.3 * expected, "{upkeep}, not {expected}");
    assert_eq!((report.mean_hops, report.latency_ms, report.timeouts_stderr), (None, None, None));
    assert_eq!(report.bytes["lookups"] + report.bytes["copies"] + report.bytes["dead"], 0.0);
    // Only merge probes open connections: neighbours stay connected.
    assert!(report.handshakes_per_node_per_s < 0.1, "{report:?}");
}

/// Half of all sessions are over after 1.4 minutes (Rhea et al. 2004).
#[test]
fn short_sessions_cost_detours_and_no_lookup() {
    let rate = ChurnConfig::rate_of_sessions(60, Duration::from_secs(84));
    assert!((rate - 0.495).abs() < 0.001);
    let report = measure(&ChurnConfig { paired: true, ..config(60, rate, 180) });
    assert!(report.deaths > 50 && report.deaths == report.joins, "{report:?}");
    assert_eq!((report.failed, report.wrong, report.ring_breaks), (0, 0, 0), "{report:?}");
    assert!(report.timeouts_per_lookup > Some(0.0) && report.mended_after_s.is_some());
    assert_eq!(report.mean_nodes, 60.0);
    let parts: f64 = report.bytes.values().sum();
    assert!((parts - report.bytes_per_node_per_s).abs() < 1e-6);
    assert!(report.bytes["dead"] > 0.0 && report.bytes["lookups"] > 0.0);
}

/// The same ring, lookups and deaths, whoever carries the lookups; none is answered by another than the owner.
#[test]
fn lookups_that_are_handed_on_get_there_sooner() {
    let iterative = config(60, 0.25, 180);
    let recursive = ChurnConfig { forwarding: Forwarding::Recursive, ..iterative.clone() };
    let (one, other) = (measure(&iterative), measure(&recursive));
    assert_eq!((one.deaths, one.gave_up), (other.deaths, 0));
    assert_eq!((other.failed, other.wrong, other.ring_breaks), (0, 0, 0), "{other:?}");
    assert!(
        one.deaths > 20 && other.gave_up > 0 && other.gave_up < other.lookups / 20,
        "{other:?}"
    );
    let (one, other) = (one.latency_ms.unwrap(), other.latency_ms.unwrap());
    assert!(other.mean < one.mean && other.p50 < one.p50, "{one:?} {other:?}");
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let config = config(20, 0.3, 30);
    assert_eq!(measure(&config), measure(&config));
    let other = measure(&ChurnConfig { seed: 8, ..config.clone() });
    assert_ne!(measure(&config).events, other.events);
}

/// More deaths than upkeep can follow: it must show in the figures.
#[test]
fn a_ring_that_loses_whole_lists_is_said_to_be_broken() {
    let storm = config(40, 8.0, 30).with_period(Duration::from_secs(300));
    let storm = ChurnConfig { warm_up: Duration::ZERO, paired: true, ..storm };
    let report = measure(&ChurnConfig { depth: 1, ..storm });
    assert!(report.failed > 0 && report.ring_breaks > 0 && report.dead_lists > 0, "{report:?}");
    assert!(!report.faults.is_empty() && report.faults.len() <= 20);
}

#[test]
fn what_was_acknowledged_is_there_in_the_end() {
    let calm = ChurnConfig { write_rate: 2.0, ..config(20, 0.05, 90) };
    let report = measure(&calm);
    assert!(report.files.acked > 100 && report.files.reads > 100, "{report:?}");
    assert_eq!((report.acked_lost, report.files.absent), (0, 0), "{report:?}");
    assert!(report.bytes["copies"] > 0.0);
}

#[test]
fn what_nobody_could_copy_in_time_is_said_to_be_lost() {
    let storm = ChurnConfig { write_rate: 2.0, ..config(12, 1.5, 60) };
    assert!(measure(&storm).acked_lost > 0);
}

#[test]
fn tables_have_the_rows_of_the_papers() {
    for (table, rows) in [(Table::Ton2, 6), (Table::Ton3, 8), (Table::Bamboo, 3)] {
        let small = TableConfig { nodes: 30, lookups: 60, ..TableConfig::new(table, 3) };
        let report = papers::run(&small, |_, _| {}).expect("within all bounds");
        assert_eq!((report.table, report.rows.len()), (table.as_str(), rows));
        for row in report.rows {
            let (failed, wrong) = match &row.ours {
                Ours::Simultaneous(ours) => (ours.failed, 0),
                Ours::Churn(ours) => (ours.failed, ours.wrong),
            };
            assert_eq!((failed, wrong), (0, 0), "{row:?}");
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let complaint = |config: ChurnConfig| config.validate().expect_err("broken").to_string();
    assert_eq!(complaint(config(1, 0.1, 60)), "nodes is 1, but must lie between 2 and 100000");
    assert_eq!(
        complaint(config(9, -0.1, 60)),
        "rate is -0.1, but must lie between 0 and 100000 per second"
    );
    let broken = ChurnConfig { depth: 0, ..config(9, 0.1, 60) };
    assert_eq!(complaint(broken), "depth is 0, but must lie between 1 and 128");
}
