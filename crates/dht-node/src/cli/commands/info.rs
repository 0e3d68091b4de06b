//! `info`: a file's manifest, and who holds what of it.

use dht_core::message::client::{InfoReport, ReplicaState};
use dht_core::register::Key;

use super::with_client;
use crate::cli::args::{Globals, InfoArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{ChunkJson, HexJson, InfoJson, PeerJson, ReplicaJson, moment};
use crate::cli::keys::{KeyJson, parse_key, show_key, show_text};
use crate::cli::output::{Output, table_text};
use crate::cli::units::show_bytes;
use crate::client::hex;

pub(super) fn run(globals: &Globals, args: &InfoArgs, output: Output) -> Result<Exit, Failure> {
    let key =
        parse_key(&args.key, args.key_hex).map_err(|error| Failure::usage(error.to_string()))?;
    with_client(globals, async |client| {
        let json = shape(&key, client.info(&key).await?);
        output.result(&json, || for_people(&json, &key, output))?;
        Ok(Exit::Done)
    })
}

fn shape(key: &Key, report: InfoReport) -> InfoJson {
    let replicas = report
        .replicas
        .iter()
        .map(|(contact, state)| ReplicaJson { peer: PeerJson::of(contact), state: word(*state) })
        .collect();
    let chunks = (0u64..)
        .zip(&report.chunks)
        .map(|(index, (chunk, holders))| ChunkJson {
            index,
            hash: HexJson(chunk.hash),
            size: chunk.len,
            copies: holders.len(),
            holders: holders.iter().map(PeerJson::of).collect(),
        })
        .collect();
    InfoJson {
        key: KeyJson::of(key.as_bytes()),
        id: key.id(),
        size: report.file.size,
        hash: HexJson(report.file.hash),
        version: report.file.version,
        content_type: report.file.content_type,
        meta: report.file.meta,
        created: moment(report.created_ms),
        replicas,
        chunks,
        chunk_count: report.chunk_count,
    }
}

fn word(state: ReplicaState) -> &'static str {
    match state {
        ReplicaState::Current => "current",
        ReplicaState::Outdated => "outdated",
        ReplicaState::Missing => "missing",
        ReplicaState::Silent => "silent",
    }
}

fn for_people(json: &InfoJson, key: &Key, output: Output) -> String {
    let mut facts = output.table(&["key", &show_key(key.as_bytes())]);
    facts.add_row(["point", &json.id.to_string()]);
    facts.add_row(["size", &format!("{} ({} bytes)", show_bytes(json.size), json.size)]);
    facts.add_row(["hash", &hex(&json.hash.0)]);
    facts.add_row(["version", &json.version]);
    facts.add_row(["created", json.created.as_deref().unwrap_or("unknown")]);
    if let Some(content_type) = &json.content_type {
        facts.add_row(["content type", &show_text(content_type)]);
    }
    for (name, value) in &json.meta {
        facts.add_row([format!("meta {}", show_text(name)), show_text(value)]);
    }
    let mut manifest = output.table(&["manifest at", "address", "copy"]);
    for replica in &json.replicas {
        let addr = replica.peer.addr.as_deref().unwrap_or("unknown");
        manifest.add_row([&replica.peer.id.to_string(), addr, replica.state]);
    }
    let mut text = format!("{}\n{}", table_text(&facts), table_text(&manifest));
    if json.chunks.is_empty() {
        text.push_str("\nno chunks: the file lies in its manifest\n");
        return text;
    }
    let mut chunks = output.table(&[">chunk", ">bytes", ">copies", "at", "hash"]);
    for chunk in &json.chunks {
        let holders: Vec<String> = chunk.holders.iter().map(|peer| short(&peer.id)).collect();
        chunks.add_row([
            chunk.index.to_string(),
            chunk.size.to_string(),
            chunk.copies.to_string(),
            holders.join(" "),
            hex(&chunk.hash.0),
        ]);
    }
    text.push('\n');
    text.push_str(&table_text(&chunks));
    let unlisted = json.chunk_count.saturating_sub(json.chunks.len() as u64);
    if unlisted > 0 {
        text.push_str(&format!("and {unlisted} more chunks\n"));
    }
    text
}

/// The first digits of an id: enough to tell members of one ring apart.
pub(super) fn short(id: &dht_core::Id) -> String {
    let mut text = id.to_string();
    text.truncate(8);
    text
}
