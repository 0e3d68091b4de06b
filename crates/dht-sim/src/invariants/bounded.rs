//! What a node holds and sends is bounded, whatever happens to it.
//!
//! Source: `docs/protocol.md`, "What must hold"; case 55 (repair storms), case 85 (growth).
//! Condition: none, it holds always.

use dht_core::node::Sizes;
use dht_core::{Config, Id};

use super::Violation;

/// Over how many seconds messages are counted.
pub const WINDOW_S: u64 = 10;
/// Most messages of one node in a window, those of its lookups apart: their number is the length of
/// the way (guess: a hundred times what upkeep alone sends at the default period).
pub const MAX_MESSAGES: u64 = 4_000;
/// Calls without an answer that upkeep may have at once, beside those of lookups, operations and
/// comparisons (guess: all neighbours, several times).
const MAX_UPKEEP_CALLS: usize = 512;
/// Events of the full map on their way through one node (guess: what a lead may gather, and as much again in
/// reports and copies).
const MAX_EVENTS: usize = 8192;
/// Calls of one register operation at once: its replicas at R = 8.
const CALLS_PER_OPERATION: usize = 16;

/// Whether a node holds more than its settings allow.
pub fn check(node: Id, sizes: &Sizes, config: &Config) -> Option<Violation> {
    let busy = sizes.lookups + CALLS_PER_OPERATION * sizes.operations + sizes.forwards;
    let bounds = [
        ("lookups", sizes.lookups, config.max_operations),
        ("lookups handed on", sizes.forwards, config.max_forwards + 2 * config.max_operations),
        ("operations", sizes.operations, config.max_operations),
        ("remembered peers", sizes.remembered, config.max_remembered),
        ("deferred questions", sizes.deferred, 2 * config.max_deferred),
        ("calls", sizes.calls, MAX_UPKEEP_CALLS + busy),
        ("events of the map", sizes.events, MAX_EVENTS),
    ];
    let over = bounds.into_iter().find(|(_, held, limit)| held > limit);
    over.map(|(what, held, limit)| Violation::Unbounded { node, what, held, limit })
}

/// Whether a node sent more within a window than it may.
pub fn check_messages(node: Id, sent: u64) -> Option<Violation> {
    let (held, limit) = (usize::try_from(sent).unwrap_or(usize::MAX), MAX_MESSAGES as usize);
    let what = "messages in 10 s";
    (sent == MAX_MESSAGES + 1).then_some(Violation::Unbounded { node, what, held, limit })
}
