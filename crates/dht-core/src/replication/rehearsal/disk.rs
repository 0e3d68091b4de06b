//! A disk in memory, for rehearsals.

use std::collections::BTreeMap;

use crate::event::{StoreCommand, StoreOutcome};
use crate::id::Id;
use crate::interval::Interval;
use crate::manifest::ChunkRef;
use crate::message::ring::Kind;
use crate::register::Register;

/// What one member stores.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) registers: BTreeMap<Id, Register>,
    pub(crate) chunks: BTreeMap<Id, ChunkRef>,
    /// Every command fails.
    pub(crate) is_broken: bool,
}

impl Disk {
    pub(super) fn run(&mut self, command: StoreCommand) -> StoreOutcome {
        if self.is_broken {
            return StoreOutcome::Failed;
        }
        match command {
            StoreCommand::Load { key } => {
                StoreOutcome::Loaded(self.registers.get(&key.id()).cloned())
            }
            StoreCommand::Save { registers } => {
                StoreOutcome::Saved(registers.into_iter().map(|held| self.save(held)).collect())
            }
            StoreCommand::LoadMany { ids } => StoreOutcome::LoadedMany(
                ids.iter().filter_map(|id| self.registers.get(id).cloned()).collect(),
            ),
            StoreCommand::Digest { kind, arc } => {
                // Not the store's digest, but one that tells the same differences.
                let points = self.points(kind, arc);
                let text: String = points.iter().map(|id| self.describe(kind, *id)).collect();
                let mut digest = [0; 32];
                digest[..20].copy_from_slice(&Id::of_key(text.as_bytes()).to_bytes());
                StoreOutcome::Digest { digest, count: points.len() as u64 }
            }
            StoreCommand::List { kind, arc, after, limit } => self.list(kind, arc, after, limit),
        }
    }

    fn save(&mut self, register: Register) -> Option<crate::register::Ballot> {
        let id = register.key.id();
        let before = self.registers.get(&id);
        let higher = before.map(|held| held.ballot).filter(|ballot| *ballot > register.ballot);
        if register.supersedes(before) {
            self.registers.insert(id, register);
        }
        higher
    }

    fn list(&self, kind: Kind, arc: Interval, after: Option<Id>, limit: usize) -> StoreOutcome {
        let mut points = self.points(kind, arc);
        if let Some(after) = after {
            points.retain(|id| away(arc, *id) > away(arc, after));
        }
        let last = points.len() <= limit;
        points.truncate(limit);
        match kind {
            Kind::Registers => StoreOutcome::Registers {
                entries: points.iter().map(|id| (*id, self.registers[id].ballot)).collect(),
                last,
            },
            Kind::Chunks => StoreOutcome::Chunks {
                entries: points.iter().map(|id| self.chunks[id]).collect(),
                last,
            },
        }
    }

    fn points(&self, kind: Kind, arc: Interval) -> Vec<Id> {
        let mut points: Vec<Id> = match kind {
            Kind::Registers => self.registers.keys().copied().collect(),
            Kind::Chunks => self.chunks.keys().copied().collect(),
        };
        points.retain(|id| arc.contains(*id));
        points.sort_by_key(|id| away(arc, *id));
        points
    }

    fn describe(&self, kind: Kind, id: Id) -> String {
        match kind {
            Kind::Registers => format!("{id} {:?};", self.registers[&id].ballot),
            Kind::Chunks => format!("{id};"),
        }
    }
}

/// Clockwise from the start of the arc; on a full circle the start itself comes last.
fn away(arc: Interval, id: Id) -> (bool, Id) {
    let away = arc.start.distance_to(id);
    (away == Id::ZERO, away)
}
