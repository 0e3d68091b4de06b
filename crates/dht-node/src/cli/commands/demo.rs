//! `demo`: a whole ring in this process.

mod cast;

use std::time::Instant;

use dht_core::Id;
use dht_core::manifest::ContentHash;
use dht_core::register::Key;
use tokio::runtime::Builder;

use super::info::short;
use super::{hops, millis, until_signal};
use crate::cli::args::{DemoArgs, Globals};
use crate::cli::deadline::Deadline;
use crate::cli::exit::{Exit, Failure, Kind};
use crate::cli::json::{DemoFileJson, DemoJson, HexJson};
use crate::cli::output::Output;
use crate::cli::signals::Signals;
use crate::cli::units::show_bytes;
use crate::client::{Client, PutOptions, hex};
use cast::Cast;

pub(super) fn run(globals: &Globals, args: &DemoArgs, output: Output) -> Result<Exit, Failure> {
    super::refuse_secret(globals)?;
    let built = Builder::new_multi_thread().enable_all().build();
    let runtime = built
        .map_err(|error| Failure::new(Kind::Failed, format!("cannot start a runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::watch();
        let play = Deadline::new(globals.deadline).bound(play(globals, args, output));
        until_signal(&mut signals, play).await
    });
    runtime.shutdown_background();
    outcome
}

/// The whole play. Every act says on stdout what it did, unless one JSON value is wanted.
async fn play(globals: &Globals, args: &DemoArgs, output: Output) -> Result<Exit, Failure> {
    let began = Instant::now();
    let progress = output.progress();
    progress.message("starting nodes");
    let mut cast = Cast::start(args.nodes.into(), globals, |started| {
        progress.count(started, args.nodes.into());
    })
    .await?;
    cast.wait_for_one_ring().await?;
    let formed_ms = millis(began.elapsed());
    let memory_per_node = resident_bytes().map(|bytes| bytes / u64::from(args.nodes));
    let memory = memory_per_node.map(|bytes| format!(", {} of memory each", show_bytes(bytes)));
    act(
        output,
        1,
        &format!(
            "{} nodes, started one by one on loopback, are one ring after {}{}",
            args.nodes,
            seconds(formed_ms),
            memory.unwrap_or_default()
        ),
    )?;

    let scene = store_and_fetch(&cast, output).await?;
    progress.message("counting hops");
    let client = cast.client(0).await?;
    let walk = client.walk().await?;
    let measured =
        hops::measure(&client, &walk, args.samples, super::drawn_seed(), &progress).await?;
    client.close().await;
    drop(progress);

    let (mended_ms, again) = kill_and_fetch(&mut cast, &scene, output).await?;
    let file = DemoFileJson { fetched_again_at: again, ..scene.file };
    cast.stop().await;
    let json = DemoJson {
        nodes: args.nodes.into(),
        formed_ms,
        file,
        killed: scene.owner,
        mended_ms,
        hops: measured.rows,
        memory_per_node,
        elapsed_ms: millis(began.elapsed()),
    };
    output.result(&json, || {
        format!(
            "\nhops of {} lookups for each row, measured before the kill over all {} nodes:\n\n{}\n\
             done in {}\n",
            args.samples,
            json.nodes,
            hops::rows_for_people(&json.hops, output),
            seconds(json.elapsed_ms)
        )
    })?;
    Ok(Exit::Done)
}

/// What the later acts need of the earlier ones.
#[derive(Clone, Debug)]
struct Scene {
    key: Key,
    owner: Id,
    file: DemoFileJson,
}

async fn store_and_fetch(cast: &Cast, output: Output) -> Result<Scene, Failure> {
    let key = Key::new("a file of the demo").map_err(|error| Failure::usage(error.to_string()))?;
    let content = made_up_bytes();
    let hash = ContentHash::from(blake3::hash(&content));
    let client = cast.client(1).await?;
    let stored_at = client.member().id();
    let report = client.put(&key, &PutOptions::new(), &mut content.as_slice(), |_| {}).await?;
    let target =
        crate::client::LookupTarget { id: key.id(), routing: None, depth: None, forwarding: None };
    let owner = client.lookup(target).await?.owner.map(|contact| contact.id);
    client.close().await;
    let owner =
        owner.ok_or_else(|| Failure::new(Kind::Unreachable, "nobody owns the key of the file"))?;
    act(
        output,
        2,
        &format!(
            "stored {} at {}: {} chunks, {} of {} copies acknowledged",
            show_bytes(report.size),
            short(&stored_at),
            report.chunks,
            report.acks,
            report.wanted
        ),
    )?;
    let fetched_at = fetch(cast, &key, hash, &[owner, stored_at]).await?;
    let digest = hex(&hash);
    let text = format!("fetched it at {}: same BLAKE3, {}", short(&fetched_at), &digest[..16]);
    act(output, 3, &text)?;
    let (size, acks) = (report.size, report.acks);
    let fetched_again_at = fetched_at;
    let hash = HexJson(hash);
    let file = DemoFileJson { size, hash, acks, stored_at, fetched_at, fetched_again_at };
    Ok(Scene { key, owner, file })
}

async fn kill_and_fetch(
    cast: &mut Cast,
    scene: &Scene,
    output: Output,
) -> Result<(u64, Id), Failure> {
    let began = Instant::now();
    cast.kill(scene.owner);
    cast.wait_for_one_ring().await?;
    let mended_ms = millis(began.elapsed());
    act(
        output,
        4,
        &format!(
            "killed {}, the key's owner, without a word: links and lists are right again after {}",
            short(&scene.owner),
            seconds(mended_ms)
        ),
    )?;
    let others = [scene.file.stored_at, scene.file.fetched_at];
    let again = fetch(cast, &scene.key, scene.file.hash.0, &others).await?;
    act(output, 5, &format!("fetched it again at {}: same BLAKE3", short(&again)))?;
    Ok((mended_ms, again))
}

/// Fetches the file at a node that is none of `but`, if there is such a one, and compares its hash
/// with what was stored.
async fn fetch(cast: &Cast, key: &Key, hash: ContentHash, but: &[Id]) -> Result<Id, Failure> {
    let client: Client = cast.client_at_none_of(but).await?;
    let at = client.member().id();
    // The client itself compares the bytes with the hash it is told.
    let told = client.get(key, &mut tokio::io::sink(), |_, _| {}).await?.hash;
    client.close().await;
    if told == hash {
        return Ok(at);
    }
    let text = format!("{} returned another file than was stored", short(&at));
    Err(Failure::new(Kind::Incomplete, text))
}

fn act(output: Output, number: u8, text: &str) -> Result<(), Failure> {
    if output.is_json() { Ok(()) } else { output.text(&format!("{number}. {text}\n")) }
}

fn seconds(millis: u64) -> String {
    format!("{:.1} s", millis as f64 / 1000.0)
}

/// A few chunks and a rest, that nobody has stored before.
fn made_up_bytes() -> Vec<u8> {
    let mut bytes = vec![0; 4 * 1024 * 1024 + 1];
    let seed: [u8; 32] = rand::random();
    blake3::Hasher::new_keyed(&seed).finalize_xof().fill(&mut bytes);
    bytes
}

/// Memory of this process that is in use, where the system tells: Linux does, in kB (proc(5)).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
