//! The naive rules of 2001, to be planted in simulated nodes: whoever doubts the checkers of a
//! simulator plants one and watches them cry. No node that is run for its sake has any.

/// One rule, broken as published Chords break it (`docs/protocol.md`, "Upkeep").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Planted {
    /// A node takes its successor's predecessor for its successor without asking whether it lives.
    AdoptUnasked,
    /// A dead predecessor is kept, and handed out.
    KeepDeadPredecessor,
    /// The list is patched entry by entry, so that it mixes moments.
    PatchPiecemeal,
    /// A joiner gets one successor and no list.
    JoinWithoutList,
    /// A node holds itself in its own list, where the ring is small.
    SelfInList,
    /// A reply to a query that was given up is applied all the same.
    LateReply,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 6] = [
        Planted::AdoptUnasked,
        Planted::KeepDeadPredecessor,
        Planted::PatchPiecemeal,
        Planted::JoinWithoutList,
        Planted::SelfInList,
        Planted::LateReply,
    ];
}
