//! Reads the manifest of a key out of its register.

use dht_core::Contact;
use dht_core::event::ReadOutcome;
use dht_core::manifest::Manifest;
use dht_core::message::client::{ClientErrorCode, FileReport, ReplicaState};
use dht_core::register::{Key, Register, Value};

use super::failure::ClientFailure;
use super::refs::is_content_sound;
use crate::node::shared::Shared;

/// A file as its register tells it.
pub(super) struct File {
    pub(super) manifest: Manifest,
    pub(super) report: FileReport,
    /// Who should hold the manifest, and what each said.
    pub(super) replicas: Vec<(Contact, ReplicaState)>,
}

/// Reads a key; a tombstone is as good as nothing.
pub(super) async fn read(shared: &Shared, key: Key) -> Result<File, ClientFailure> {
    let outcome = shared.driver.read(key).await?;
    let ReadOutcome::Value { register, replicas, hops } = outcome else {
        return Err(ClientFailure::of_read(outcome));
    };
    let Some(Register { value: Value::Present(form), ballot, .. }) = register else {
        return Err(ClientFailure::not_found());
    };
    let manifest = decode(&form).ok_or_else(unreadable)?;
    let report = FileReport {
        size: manifest.size,
        hash: manifest.hash,
        version: ballot.to_string(),
        content_type: manifest.content_type.clone(),
        meta: manifest.meta.clone(),
        hops,
    };
    Ok(File { manifest, report, replicas })
}

/// A manifest from its stored form, if it is one that this program can use.
pub(super) fn decode(form: &[u8]) -> Option<Manifest> {
    let manifest: Manifest = postcard::from_bytes(form).ok()?;
    (manifest.form == Manifest::FORM && is_content_sound(&manifest.content)).then_some(manifest)
}

fn unreadable() -> ClientFailure {
    ClientFailure::new(
        ClientErrorCode::Incomplete,
        "the key's manifest cannot be read; a newer program may have written it: update this member",
    )
}
