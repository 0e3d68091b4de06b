//! What a simulated node keeps: registers, chunks, and what it needs to find its way back.

use std::collections::BTreeMap;

use dht_core::event::{Memory, StoreCommand, StoreOutcome};
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::ring::Kind;
use dht_core::register::{Ballot, Register};
use dht_core::{Id, Interval};

/// The disk of one node. It outlives the node's lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    registers: BTreeMap<Id, Register>,
    chunks: BTreeMap<Id, ChunkRef>,
    /// Of the last [`dht_core::Effect::Persist`].
    pub(crate) memory: Memory,
}

impl Disk {
    /// Does what the core orders. Every write is durable at once.
    pub(crate) fn carry_out(&mut self, command: StoreCommand) -> StoreOutcome {
        match command {
            StoreCommand::Load { key } => {
                StoreOutcome::Loaded(self.registers.get(&key.id()).cloned())
            }
            StoreCommand::Save { registers } => {
                StoreOutcome::Saved(registers.into_iter().map(|new| self.save(new)).collect())
            }
            StoreCommand::LoadMany { ids } => {
                let held = ids.iter().filter_map(|id| self.registers.get(id));
                StoreOutcome::LoadedMany(held.cloned().collect())
            }
            StoreCommand::Digest { kind, arc } => self.digest(kind, &arc),
            StoreCommand::List { kind, arc, after, limit } => self.list(kind, arc, after, limit),
        }
    }

    /// Keeps a chunk.
    pub(crate) fn keep_chunk(&mut self, chunk: ChunkRef) {
        self.chunks.insert(chunk.id(), chunk);
    }

    /// Whether a chunk is kept.
    pub(crate) fn holds_chunk(&self, chunk: &ChunkRef) -> bool {
        self.chunks.contains_key(&chunk.id())
    }

    /// The register at a point.
    pub(crate) fn register(&self, id: Id) -> Option<&Register> {
        self.registers.get(&id)
    }

    /// Keeps a register unless what is held has a higher ballot; that one then.
    fn save(&mut self, register: Register) -> Option<Ballot> {
        let id = register.key.id();
        let held = self.registers.get(&id).map(|held| held.ballot);
        if held.is_none_or(|held| held <= register.ballot) {
            self.registers.insert(id, register);
            return None;
        }
        held
    }

    fn digest(&self, kind: Kind, arc: &Interval) -> StoreOutcome {
        // Any function of all entries in order will do: only simulated disks compare them.
        let mut digest: ContentHash = [0; 32];
        let mut count = 0;
        let mut mix = |entry: &[u8]| {
            count += 1;
            let mut bytes = digest.to_vec();
            bytes.extend_from_slice(entry);
            digest[..Id::LEN].copy_from_slice(&Id::of_key(&bytes).to_bytes());
        };
        match kind {
            Kind::Registers => {
                for (id, register) in clockwise(&self.registers, arc) {
                    let Ballot { epoch, counter, peer } = register.ballot;
                    let mut entry = id.to_bytes().to_vec();
                    entry.extend_from_slice(&epoch.to_be_bytes());
                    entry.extend_from_slice(&counter.to_be_bytes());
                    entry.extend_from_slice(peer.as_bytes());
                    mix(&entry);
                }
            }
            Kind::Chunks => clockwise(&self.chunks, arc).for_each(|(_, chunk)| mix(&chunk.hash)),
        }
        StoreOutcome::Digest { digest, count }
    }

    fn list(&self, kind: Kind, arc: Interval, after: Option<Id>, limit: usize) -> StoreOutcome {
        // The rest of a whole circle is a shorter arc, except where it is all of it again.
        let rest = match after {
            Some(after) if after == arc.end => return nothing(kind),
            Some(after) => Interval::new(after, arc.end),
            None => arc,
        };
        match kind {
            Kind::Registers => {
                let mut held =
                    clockwise(&self.registers, &rest).map(|(id, held)| (id, held.ballot));
                let entries = held.by_ref().take(limit).collect();
                StoreOutcome::Registers { entries, last: held.next().is_none() }
            }
            Kind::Chunks => {
                let mut held = clockwise(&self.chunks, &rest).map(|(_, chunk)| *chunk);
                let entries = held.by_ref().take(limit).collect();
                StoreOutcome::Chunks { entries, last: held.next().is_none() }
            }
        }
    }
}

