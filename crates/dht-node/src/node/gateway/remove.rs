//! `rm`: a tombstone in the register. Chunks stay until space is reclaimed.

use dht_core::event::{ReadOutcome, WriteOutcome};
use dht_core::message::client::ClientResponse;
use dht_core::register::{Key, OperationId, Register, Value};

use super::failure::ClientFailure;
use crate::node::shared::Shared;

/// Deletes a key; absent is an error, unless this very operation deleted it.
pub(super) async fn remove(
    shared: &Shared,
    key: Key,
    operation: OperationId,
) -> Result<ClientResponse, ClientFailure> {
    super::place(shared).await?;
    let outcome = shared.driver.read(key.clone()).await?;
    let ReadOutcome::Value { register, .. } = outcome else {
        return Err(ClientFailure::of_read(outcome));
    };
    match register {
        None => return Err(ClientFailure::not_found()),
        Some(Register { value: Value::Deleted, operations, ballot, .. }) => {
            if operations.last() == Some(&operation) {
                return Ok(ClientResponse::Removed { version: ballot.to_string() });
            }
            return Err(ClientFailure::not_found());
        }
        Some(_) => {}
    }
    match shared.driver.write(key, operation, Value::Deleted).await? {
        WriteOutcome::Done { register, .. } => {
            Ok(ClientResponse::Removed { version: register.ballot.to_string() })
        }
        outcome => Err(ClientFailure::of_write(outcome)),
    }
}
