//! `ring --dot`: the links of a ring as a graph for Graphviz.

use std::f64::consts::TAU;

use crate::cli::commands::info::short;
use crate::client::{Walk, WalkedMember};

/// The graph, with every node pinned to its point of the circle: `neato` or `fdp` draws it.
pub(super) fn text(name: &str, walk: &Walk) -> String {
    let mut text = format!(
        "digraph \"{}\" {{\n  layout=neato; node [shape=circle, fontname=monospace, fontsize=10];\n",
        escaped(name)
    );
    for member in &walk.members {
        text.push_str(&node(member, walk.members.len()));
    }
    for member in &walk.members {
        let report = &member.report;
        let from = short(&report.contact.id);
        for (at, contact) in report.successors.iter().enumerate() {
            let style = if at == 0 { "penwidth=2" } else { "color=gray, arrowsize=0.5" };
            text.push_str(&format!("  \"{from}\" -> \"{}\" [{style}];\n", short(&contact.id)));
        }
        if let Some(before) = &report.predecessor {
            let before = short(&before.id);
            text.push_str(&format!("  \"{from}\" -> \"{before}\" [style=dotted];\n"));
        }
        for (exponent, contact) in &report.fingers {
            let to = short(&contact.id);
            let style = format!("style=dashed, color=blue, tooltip=\"2^{exponent}\"");
            text.push_str(&format!("  \"{from}\" -> \"{to}\" [{style}];\n"));
        }
    }
    text.push_str("}\n");
    text
}

fn node(member: &WalkedMember, members: usize) -> String {
    let id = member.contact().id;
    // Ten members lie well on a circle of three inches.
    let radius = (members as f64 * 0.3).max(2.0);
    let (sine, cosine) = (id.as_fraction() * TAU).sin_cos();
    format!(
        "  \"{}\" [pos=\"{:.3},{:.3}!\", tooltip=\"{} {}, {:.2} %, {} keys\"];\n",
        short(&id),
        radius * sine,
        radius * cosine,
        id,
        member.report.state.as_str(),
        100.0 * member.arc,
        member.report.keys,
    )
}

/// A name in quotes (the DOT language, "ID").
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::report;

    #[test]
    fn every_link_is_an_edge() {
        let member = |n: u64, list: &[u64], before: u64, fingers: &[(u8, u64)]| WalkedMember {
            report: report(n, list, &[before], fingers),
            arc: 0.5,
        };
        let members = vec![member(0, &[1, 2], 2, &[(1, 2)]), member(1, &[2, 0], 0, &[])];
        let walk = Walk { members, complete: true, problems: Vec::new() };
        let text = text("my \"ring\"\\", &walk);
        assert!(text.starts_with("digraph \"my \\\"ring\\\"\\\\\" {\n"), "{text}");
        assert!(text.ends_with("}\n"), "{text}");
        assert_eq!(text.matches(" -> ").count(), 4 + 2 + 1);
        assert_eq!(text.matches("penwidth=2").count(), 2, "the heads of both lists");
        assert!(text.contains("pos=\"0.000,2.000!\""), "zero is at the top: {text}");
        assert!(text.contains("[style=dashed, color=blue, tooltip=\"2^1\"]"), "{text}");
    }
}
