//! `get`: fetches a file.

mod text;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Instant;

use dht_core::message::client::FileReport;
use dht_core::register::Key;

use super::{millis, with_client};
use crate::cli::args::{GetArgs, Globals};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{GetJson, HexJson};
use crate::cli::keys::{KeyJson, parse_key, show_key};
use crate::cli::output::Output;
use crate::cli::target::Target;
use crate::cli::units::show_bytes;
use crate::client::{Client, ClientError};
use text::TextOnly;

pub(super) fn run(globals: &Globals, args: &GetArgs, output: Output) -> Result<Exit, Failure> {
    if args.range.is_some() {
        return Err(Failure::not_built("--range", "get fetches whole files"));
    }
    let key =
        parse_key(&args.key, args.key_hex).map_err(|error| Failure::usage(error.to_string()))?;
    let file = args.output.as_deref().filter(|path| *path != Path::new("-"));
    match file {
        Some(path) => to_file(globals, &key, path, args.force, output),
        None if output.is_json() => Err(Failure::usage(
            "with --json the bytes cannot go to stdout; name a file with -o FILE",
        )),
        None => to_stdout(globals, &key, output),
    }
}

fn to_file(
    globals: &Globals,
    key: &Key,
    path: &Path,
    force: bool,
    output: Output,
) -> Result<Exit, Failure> {
    // What cannot be written is known before anybody is asked.
    let target = Target::choose(path, force)?;
    with_client(globals, async |client| {
        let began = Instant::now();
        let report = fetch(client, key, &target, output).await?;
        let json = GetJson {
            key: KeyJson::of(key.as_bytes()),
            size: report.size,
            hash: HexJson(report.hash),
            version: report.version,
            hops: report.hops,
            verified: true,
            resumed_bytes: 0,
            elapsed_ms: millis(began.elapsed()),
        };
        output.summary(&json, || {
            let (size, key) = (show_bytes(json.size), show_key(key.as_bytes()));
            format!("fetched {key}, {size}, to {}: every byte is right\n", path.display())
        })?;
        Ok(Exit::Done)
    })
}

/// A file can be begun again: should the member vanish half-way, one more attempt goes to whoever
/// answers then.
async fn fetch(
    client: &Client,
    key: &Key,
    target: &Target,
    output: Output,
) -> Result<FileReport, Failure> {
    let progress = output.progress();
    progress.message("fetching");
    let mut retried = false;
    loop {
        let mut draft = target.begin().await?;
        let told = |done, size| progress.bytes(done, Some(size));
        match client.get(key, draft.writer(), told).await {
            Ok(report) => {
                draft.finish().await?;
                return Ok(report);
            }
            Err(error) if !retried && client.move_on(&error).await => retried = true,
            Err(error) => return Err(error.into()),
        }
    }
}

fn to_stdout(globals: &Globals, key: &Key, output: Output) -> Result<Exit, Failure> {
    with_client(globals, async |client| {
        let progress = output.progress();
        progress.message("fetching");
        let told = |done, size| progress.bytes(done, Some(size));
        let mut stdout = tokio::io::stdout();
        let outcome = if io::stdout().is_terminal() {
            client.get(key, &mut TextOnly::new(stdout), told).await
        } else {
            client.get(key, &mut stdout, told).await
        };
        match outcome {
            Ok(_) => Ok(Exit::Done),
            Err(ClientError::Output(error)) if text::is_binary(&error) => Err(Failure::usage(
                "the file is no text and would garble the terminal; name a file with -o FILE",
            )),
            Err(error) => Err(error.into()),
        }
    })
}
