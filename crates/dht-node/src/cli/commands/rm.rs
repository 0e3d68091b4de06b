//! `rm`: deletes a file.

use std::time::Instant;

use super::{millis, with_client};
use crate::cli::args::{Globals, RmArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::RemoveJson;
use crate::cli::keys::{KeyJson, parse_key, show_key};
use crate::cli::output::Output;
use crate::client::new_operation;

pub(super) fn run(globals: &Globals, args: &RmArgs, output: Output) -> Result<Exit, Failure> {
    if args.if_match.is_some() {
        return Err(Failure::not_built("--if-match", "rm deletes whatever version is there"));
    }
    let key =
        parse_key(&args.key, args.key_hex).map_err(|error| Failure::usage(error.to_string()))?;
    with_client(globals, async |client| {
        let began = Instant::now();
        let version = client.remove(&key, new_operation()).await?;
        let json = RemoveJson {
            key: KeyJson::of(key.as_bytes()),
            id: key.id(),
            version,
            elapsed_ms: millis(began.elapsed()),
        };
        output.summary(&json, || format!("deleted {}\n", show_key(key.as_bytes())))?;
        Ok(Exit::Done)
    })
}
