//! `run`: a node in the foreground.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;

use dht_core::Contact;
use tokio::io::AsyncWriteExt;

use super::{refuse_secret, runtime};
use crate::cli::args::{Globals, RunArgs};
use crate::cli::exit::{Exit, Failure, Kind, one_line};
use crate::cli::json::{ReadyJson, SettingJson, SettingsJson};
use crate::cli::log::Log;
use crate::cli::output::{Output, table_text};
use crate::cli::settings::{Settings, Sources, Whence, gather};
use crate::cli::signals::Signals;
use crate::cli::{holder, log};
use crate::node::{DataPlace, Node, NodeConfig, Ready, StartError, StopReason};

pub(super) fn run(globals: &Globals, args: &RunArgs, output: Output) -> Result<Exit, Failure> {
    if !globals.node.is_empty() {
        return Err(Failure::usage(
            "--node names a member to talk to; to join its ring use --join",
        ));
    }
    refuse_secret(globals)?;
    let settings = gather(sources(globals, args)).map_err(|error| usage(&error))?;
    let plan = settings.plan().map_err(|error| usage(&error))?;
    if args.print_config {
        return print(&settings, &plan.node.data, output);
    }
    let log = log::start(plan.log, globals.color)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve(plan.node, output, &log));
    runtime.shutdown_background();
    outcome
}

fn usage(error: &crate::cli::settings::SettingsError) -> Failure {
    Failure::usage(one_line(&error.to_string()))
}

fn sources(globals: &Globals, args: &RunArgs) -> Sources {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let from_environment = environment.iter().find(|(name, _)| name == "DHT_NODE_CONFIG");
    let file = args.config.clone().or_else(|| from_environment.map(|(_, path)| path.into()));
    let mut flags = args.given();
    flags.extend(globals.ring.as_ref().map(|ring| ("ring", vec![ring.clone()])));
    Sources { file, environment, flags }
}

/// Every setting, its value, and whence it came.
fn print(settings: &Settings, data: &DataPlace, output: Output) -> Result<Exit, Failure> {
    let settings = settings
        .all()
        .iter()
        .map(|setting| {
            let (source, origin) = match &setting.whence {
                Whence::Default => ("default", None),
                Whence::File(path) => ("file", Some(path.display().to_string())),
                Whence::Environment => {
                    ("environment", Some(crate::cli::settings::variable(setting.spec.name)))
                }
                Whence::Flag => ("flag", None),
            };
            let mut values = setting.values.clone();
            if let (true, "data-dir", DataPlace::Dir(dir)) =
                (values.is_empty(), setting.spec.name, data)
            {
                values.push(dir.display().to_string());
            }
            SettingJson { name: setting.spec.name, values, source, origin }
        })
        .collect();
    let json = SettingsJson { settings };
    output.result(&json, || {
        let mut table = output.table(&["setting", "value", "whence"]);
        for setting in &json.settings {
            let value = match setting.values.as_slice() {
                [] if NONE_BY_DEFAULT.contains(&setting.name) => "none".to_owned(),
                [] => "(decided by the program)".to_owned(),
                values => values.join(", "),
            };
            let whence = match &setting.origin {
                Some(origin) => format!("{} {origin}", setting.source),
                None => setting.source.to_owned(),
            };
            table.add_row([setting.name, &value, &whence]);
        }
        table_text(&table)
    })?;
    Ok(Exit::Done)
}

/// Settings without which there simply is no such thing.
const NONE_BY_DEFAULT: [&str; 4] = ["join", "ring-secret-file", "admins", "log-file"];

async fn serve(config: NodeConfig, output: Output, log: &Log) -> Result<Exit, Failure> {
    let mut signals = Signals::watch();
    let started = tokio::select! {
        biased;
        () = signals.next() => return Ok(Exit::Done),
        started = Node::start(config) => started,
    };
    let node = started.map_err(|error| start_failure(&error))?;
    greet(&node);
    let reason = tokio::select! {
        biased;
        () = signals.next() => stop(&node, &mut signals).await,
        reason = live(&node, output, log) => reason,
    };
    ended(&reason)
}

/// Says what people should know at once, and no script needs.
fn greet(node: &Node) {
    let listen = node.listen();
    if node.took_other_port() {
        tracing::warn!(%listen, "the default port is taken, so another one is used; choose with --listen");
    }
    if !listen.ip().to_canonical().is_loopback() {
        tracing::warn!(
            %listen,
            "this ring is open: whoever reaches this address may join and read; --listen \
             127.0.0.1:{} keeps this node to its own machine, and from members elsewhere",
            listen.port()
        );
    }
}

/// Announces that the node is ready, then waits for its end.
async fn live(node: &Node, output: Output, log: &Log) -> StopReason {
    let ready = match node.ready().await {
        Ok(ready) => ready,
        Err(reason) => return reason,
    };
    announce(&ready, output, log).await;
    node.stopped().await
}

