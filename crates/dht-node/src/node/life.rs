//! What outlives one run of a node: its key, its ring, how often it started, whom it knew.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use dht_core::config::RingParams;
use dht_core::event::Memory;
use dht_net::{Identity, IdentityError};
use dht_store::{Create, DiskStore, MemoryStore, OpenError, Options, Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::config::DataPlace;
use super::error::StartError;

/// A data place, opened.
pub(super) struct Life {
    pub(super) identity: Arc<Identity>,
    pub(super) store: Arc<dyn Store>,
    /// Grows with every start.
    pub(super) incarnation: u64,
    /// The ring of earlier lives.
    pub(super) ring: Option<RingParams>,
    /// What the last life knew.
    pub(super) memory: Memory,
    /// Whether registers or chunks are stored: then the ring cannot be given up for another.
    pub(super) holds: bool,
}

impl Life {
    /// Opens the data place of a node in the ring of this name, and counts the start, durably.
    /// Blocks.
    pub(super) fn open(place: &DataPlace, ring_name: &str) -> Result<Life, StartError> {
        let (identity, store) = match place {
            DataPlace::Ephemeral => {
                (Identity::generate(), Arc::new(MemoryStore::new()) as Arc<dyn Store>)
            }
            DataPlace::Dir(dir) => open_dir(dir)?,
        };
        let ring: Option<RingParams> = load(store.as_ref(), RING)?;
        if let DataPlace::Dir(path) = place {
            check_ring_name(path, store.as_ref(), ring.is_some(), ring_name)?;
        }
        let life = match load::<u64>(store.as_ref(), LIVES)? {
            Some(last) => last.saturating_add(1),
            // Above every earlier life even if the store was lost and only the key was saved.
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |age| age.as_secs()),
        };
        save(store.as_ref(), LIVES, &life).map_err(StartError::Store)?;
        // Two copies of one directory count alike; the draw tells their lives apart.
        let incarnation = (life << DRAW_BITS) | u64::from(rand::random::<u16>());
        let usage = store.usage().map_err(StartError::Store)?;
        Ok(Life {
            identity: Arc::new(identity),
            incarnation,
            ring,
            memory: load_memory(store.as_ref())?,
            holds: usage.keys > 0 || usage.chunks > 0,
            store,
        })
    }
}

/// Keeps the ring that the node belongs to from now on.
pub(super) fn save_ring(store: &dyn Store, params: &RingParams) -> Result<(), StoreError> {
    save(store, RING, params)
}

/// Keeps what the next life should know.
pub(super) fn save_memory(store: &dyn Store, memory: &Memory) -> Result<(), StoreError> {
    save(store, MEMORY, memory)
}

/// The store is made before the key. So a key without a store tells of a store that was lost, and a
/// store without a key of a key that was lost, unless the node never started.
fn open_dir(dir: &Path) -> Result<(Identity, Arc<dyn Store>), StartError> {
    fs::create_dir_all(dir)
        .map_err(|source| StartError::DataDir { path: dir.to_owned(), source })?;
    let (key, store) = (dir.join(KEY), dir.join(STORE));
    match Identity::load(&key) {
        Ok(identity) => {
            let options = Options { create: Create::Never, ..Options::default() };
            let store = DiskStore::open(&store, options).map_err(|error| match error {
                OpenError::Missing { .. } => {
                    StartError::StoreMissing { path: store.clone(), key: key.clone() }
                }
                error => store_error(dir, error),
            })?;
            Ok((identity, Arc::new(store)))
        }
        Err(IdentityError::Missing { .. }) => {
            let store = DiskStore::open(&store, Options::default())
                .map_err(|error| store_error(dir, error))?;
            if load::<u64>(&store, LIVES)?.is_some() {
                return Err(StartError::IdentityMissing { path: dir.to_owned(), key });
            }
            let identity = Identity::create(&key).map_err(StartError::Identity)?;
            Ok((identity, Arc::new(store)))
        }
        Err(error) => Err(StartError::Identity(error)),
    }
}

