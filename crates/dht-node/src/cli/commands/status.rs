//! `status`: one line and an exit code.

use dht_core::message::client::NodeState;
use dht_core::stats::{AtRisk, DiskReport, StatsReport};

use super::with_client;
use crate::cli::args::Globals;
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{PeerJson, StatusJson};
use crate::cli::output::Output;
use crate::cli::units::{about_nodes, count, show_bytes};

pub(super) fn run(globals: &Globals, output: Output) -> Result<Exit, Failure> {
    with_client(globals, async |client| {
        let json = shape(&client.stats().await?);
        let exit = if json.healthy { Exit::Done } else { Exit::Failed };
        exit.having_said(output.summary(&json, || for_people(&json)))
    })
}

fn shape(stats: &StatsReport) -> StatusJson {
    let reasons = reasons(stats);
    StatusJson {
        peer: PeerJson::of(&stats.contact),
        ring: stats.ring_name.clone(),
        state: stats.state.as_str(),
        healthy: reasons.is_empty(),
        reasons,
        estimated_nodes: stats.estimated_nodes,
        missing: stats.counters.repair.missing,
    }
}

/// Why the node is not healthy. A node without neighbours keeps one copy of everything, and nobody
/// could keep another: that alone is no fault.
fn reasons(stats: &StatsReport) -> Vec<String> {
    let mut reasons = Vec::new();
    match stats.state {
        NodeState::Member => {}
        NodeState::Joining => reasons.push("it has no place in a ring yet".to_owned()),
        NodeState::Isolated => reasons.push("all its neighbours fell silent".to_owned()),
        NodeState::Leaving => reasons.push("it is leaving its ring".to_owned()),
    }
    let missing = stats.counters.repair.missing;
    if missing > 0 {
        let verb = if missing == 1 { "is" } else { "are" };
        let copies = count(missing, "copy");
        reasons.push(format!("{copies} {verb} missing here and being fetched"));
    }
    let AtRisk { views, chunks } = stats.at_risk;
    if chunks > 0 && !stats.successors.is_empty() {
        let verb = if chunks == 1 { "has" } else { "have" };
        let chunks = count(chunks, "chunk");
        reasons.push(format!("{chunks} of its arc {verb} one copy only"));
    }
    // With two members both must vote, whatever they do.
    if views > 0 && stats.successors.len() > 1 {
        reasons.push("no more than a majority of those who keep its arc vote there".to_owned());
    }
    if let Some(disk) = stats.disk.filter(DiskReport::is_nearly_full) {
        reasons.push(format!("its disk is nearly full: {} left", show_bytes(disk.available)));
    }
    reasons
}

fn for_people(json: &StatusJson) -> String {
    let health = if json.healthy { "healthy" } else { "NOT healthy" };
    let mut line = format!(
        "{health}: {} {}, ring {}, {}",
        json.state,
        json.peer.id,
        json.ring,
        about_nodes(json.estimated_nodes)
    );
    for reason in &json.reasons {
        line.push_str("; ");
        line.push_str(reason);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::super::stats::tests::report;
    use super::*;

    #[test]
    fn health_has_its_reasons() {
        let mut stats = report();
        stats.counters.repair.missing = 0;
        stats.at_risk = AtRisk::default();
        assert!(shape(&stats).healthy);
        for state in [NodeState::Joining, NodeState::Isolated, NodeState::Leaving] {
            stats.state = state;
            assert!(!shape(&stats).healthy, "{state:?}");
        }
        stats.state = NodeState::Member;
        stats.counters.repair.missing = 1;
        assert_eq!(shape(&stats).reasons.len(), 1);
        stats.counters.repair.missing = 0;
        stats.successors = vec![stats.contact.clone(); 2];
        for at_risk in [AtRisk { views: 0, chunks: 4 }, AtRisk { views: 1, chunks: 0 }] {
            stats.at_risk = at_risk;
            assert!(!shape(&stats).healthy, "{at_risk:?}");
        }
        stats.successors.truncate(1);
        assert!(shape(&stats).healthy, "both must vote in a ring of two");
        stats.at_risk = AtRisk { views: 1, chunks: 4 };
        assert!(!shape(&stats).healthy);
        stats.successors.clear();
        assert!(shape(&stats).healthy, "one of one possible copy");
        stats.disk = Some(DiskReport { total: 1 << 30, available: 1 << 20 });
        let status = shape(&stats);
        assert!(!status.healthy);
        assert_eq!(status.reasons, ["its disk is nearly full: 1.00 MiB left"]);
    }
}
