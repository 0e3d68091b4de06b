//! What was acknowledged is there: while fewer than R of its copies died within a repair window, some
//! node that runs holds a register's acknowledged version or a newer one, and nobody reads an older
//! one.
//!
//! Source: `docs/protocol.md`, "What must hold"; the design's promise to those who store files.
//! Condition of both: lists as long as the ring's copies need, which real nodes always have. Of the
//! first half: of those that acknowledged the write, not all, and not R, died or went within
//! [`REPAIR_WINDOW`], and others have been there for so long, to copy it; the window does not pass
//! while repair is hindered by cuts, stopped or slow nodes. Of the second half: no condition of the
//! ring's own invariants has been broken for so long, nor was one when it was written, since agreement rests on the ring as it is
//! until there are views.

use std::time::Duration;

use dht_core::Id;
use dht_core::register::Ballot;

use super::Violation;

/// How long repair may take to bring back a copy that died: two of its rounds (default 30 s).
pub const REPAIR_WINDOW: Duration = Duration::from_secs(60);

/// Whether a register is still there: `held` are the versions on the disks of all that run.
pub fn check(key: Id, promised: Ballot, held: impl Iterator<Item = Ballot>) -> Option<Violation> {
    let best = held.max();
    (best < Some(promised)).then_some(Violation::Lost { key })
}

/// Whether `node` may read this version after a newer one was acknowledged.
pub fn check_read(
    key: Id,
    node: Id,
    promised: Option<Ballot>,
    read: Option<Ballot>,
) -> Option<Violation> {
    (read < promised).then_some(Violation::StaleRead { key, node })
}
