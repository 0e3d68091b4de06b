//! What outlives one run of a node: its key, its ring, how often it started, whom it knew.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use dht_core::config::RingParams;
use dht_core::{Contact, IntervalSet};
use dht_net::{Identity, IdentityError};
use dht_store::{DiskStore, MemoryStore, OpenError, Options, Store, StoreError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
    /// Whom earlier lives knew.
    pub(super) known: Known,
    /// Whether registers or chunks are stored: then the ring cannot be given up for another.
    pub(super) holds: bool,
}

/// What the core wants to be told in its next life.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) contacts: Vec<Contact>,
    pub(super) open: IntervalSet,
}

impl Life {
    /// Opens the data place and counts the start, durably. Blocks.
    pub(super) fn open(place: &DataPlace) -> Result<Life, StartError> {
        let (identity, store): (Identity, Arc<dyn Store>) = match place {
            DataPlace::Ephemeral => (Identity::generate(), Arc::new(MemoryStore::new())),
            DataPlace::Dir(dir) => {
                let identity = open_identity(dir)?;
                let store = DiskStore::open(&dir.join(STORE), Options::default())
                    .map_err(|error| store_error(dir, error))?;
                (identity, Arc::new(store))
            }
        };
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
            ring: load(store.as_ref(), RING)?,
            known: load(store.as_ref(), KNOWN)?.unwrap_or_default(),
            holds: usage.keys > 0 || usage.chunks > 0,
            store,
        })
    }
}

/// Keeps the ring that the node belongs to from now on.
pub(super) fn save_ring(store: &dyn Store, params: &RingParams) -> Result<(), StoreError> {
    save(store, RING, params)
}

/// Keeps whom the node knows.
pub(super) fn save_known(store: &dyn Store, known: &Known) -> Result<(), StoreError> {
    save(store, KNOWN, known)
}

/// The key is made only where nothing is stored yet: a new key over old data would orphan them.
fn open_identity(dir: &Path) -> Result<Identity, StartError> {
    fs::create_dir_all(dir)
        .map_err(|source| StartError::DataDir { path: dir.to_owned(), source })?;
    let key = dir.join(KEY);
    let is_new = match fs::read_dir(dir.join(STORE)) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => true,
    };
    let opened = if is_new { Identity::load_or_create(&key) } else { Identity::load(&key) };
    opened.map_err(|error| match error {
        IdentityError::Missing { path } => {
            StartError::IdentityMissing { path: dir.to_owned(), key: path }
        }
        other => StartError::Identity(other),
    })
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
    let Some(record) = store.meta(name).map_err(StartError::Store)? else { return Ok(None) };
    match record.split_first() {
        Some((&FORM, value)) => {
            postcard::from_bytes(value).map(Some).map_err(|_| StartError::RecordDamaged { name })
        }
        _ => Err(StartError::RecordDamaged { name }),
    }
}

/// File of the key, in the data directory.
const KEY: &str = "identity.key";
/// Directory of the store, in the data directory.
const STORE: &str = "store";
/// First byte of every named record: its form.
const FORM: u8 = 1;
/// Bits of an incarnation that are drawn at random.
const DRAW_BITS: u32 = 16;
const LIVES: &str = "lives";
const RING: &str = "ring";
const KNOWN: &str = "known";