/// The entries of an arc, in order from its start.
fn clockwise<'a, T>(
    map: &'a BTreeMap<Id, T>,
    arc: &Interval,
) -> impl Iterator<Item = (Id, &'a T)> + use<'a, T> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    // One stretch, or two where the arc passes zero; the second one is empty otherwise.
    let (first, second) = match arc.start < arc.end {
        true => ((Excluded(arc.start), Included(arc.end)), None),
        false => ((Excluded(arc.start), Unbounded), Some((Unbounded, Included(arc.end)))),
    };
    let second = second.into_iter().flat_map(|range| map.range(range));
    map.range(first).chain(second).map(|(id, entry)| (*id, entry))
}

fn nothing(kind: Kind) -> StoreOutcome {
    match kind {
        Kind::Registers => StoreOutcome::Registers { entries: Vec::new(), last: true },
        Kind::Chunks => StoreOutcome::Chunks { entries: Vec::new(), last: true },
    }
}

#[cfg(test)]
mod tests {
    use dht_core::PeerKey;
    use dht_core::register::{Key, Value};

    use super::*;

    fn register(name: &str, counter: u64) -> Register {
        let key = Key::new(name.to_owned()).expect("short");
        let ballot = Ballot { epoch: 1, counter, peer: PeerKey([0; 32]) };
        Register { key, ballot, operations: Vec::new(), value: Value::Deleted }
    }

    fn filled() -> (Disk, Vec<Id>) {
        let mut disk = Disk::default();
        let names: Vec<String> = (0..9).map(|n| format!("key {n}")).collect();
        let registers = names.iter().map(|name| register(name, 5)).collect();
        disk.carry_out(StoreCommand::Save { registers });
        let mut ids: Vec<Id> = names.iter().map(|name| Id::of_key(name.as_bytes())).collect();
        ids.sort();
        (disk, ids)
    }

    fn page(disk: &mut Disk, arc: Interval, after: Option<Id>, limit: usize) -> (Vec<Id>, bool) {
        let command = StoreCommand::List { kind: Kind::Registers, arc, after, limit };
        match disk.carry_out(command) {
            StoreOutcome::Registers { entries, last } => {
                (entries.into_iter().map(|(id, _)| id).collect(), last)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_higher_ballot_stays() {
        let (mut disk, _) = filled();
        let mut save = |counter| {
            disk.carry_out(StoreCommand::Save { registers: vec![register("key 1", counter)] })
        };
        let held = register("key 1", 5).ballot;
        assert_eq!(save(4), StoreOutcome::Saved(vec![Some(held)]));
        assert_eq!(save(5), StoreOutcome::Saved(vec![None]), "the same write again");
        assert_eq!(save(6), StoreOutcome::Saved(vec![None]));
        let loaded = disk.carry_out(StoreCommand::Load { key: register("key 1", 0).key });
        assert_eq!(loaded, StoreOutcome::Loaded(Some(register("key 1", 6))));
    }

    #[test]
    fn pages_run_clockwise_and_end() {
        let (mut disk, ids) = filled();
        let wrapped = Interval::new(ids[6], ids[2]);
        let order = [ids[7], ids[8], ids[0], ids[1], ids[2]];
        assert_eq!(page(&mut disk, wrapped, None, 9), (order.to_vec(), true));
        assert_eq!(page(&mut disk, wrapped, None, 3), (order[..3].to_vec(), false));
        assert_eq!(page(&mut disk, wrapped, Some(ids[0]), 9), (order[3..].to_vec(), true));
        assert_eq!(page(&mut disk, wrapped, Some(ids[2]), 9), (Vec::new(), true));
        let (all, last) = page(&mut disk, Interval::full(ids[3]), None, 99);
        assert_eq!((all.len(), all[0], all[8], last), (9, ids[4], ids[3], true));
    }

    #[test]
    fn digests_are_about_what_lies_in_the_arc() {
        let (mut disk, ids) = filled();
        let digest = |disk: &mut Disk, arc| {
            disk.carry_out(StoreCommand::Digest { kind: Kind::Registers, arc })
        };
        let (here, there) = (Interval::new(ids[0], ids[4]), Interval::new(ids[4], ids[0]));
        let before = (digest(&mut disk, here), digest(&mut disk, there));
        let changed = (0..9).map(|n| register(&format!("key {n}"), 6));
        let changed = changed.filter(|held| held.key.id() == ids[2]).collect();
        disk.carry_out(StoreCommand::Save { registers: changed });
        assert_ne!(digest(&mut disk, here), before.0);
        assert_eq!(digest(&mut disk, there), before.1);
    }
}
