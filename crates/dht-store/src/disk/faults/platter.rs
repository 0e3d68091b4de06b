//! A disk in memory under a database: it fails when told to, and knows what a loss of power may
//! take away.

use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use crate::disk::backend::{Opener, Watched, open_backend};

/// Memory for pages: so small that transactions spill while they run.
const CACHE: usize = 64 * 1024;

/// The file of a database.
#[derive(Debug, Default)]
pub(super) struct Platter {
    /// What reads see: everything written.
    seen: Vec<u8>,
    /// What a loss of power cannot take away.
    synced: Vec<u8>,
    /// Since the last sync, in order.
    unsynced: Vec<Step>,
    /// Writes, changes of length and syncs so far.
    pub(super) steps: u64,
    /// Which step fails.
    pub(super) fault: Option<Fault>,
    /// What the failed step was.
    pub(super) failed: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// This step fails; later ones do not.
    Once(u64),
    /// This step and every later one fail: the power is gone.
    From(u64),
    /// This step finds the disk full; later ones do not.
    Full(u64),
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize, Vec<u8>),
    Len(usize),
}

impl Step {
    fn act_on(&self, bytes: &mut Vec<u8>) {
        match self {
            Step::Write(offset, data) => {
                let end = offset + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(data);
            }
            Step::Len(len) => bytes.resize(*len, 0),
        }
    }
}

impl Platter {
    fn step(&mut self, kind: &'static str) -> io::Result<()> {
        let now = self.steps;
        self.steps += 1;
        let error = match self.fault {
            Some(Fault::Once(at)) if now == at => io::ErrorKind::Other,
            Some(Fault::From(at)) if now >= at => io::ErrorKind::Other,
            Some(Fault::Full(at)) if now == at && kind != "sync" => io::ErrorKind::StorageFull,
            _ => return Ok(()),
        };
        self.failed.get_or_insert(kind);
        Err(error.into())
    }

    fn change(&mut self, kind: &'static str, step: Step) -> io::Result<()> {
        self.step(kind)?;
        step.act_on(&mut self.seen);
        self.unsynced.push(step);
        Ok(())
    }
}

/// A platter that database and test share.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(pub(super) Arc<Mutex<Platter>>);

impl Shared {
    /// Opens databases on it.
    pub(super) fn opener(&self) -> Opener {
        let platter = self.clone();
        Box::new(move |health| open_backend(Watched::new(platter.clone(), health), CACHE, false))
    }

    pub(super) fn set_fault(&self, fault: Option<Fault>) {
        self.0.lock().unwrap().fault = fault;
    }

    pub(super) fn steps(&self) -> u64 {
        self.0.lock().unwrap().steps
    }

    /// What a machine may find after a loss of power: all that was synced, and of the rest, step by
    /// step, what `keep` says, in any combination, for disks write in any order.
    pub(super) fn after_power_loss(&self, mut keep: impl FnMut() -> bool) -> Shared {
        let platter = self.0.lock().unwrap();
        let mut left = platter.synced.clone();
        for step in &platter.unsynced {
            if keep() {
                step.act_on(&mut left);
            }
        }
        let synced = left.clone();
        Shared(Arc::new(Mutex::new(Platter { seen: left, synced, ..Platter::default() })))
    }
}

impl StorageBackend for Shared {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.0.lock().unwrap();
        let range = offset as usize..offset as usize + out.len();
        let bytes = platter.seen.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().change("set_len", Step::Len(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.0.lock().unwrap();
        platter.step("sync")?;
        platter.synced = platter.seen.clone();
        platter.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().change("write", Step::Write(offset as usize, data.to_vec()))
    }
}
