//! The commands, a file for each.

mod completions;
mod demo;
mod get;
mod hops;
mod id;
mod info;
mod leave;
mod lookup;
mod ls;
mod ping;
mod put;
mod ring;
mod rm;
mod run;
mod sim;
mod stats;
mod status;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dht_core::message::Forwarding;
use dht_core::message::RingId;
use dht_core::message::ring::Routing;
use dht_net::Identity;
use tokio::runtime::{Builder, Runtime};

use super::address::{check_ring_name, parse_places};
use super::args::{Cli, Command, Globals};
use super::deadline::Deadline;
use super::exit::{Exit, Failure, Kind};
use super::output::Output;
use super::settings::{parse_forwarding, parse_routing};
use super::signals::Signals;
use crate::client::{Client, ClientConfig};
use crate::node::{DEFAULT_PORT, DEFAULT_RING_NAME};

/// Runs the command that was asked for.
pub(super) fn run(cli: Cli, output: Output) -> Result<Exit, Failure> {
    let Cli { globals, run, command } = cli;
    let Some(command) = command else { return run::run(&globals, &run, output) };
    if let Some(flag) = run.first_given() {
        let text = format!("{flag} stands before the command and is no global flag; put it after");
        return Err(Failure::usage(text));
    }
    match command {
        Command::Run(args) => run::run(&globals, &args, output),
        Command::Demo(args) => demo::run(&globals, &args, output),
        Command::Sim(args) => sim::run(&globals, args, output),
        Command::Completions(args) => completions::run(&args, output),
        Command::Repair(_) => Err(Failure::not_built(
            "`repair`",
            "copies are brought back by themselves; `dht-node info KEY` shows them",
        )),
        Command::Verify(_) => {
            Err(Failure::not_built("`verify`", "`dht-node get KEY` checks every byte of a file"))
        }
        Command::Bench(_) => Err(Failure::not_built("`bench`", "`dht-node hops` measures lookups")),
        Command::Placement(_) => {
            Err(Failure::not_built("`placement`", "`dht-node lookup KEY` shows who owns a key"))
        }
        Command::Man(_) => Err(Failure::not_built("`man`", "`dht-node --help` says the same")),
        other => with_ring(other, &globals, output),
    }
}

/// The commands that talk to a member.
fn with_ring(command: Command, globals: &Globals, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Put(args) => put::run(globals, args, output),
        Command::Get(args) => get::run(globals, &args, output),
        Command::Info(args) => info::run(globals, &args, output),
        Command::Rm(args) => rm::run(globals, &args, output),
        Command::Ls(args) => ls::run(globals, &args, output),
        Command::Lookup(args) => lookup::run(globals, &args, output),
        Command::Hops(args) => hops::run(globals, &args, output),
        Command::Ring(args) => ring::run(globals, &args, output),
        Command::Stats(args) => stats::run(globals, &args, output),
        Command::Status => status::run(globals, output),
        Command::Ping(args) => ping::run(globals, &args, output),
        Command::Id => id::run(globals, output),
        Command::Leave => leave::run(globals, output),
        _ => Err(Failure::usage("this command is not handled here; this is a bug")),
    }
}

/// Connects to a member, runs `command` with that client, and closes it in order, whatever happened.
fn with_client(
    globals: &Globals,
    command: impl AsyncFnOnce(&Client) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let config = client_config(globals)?;
    let deadline = Deadline::new(globals.deadline);
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::watch();
        let client = until_signal(&mut signals, async {
            Client::connect(config).await.map_err(Failure::from)
        })
        .await?;
        // What the client does keeps the deadline by itself; files and pipes here do not.
        let outcome = until_signal(&mut signals, deadline.bound(command(&client))).await;
        client.close().await;
        outcome
    });
    // A read of stdin cannot be taken back: its thread must not hold up the end.
    runtime.shutdown_background();
    outcome
}

async fn until_signal<T>(
    signals: &mut Signals,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = signals.next() => Err(Failure::new(Kind::Interrupted, "interrupted")),
        outcome = work => outcome,
    }
}

/// One thread carries all the work of a client, and most requests per second of a node.
fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::new(Kind::Failed, format!("cannot start a runtime: {error}")))
}

fn client_config(globals: &Globals) -> Result<ClientConfig, Failure> {
    refuse_secret(globals)?;
    let from_environment = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let mut nodes = globals.node.clone();
    if nodes.is_empty()
        && let Some(text) = from_environment("DHT_NODE")
    {
        nodes = text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    }
    if nodes.is_empty() {
        nodes.push(format!("127.0.0.1:{DEFAULT_PORT}"));
    }
    let ring = globals.ring.clone().or_else(|| from_environment("DHT_NODE_RING"));
    if let Some(name) = &ring {
        let place = if globals.ring.is_some() { "--ring" } else { "DHT_NODE_RING" };
        check_ring_name(name).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    }
    let (ring, nodes) =
        parse_places(&nodes, ring).map_err(|error| Failure::usage(format!("--node: {error}")))?;
    let identity = globals.key_file.as_deref().map(Identity::load_or_create).transpose();
    let identity =
        identity.map_err(|error| Failure::new(Kind::Io, format!("--key-file: {error}")))?;
    Ok(ClientConfig {
        identity: identity.map(Arc::new),
        nodes,
        ring_name: ring.unwrap_or_else(|| DEFAULT_RING_NAME.to_owned()),
        timeout: globals.timeout,
        deadline: globals.deadline,
    })
}

fn refuse_secret(globals: &Globals) -> Result<(), Failure> {
    match globals.ring_secret_file {
        Some(_) => Err(Failure::not_built("--ring-secret-file", "rings are open for now")),
        None => Ok(()),
    }
}

/// A duration in whole milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A seed that nobody named. Below 2^53: readers of JSON that know only floating point, such as
/// JavaScript and jq, would round a greater one (RFC 8259, section 6), and it would not give the
/// same again.
fn drawn_seed() -> u64 {
    rand::random::<u64>() >> 11
}

/// The id of a ring as text.
fn ring_id(id: RingId) -> String {
    format!("{:032x}", id.0)
}

/// Reads the name of a routing.
fn routing_named(word: &str) -> Result<Routing, Failure> {
    parse_routing(word).map_err(|error| Failure::usage(format!("--routing {word}: {error}")))
}

/// Reads the name of a way to carry lookups.
fn named_forwarding(word: &str) -> Result<Forwarding, Failure> {
    parse_forwarding(word).map_err(|error| Failure::usage(format!("--forwarding {word}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_seeds_survive_floating_point() {
        for seed in std::iter::repeat_with(drawn_seed).take(1000) {
            assert_eq!(seed as f64 as u64, seed);
        }
    }
}
