//! The index: a database that is opened again when its file failed, and asks its callers' questions
//! once more after that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{Database, Durability, ReadTransaction, ReadableDatabase};

use super::backend::{Health, Opener};
use super::tables::{Applied, Change, Tables};
use crate::error::{Damaged, StoreError, is_no_space};

/// Most chunk rows that are not durable yet. More: fewer syncs when only chunks come, more rows to
/// find again after a crash. 256 (guess: a quarter of a GiB of chunks for one sync).
const MAX_UNSYNCED: usize = 256;

/// The open index.
pub(crate) struct Index {
    path: PathBuf,
    opener: Opener,
    health: Arc<Health>,
    opened: RwLock<Opened>,
    /// Chunk rows that were committed but are not durable: to be done again after a reopening.
    unsynced: Mutex<Vec<Change>>,
}

struct Opened {
    database: Option<Database>,
    /// How often it was opened: tells one failure from the next.
    generation: u64,
    closed: bool,
}

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The database or its file.
    Index(Box<redb::Error>),
    /// One record.
    Record(Damaged),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Index(Box::new(error.into()))
    }
}

impl Index {
    /// Opens a database that [`create_database`] made.
    pub(crate) fn open(path: &Path, opener: Opener) -> Result<Index, Box<redb::Error>> {
        let health = Arc::new(Health::default());
        let database = open_database(&opener, &health, &[])?;
        let opened = Opened { database: Some(database), generation: 0, closed: false };
        Ok(Index {
            path: path.to_owned(),
            opener,
            health,
            opened: RwLock::new(opened),
            unsynced: Mutex::default(),
        })
    }

    /// Answers a question from one consistent state.
    pub(crate) fn read<T>(
        &self,
        question: impl Fn(&ReadTransaction) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.attempt(|database| question(&database.begin_read()?))
    }

    /// Carries out changes in one transaction, as a whole or not at all; durable before it returns,
    /// unless all that changed are chunk rows. Answers one [`Applied`] for each change.
    pub(crate) fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>, StoreError> {
        self.attempt(|database| self.transact(database, changes))
    }

    /// Whether chunk rows wait to become durable.
    pub(crate) fn has_unsynced(&self) -> bool {
        !self.unsynced().is_empty()
    }