async fn announce(ready: &Ready, output: Output, log: &Log) {
    let (id, ring) = (ready.contact.id, &ready.ring_name);
    let line = if output.is_json() {
        let (listen, ring) = (ready.listen.to_string(), ring.clone());
        let json = serde_json::to_string(&ReadyJson { id, listen, ring });
        json.expect("three texts have a JSON form") + "\n"
    } else {
        format!("ready id={id} listen={} ring={ring}\n", ready.listen)
    };
    // A node needs no listener on stdout: it may have been closed by whoever started it.
    let mut stdout = tokio::io::stdout();
    let written = async {
        stdout.write_all(line.as_bytes()).await?;
        stdout.flush().await
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "the ready line could not be written");
    }
    if io::stderr().is_terminal() && !output.is_json() && !output.is_quiet() {
        log.say(&hint(&ready.contact, ready.listen, ring));
    }
}

/// What to type next.
fn hint(contact: &Contact, listen: SocketAddr, ring: &str) -> String {
    let ring_flag = if ring == crate::node::DEFAULT_RING_NAME {
        String::new()
    } else {
        format!(" --ring {ring}")
    };
    let dialled = contact.record.addrs.first().copied().unwrap_or(listen);
    // On the same machine the data directory is taken: by this node.
    let data = if dialled.ip().is_loopback() { "--data-dir DIR2 " } else { "" };
    let mut text =
        format!("\nOne more node:  dht-node {data}--join {}@{dialled}{ring_flag}", contact.id);
    if dialled.ip().is_loopback() {
        text.push_str("   (on this machine; --listen 0.0.0.0:4433 here opens it to others)");
    }
    let node_flag = if listen.port() == crate::node::DEFAULT_PORT && listen.ip().is_loopback() {
        String::new()
    } else {
        format!(" --node {dialled}")
    };
    text.push_str(&format!("\nStore a file:   dht-node put FILE{node_flag}{ring_flag}"));
    text
}

/// Stops in order; a second signal ends it at once.
async fn stop(node: &Node, signals: &mut Signals) -> StopReason {
    tracing::info!("stopping; another signal ends it at once");
    tokio::select! {
        biased;
        () = signals.next() => {
            node.kill();
            StopReason::Killed
        }
        reason = node.stop() => reason,
    }
}

fn ended(reason: &StopReason) -> Result<Exit, Failure> {
    let text = one_line(&reason.to_string());
    match reason {
        StopReason::Stopped | StopReason::Left => Ok(Exit::Done),
        StopReason::Killed => Err(Failure::new(Kind::Interrupted, text)),
        StopReason::ReplicasDiffer { .. } => Err(Failure::usage(text)),
        StopReason::IdInUse { .. }
        | StopReason::OtherRing { .. }
        | StopReason::StoreFailed
        | StopReason::Crashed => Err(Failure::new(Kind::Failed, text)),
    }
}

fn start_failure(error: &StartError) -> Failure {
    let text = one_line(&error.to_string());
    match error {
        StartError::Setting(_)
        | StartError::Replicas { .. }
        | StartError::ReplicasDiffer { .. }
        | StartError::OtherRingName { .. }
        | StartError::Advertise { .. } => Failure::usage(text),
        StartError::PortInUse { addr } => {
            let holder = holder::of_udp_port(addr.port());
            let holder = holder.map(|who| format!("; it is {who}")).unwrap_or_default();
            Failure::new(Kind::Failed, format!("{text}{holder}"))
        }
        _ => Failure::new(Kind::Failed, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_code() {
        assert_eq!(ended(&StopReason::Stopped).expect("in order"), Exit::Done);
        assert_eq!(ended(&StopReason::Left).expect("in order"), Exit::Done);
        for (reason, exit) in [
            (StopReason::Killed, 130),
            (StopReason::Crashed, 1),
            (StopReason::StoreFailed, 1),
            (StopReason::ReplicasDiffer { asked: 2, ring: 3 }, 2),
        ] {
            let Err(Failure::Told { kind, .. }) = ended(&reason) else { panic!("{reason:?}") };
            assert_eq!(kind.exit() as u8, exit, "{reason:?}");
        }
    }

    #[test]
    fn what_is_shown_to_paste_works_on_the_same_machine() {
        use std::sync::Arc;
        let contact = |addr: &str| {
            let record = dht_core::PeerRecord {
                key: dht_core::PeerKey([1; 32]),
                incarnation: 1,
                revision: 0,
                addrs: vec![addr.parse().expect("an address")],
                signature: dht_core::peer::Signature([0; 64]),
            };
            Contact::new(Arc::new(record), 0)
        };
        let listen = ([127, 0, 0, 1], 4433).into();
        assert!(hint(&contact("127.0.0.1:4433"), listen, "default").contains("--data-dir DIR2 "));
        assert!(!hint(&contact("192.0.2.1:4433"), listen, "default").contains("--data-dir"));
    }

    #[test]
    fn a_taken_port_names_the_flag() {
        let addr = ([127, 0, 0, 1], 1).into();
        let Failure::Told { kind, message } = start_failure(&StartError::PortInUse { addr }) else {
            panic!("told")
        };
        assert_eq!(kind.exit(), Exit::Failed);
        assert!(message.contains("--listen") && message.contains("port 1 "), "{message}");
    }
}
