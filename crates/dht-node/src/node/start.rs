//! Puts a node together: data place, socket, tasks.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dht_core::message::Hello;
use dht_net::{BindError, Endpoint, EndpointConfig, Identity, Incoming};
use tokio::sync::{mpsc, watch};

use super::Node;
use super::bootstrap::Bootstrap;
use super::carrier::Carrier;
use super::chunks::ChunkPeers;
use super::config::{DEFAULT_PORT, NodeConfig};
use super::disk::Disk;
use super::driver::{Driver, DriverHandle, Status};
use super::error::StartError;
use super::gateway::Gateway;
use super::keeper::Keeper;
use super::life::Life;
use super::observed::OwnAddrs;
use super::presence::Presence;
use super::serve;
use super::shared::{Orders, Shared};
use super::tasks::Tasks;

/// See [`Node::start`].
pub(super) async fn start(config: NodeConfig) -> Result<Node, StartError> {
    check(&config)?;
    let place = config.data.clone();
    let opening = Tasks::new().spawn_blocking(move || Life::open(&place));
    let life = opening.await.map_err(|_| StartError::Crashed)??;
    if let (Some(asked), Some(ring)) = (config.replicas, life.ring)
        && asked != ring.replicas
        && (config.join.is_empty() || life.holds)
    {
        return Err(StartError::ReplicasDiffer { asked, ring: ring.replicas });
    }
    let presence = Presence::new(life.identity.clone(), life.incarnation);
    let bound = bind(&config, &life.identity, presence.hello())?;
    presence.bound(OwnAddrs::new(config.advertise, bound.endpoint.local_addr()), &bound.endpoint);
    Ok(assemble(config, life, presence, bound))
}

fn check(config: &NodeConfig) -> Result<(), StartError> {
    config.core.validate()?;
    if let Some(asked) = config.replicas.filter(|asked| !(1..=MAX_REPLICAS).contains(asked)) {
        return Err(StartError::Replicas { asked });
    }
    match config.advertise {
        Some(addr) if !dht_net::is_dialable(&addr) => Err(StartError::Advertise { addr }),
        _ => Ok(()),
    }
}

struct Bound {
    endpoint: Endpoint,
    requests: mpsc::Receiver<Incoming>,
    took_other_port: bool,
}

/// Binds the address that was asked for, or the default port, or a free one.
fn bind(config: &NodeConfig, identity: &Arc<Identity>, hello: Hello) -> Result<Bound, StartError> {
    let try_bind = |listen: SocketAddr| {
        let endpoint = EndpointConfig {
            listen: Some(listen),
            admins: config.admins.clone(),
            ..EndpointConfig::new(config.ring_name.clone())
        };
        Endpoint::bind(endpoint, identity.clone(), hello.clone())
    };
    let wanted = config.listen.unwrap_or(SocketAddr::new(default_ip(config), DEFAULT_PORT));
    let (bound, took_other_port) = match try_bind(wanted) {
        Err(BindError::PortInUse { .. }) if config.listen.is_none() => {
            (try_bind(SocketAddr::new(wanted.ip(), 0)), true)
        }
        bound => (bound, false),
    };
    match bound {
        Ok((endpoint, requests)) => Ok(Bound { endpoint, requests, took_other_port }),
        Err(BindError::PortInUse { addr }) => Err(StartError::PortInUse { addr }),
        Err(BindError::Io { addr, source }) => Err(StartError::Bind { addr, source }),
        Err(error @ BindError::Limit { .. }) => {
            let source = io::Error::new(io::ErrorKind::InvalidInput, error);
            Err(StartError::Bind { addr: wanted, source })
        }
    }
}

/// An open ring is on loopback only, unless it is told to join another host (`docs/cli.md`).
fn default_ip(config: &NodeConfig) -> IpAddr {
    let numeric = || config.join.iter().map(|join| join.numeric().map(|addr| addr.ip()));
    let is_local = |ip: Option<IpAddr>| ip.is_some_and(|ip| ip.is_loopback());
    let only_local =
        config.join.iter().zip(numeric()).all(|(join, ip)| is_local(ip) || join.is_localhost());
    match only_local {
        true if !config.join.is_empty()
            && numeric().all(|ip| ip.is_some_and(|ip| ip.is_ipv6())) =>
        {
            Ipv6Addr::LOCALHOST.into()
        }
        true => Ipv4Addr::LOCALHOST.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn assemble(config: NodeConfig, life: Life, presence: Presence, bound: Bound) -> Node {
    let Bound { endpoint, requests, took_other_port } = bound;
    let tasks = Tasks::new();
    let disk = Disk::new(life.store);
    let (driver, inbox) = DriverHandle::new();
    let (status_sender, status) = watch::channel(Status::new());
    let (known_sender, known) = watch::channel(None);
    let key = life.identity.key();
    let chunks = ChunkPeers::new(key, endpoint.clone(), disk.clone());
    let carrier = Carrier::new(
        endpoint.clone(),
        disk.clone(),
        chunks.clone(),
        driver.clone(),
        tasks.clone(),
        known_sender,
    );
    let core_config = Arc::new(config.core.clone());
    let driving = tasks.spawn(Driver::new(inbox, carrier, core_config, status_sender).run());
    let shared = Arc::new(Shared {
        key,
        presence,
        endpoint,
        disk,
        driver: driver.clone(),
        status: status.clone(),
        orders: Orders::new(),
        chunks,
        gateway: Gateway::new(),
        tasks: tasks.clone(),
        clients: Tasks::new(),
        closing: AtomicBool::new(false),
        started: Instant::now(),
        config,
    });
    tasks.spawn(serve::accept(shared.clone(), requests));
    tasks.spawn(follow(shared.clone()));
    tasks.spawn(Bootstrap::new(shared.clone(), life.ring, life.known, life.holds).run());
    let (stopped_sender, stopped) = watch::channel(None);
    let keeper = Tasks::new();
    let node = Node {
        listen: shared.endpoint.local_addr(),
        took_other_port,
        ring_name: shared.config.ring_name.clone(),
        contact: shared.presence.watch(),
        status,
        driver,
        orders: shared.orders.clone(),
        stopped,
        keeper: keeper.clone(),
    };
    keeper.spawn(Keeper { shared, known, driver: driving, stopped: stopped_sender }.run());
    node
}

async fn follow(shared: Arc<Shared>) {
    shared.presence.follow(shared.status.clone(), &shared.endpoint).await;
}

/// Most copies of a chunk that a ring may be founded with (`docs/cli.md`, `--replicas`).
const MAX_REPLICAS: u8 = 8;