/// What is stored belongs to the ring it was stored in: under another name it would be found by
/// nobody. A node that never had a ring may change its mind.
fn check_ring_name(
    path: &Path,
    store: &dyn Store,
    has_ring: bool,
    asked: &str,
) -> Result<(), StartError> {
    match load::<String>(store, RING_NAME)? {
        Some(held) if held == asked => Ok(()),
        Some(held) if has_ring => {
            Err(StartError::OtherRingName { path: path.to_owned(), held, asked: asked.to_owned() })
        }
        _ => save(store, RING_NAME, &asked.to_owned()).map_err(StartError::Store),
    }
}

fn store_error(dir: &Path, error: OpenError) -> StartError {
    match error {
        OpenError::InUse { holder, .. } => {
            StartError::DataDirInUse { path: dir.to_owned(), holder }
        }
        other => StartError::StoreOpen(Box::new(other)),
    }
}

fn save<T: Serialize>(store: &dyn Store, name: &str, value: &T) -> Result<(), StoreError> {
    let record = postcard::to_extend(value, vec![FORM]).expect("a vector takes everything");
    store.set_meta(name, &record)
}

fn load<T: DeserializeOwned>(
    store: &dyn Store,
    name: &'static str,
) -> Result<Option<T>, StartError> {
    match record(store, name)? {
        Some((_, value)) => decode(name, &value).map(Some),
        None => Ok(None),
    }
}

fn load_memory(store: &dyn Store) -> Result<Memory, StartError> {
    match record(store, MEMORY)? {
        Some((FIRST_FORM, value)) => {
            let (contacts, open) = decode(MEMORY, &value)?;
            Ok(Memory { contacts, open, alone: false })
        }
        Some((_, value)) => decode(MEMORY, &value),
        None => Ok(Memory::default()),
    }
}

/// A named record: its form, and the rest.
fn record(store: &dyn Store, name: &'static str) -> Result<Option<(u8, Vec<u8>)>, StartError> {
    let Some(record) = store.meta(name).map_err(StartError::Store)? else { return Ok(None) };
    match record.split_first() {
        Some((&form, value)) if (FIRST_FORM..=FORM).contains(&form) => {
            Ok(Some((form, value.to_vec())))
        }
        _ => Err(StartError::RecordDamaged { name }),
    }
}

fn decode<T: DeserializeOwned>(name: &'static str, value: &[u8]) -> Result<T, StartError> {
    postcard::from_bytes(value).map_err(|_| StartError::RecordDamaged { name })
}

/// File of the key, in the data directory.
const KEY: &str = "identity.key";
/// Directory of the store, in the data directory.
const STORE: &str = "store";
/// First byte of every named record: its form. In form 1 a memory did not say whether the node was
/// alone.
const FORM: u8 = 2;
const FIRST_FORM: u8 = 1;
/// Bits of an incarnation that are drawn at random.
const DRAW_BITS: u32 = 16;
const LIVES: &str = "lives";
const RING: &str = "ring";
const RING_NAME: &str = "ring name";
const MEMORY: &str = "known";

#[cfg(test)]
mod tests {
    use dht_core::{Contact, Id, Interval, IntervalSet};

    use super::*;

    #[test]
    fn a_memory_of_the_first_form_is_still_understood() {
        let store = MemoryStore::new();
        assert_eq!(load_memory(&store).expect("none"), Memory::default());
        let mut open = IntervalSet::new();
        open.insert(Interval::full(Id::ZERO));
        let old = postcard::to_extend(&(Vec::<Contact>::new(), &open), vec![FIRST_FORM]);
        store.set_meta(MEMORY, &old.expect("fits")).expect("kept");
        let memory = Memory { contacts: Vec::new(), open, alone: false };
        assert_eq!(load_memory(&store).expect("known"), memory);
        let memory = Memory { alone: true, ..memory };
        save_memory(&store, &memory).expect("kept");
        assert_eq!(load_memory(&store).expect("known"), memory);
        store.set_meta(MEMORY, &[FORM + 1]).expect("kept");
        assert!(matches!(load_memory(&store), Err(StartError::RecordDamaged { name: MEMORY })));
    }
}