    /// Ends the index once running calls are done. The file is in order then.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.closed = true;
        let Some(database) = opened.database.take() else { return Ok(()) };
        guarded(|| Ok(database.close()?)).map_err(|failure| self.error(failure))
    }

    fn transact(&self, database: &Database, changes: &[Change]) -> Result<Vec<Applied>, Failure> {
        let mut transaction = database.begin_write()?;
        let mut tables = Tables::open(&transaction)?;
        let applied =
            changes.iter().map(|change| tables.apply(change)).collect::<redb::Result<Vec<_>>>()?;
        drop(tables);
        let changed: Vec<&Change> = changes
            .iter()
            .zip(&applied)
            .filter_map(|(change, applied)| applied.changed.then_some(change))
            .collect();
        if changed.is_empty() {
            transaction.abort()?;
            return Ok(applied);
        }
        let mut unsynced = self.unsynced();
        if changed.iter().any(|change| change.is_durable())
            || unsynced.len() + changed.len() > MAX_UNSYNCED
        {
            transaction.commit()?;
            unsynced.clear();
        } else {
            transaction.set_durability(Durability::None)?;
            transaction.commit()?;
            unsynced.extend(changed.into_iter().cloned());
        }
        Ok(applied)
    }

    /// Runs an operation, and once more on a reopened database if the first failed: after any
    /// failure of its file the database refuses everything until it is opened again.
    fn attempt<T>(
        &self,
        operation: impl Fn(&Database) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let (seen, first) = self.attempt_once(&operation)?;
        match first {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(failure @ Failure::Record(_))) => return Err(self.error(failure)),
            Some(Err(Failure::Index(error))) => {
                tracing::warn!(path = %self.path.display(), %error, "the index failed; reopening it");
            }
            None => {}
        }
        self.reopen(seen)?;
        match self.attempt_once(&operation)?.1 {
            Some(answer) => answer.map_err(|failure| self.error(failure)),
            None => Err(self.error(redb::Error::PreviousIo.into())),
        }
    }

    /// The answer of the database as it is open now, if it is, and which opening that was.
    #[allow(clippy::type_complexity)] // A pair of a number and an answer needs no name.
    fn attempt_once<T>(
        &self,
        operation: impl Fn(&Database) -> Result<T, Failure>,
    ) -> Result<(u64, Option<Result<T, Failure>>), StoreError> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        self.check_open(&opened)?;
        let answer = opened.database.as_ref().map(|database| guarded(|| operation(database)));
        Ok((opened.generation, answer))
    }

    /// Opens the database again, unless another thread has done so since `seen`, and does again
    /// what was not durable.
    fn reopen(&self, seen: u64) -> Result<(), StoreError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        self.check_open(&opened)?;
        if opened.generation != seen && opened.database.is_some() {
            return Ok(());
        }
        if let Some(broken) = opened.database.take() {
            // It can only repeat its failure here.
            let _ = guarded(|| Ok(broken.close()?));
            self.check_open(&opened)?;
        }
        let mut unsynced = self.unsynced();
        let database = open_database(&self.opener, &self.health, &unsynced)
            .map_err(|error| self.error(Failure::Index(error)))?;
        unsynced.clear();
        opened.database = Some(database);
        opened.generation += 1;
        Ok(())
    }

    fn check_open(&self, opened: &Opened) -> Result<(), StoreError> {
        if opened.closed {
            Err(StoreError::Closed)
        } else if self.health.sync_failed() {
            Err(StoreError::SyncFailed { path: self.path.clone() })
        } else {
            Ok(())
        }
    }

    fn error(&self, failure: Failure) -> StoreError {
        let path = self.path.clone();
        match failure {
            Failure::Record(record) => StoreError::Corrupt { record },
            Failure::Index(_) if self.health.sync_failed() => StoreError::SyncFailed { path },
            Failure::Index(error) => match *error {
                redb::Error::Io(source) if is_no_space(&source) => {
                    StoreError::io("write", path, source)
                }
                other => StoreError::Index { path, source: Arc::new(other) },
            },
        }
    }

    fn unsynced(&self) -> MutexGuard<'_, Vec<Change>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a new database with all its tables, and closes it.
pub(crate) fn create_database(opener: &Opener) -> Result<(), Box<redb::Error>> {
    let health = Arc::new(Health::default());
    let create = || -> Result<(), Failure> {
        let database = opener(&health)?;
        let transaction = database.begin_write()?;
        Tables::open(&transaction)?;
        transaction.commit()?;
        Ok(database.close()?)
    };
    guarded(create).map_err(database_error)
}

/// Opens the database and repeats `changes` durably. A file without our tables is not ours: an
/// empty database in the place of a full one must not pass for a node that never stored anything.
fn open_database(
    opener: &Opener,
    health: &Arc<Health>,
    changes: &[Change],
) -> Result<Database, Box<redb::Error>> {
    let open = || -> Result<Database, Failure> {
        let database = opener(health)?;
        let tables = database.begin_read()?.list_tables()?.count();
        if tables < Tables::COUNT {
            let text = format!("it has {tables} of {} tables", Tables::COUNT);
            return Err(redb::Error::Corrupted(text).into());
        }
        if !changes.is_empty() {
            let transaction = database.begin_write()?;
            let mut tables = Tables::open(&transaction)?;
            for change in changes {
                tables.apply(change)?;
            }
            drop(tables);
            transaction.commit()?;
        }
        Ok(database)
    };
    guarded(open).map_err(database_error)
}

fn database_error(failure: Failure) -> Box<redb::Error> {
    match failure {
        Failure::Index(error) => error,
        Failure::Record(record) => Box::new(redb::Error::Corrupted(record.to_string())),
    }
}

/// The database panics on some pages that were damaged from outside (its own documentation says so
/// of a plain open). A panic must not take the callers of other pages along: it becomes an error.
fn guarded<T>(operation: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(operation)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(redb::Error::Corrupted(format!("the database panicked: {text}")).into())
    })
}
