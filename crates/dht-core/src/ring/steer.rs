//! What exhaustive exploration needs of the ring machine; see [`crate::node::steer`].

use std::collections::BTreeMap;

use super::{Operation, Question, Ring, Standing};
use crate::event::{ReplyId, RpcId};
use crate::stats::UpkeepCounts;
use crate::time::Instant;

impl Ring {
    /// Forgets times, counts and stamps; the calls have new numbers. Every field is named here, so
    /// that whoever adds one decides whether it is forgotten.
    pub(crate) fn distill(&mut self, renumbered: &BTreeMap<RpcId, RpcId>) {
        let Ring {
            links,
            standing,
            operation,
            deferred: _,
            joins_waiting: _,
            vouched: _,
            guest,
            rectify: _,
            notified: _,
            stabilize_again: _,
            candidate: _,
            pushed,
            push_wanted: _,
            last_push,
            last_stabilize,
            heard,
            told,
            telling,
            last_grown,
            introduce_to: _,
            changes: _,
            counts,
        } = self;
        links.forget_stamp();
        if let Some(
            Operation::Stabilize { rpc, .. }
            | Operation::StepTwo { rpc, .. }
            | Operation::ServeJoin { rpc, .. },
        ) = operation
        {
            *rpc = renumbered.get(rpc).copied().unwrap_or(*rpc);
        }
        if let Some((_, since)) = guest {
            *since = Instant::ZERO;
        }
        if *standing == Standing::Member {
            // A member lets others in as it likes once the pause after a guest is over.
            *guest = None;
        }
        if let Some((_, pushed)) = pushed {
            pushed.stamp = 0;
        }
        (*last_push, *last_stabilize, *last_grown) = (None, None, None);
        // It only serves to understand "unchanged", which nobody says to a question without stamp.
        *heard = None;
        // Both only spare a list its way.
        (*told, *telling) = (None, None);
        *counts = UpkeepCounts::default();
    }

    /// The questions that wait here for an answer.
    pub(crate) fn questions(&self) -> impl Iterator<Item = ReplyId> {
        let deferred = self.deferred.iter().map(|question| match question {
            Question::Neighbors { reply, .. } | Question::Join { reply, .. } => *reply,
        });
        let served = match &self.operation {
            Some(Operation::ServeJoin { reply, .. }) => Some(*reply),
            _ => None,
        };
        deferred.chain(self.joins_waiting.iter().map(|held| held.reply)).chain(served)
    }
}
