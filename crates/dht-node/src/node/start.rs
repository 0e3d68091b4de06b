//! Puts a node together: data place, socket, tasks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dht_core::message::Hello;
use dht_net::{BindError, Endpoint, EndpointConfig, Incoming};
use tokio::sync::{mpsc, watch};

use super::Node;
use super::bootstrap::Bootstrap;
use super::budget::HopBudget;
use super::carrier::Carrier;
use super::chunks::ChunkPeers;
use super::config::{DEFAULT_PORT, NodeConfig};
use super::disk::Disk;
use super::driver::{Driver, DriverHandle, Noted, Status};
use super::error::StartError;
use super::gateway::Gateway;
use super::keeper::Keeper;
use super::latency::Latency;
use super::life::Life;
use super::observed::OwnAddrs;
use super::presence::Presence;
use super::serve;
use super::shared::{Orders, Shared};
use super::tasks::Tasks;
use super::upkeep::UpkeepMeter;

/// See [`Node::start`].
pub(super) async fn start(config: NodeConfig) -> Result<Node, StartError> {
    check(&config)?;
    let (place, ring_name) = (config.data.clone(), config.ring_name.clone());
    let opening = Tasks::new().spawn_blocking(move || Life::open(&place, &ring_name));
    let life = opening.await.map_err(|_| StartError::Crashed)??;
    if let (Some(asked), Some(ring)) = (config.replicas, life.ring)
        && asked != ring.replicas
        && (config.join.is_empty() || life.holds)
    {
        return Err(StartError::ReplicasDiffer { asked, ring: ring.replicas });
    }
    let presence = Presence::new(life.identity.clone(), life.incarnation);
    let bound = bind(&config, &life, presence.hello())?;
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
fn bind(config: &NodeConfig, life: &Life, hello: Hello) -> Result<Bound, StartError> {
    let try_bind = |listen: SocketAddr| {
        let endpoint = EndpointConfig {
            listen: Some(listen),
            admins: config.admins.clone(),
            ..EndpointConfig::new(config.ring_name.clone())
        };
        let (endpoint, requests) = Endpoint::bind(endpoint, life.identity.clone(), hello.clone())?;
        Ok(Bound { endpoint, requests, took_other_port: false })
    };
    let Some(listen) = config.listen else {
        return bind_default(default_ip(config, life), try_bind).map_err(StartError::from);
    };
    Ok(try_bind(listen)?)
}

/// The default port, or a free one; IPv4 alone where there is no IPv6.
fn bind_default(
    ip: IpAddr,
    try_bind: impl Fn(SocketAddr) -> Result<Bound, BindError>,
) -> Result<Bound, BindError> {
    match try_bind(SocketAddr::new(ip, DEFAULT_PORT)) {
        Err(BindError::PortInUse { .. }) => {
            let bound = try_bind(SocketAddr::new(ip, 0))?;
            Ok(Bound { took_other_port: true, ..bound })
        }
        Err(BindError::Io { .. }) if ip.is_ipv6() && ip.is_unspecified() => {
            bind_default(Ipv4Addr::UNSPECIFIED.into(), try_bind)
        }
        bound => bound,
    }
}

/// An open ring is on loopback only, unless the node is told to join another host (`docs/cli.md`),
/// or its ring of earlier lives is on other hosts.
fn default_ip(config: &NodeConfig, life: &Life) -> IpAddr {
    let numbers: Vec<Option<IpAddr>> =
        config.join.iter().map(|join| join.numeric().map(|addr| addr.ip())).collect();
    let mut named = config.join.iter().zip(&numbers);
    let known = life.memory.contacts.iter().flat_map(|contact| &contact.record.addrs);
    let is_local = |ip: &IpAddr| ip.is_loopback();
    if !named.all(|(join, ip)| join.is_localhost() || ip.as_ref().is_some_and(is_local))
        || !known.map(|addr| addr.ip()).all(|ip| is_local(&ip))
    {
        return Ipv6Addr::UNSPECIFIED.into();
    }
    let only_v6 = !numbers.is_empty() && numbers.iter().all(|ip| ip.is_some_and(|ip| ip.is_ipv6()));
    if only_v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() }
}

fn assemble(config: NodeConfig, life: Life, presence: Presence, bound: Bound) -> Node {
    let Bound { endpoint, requests, took_other_port } = bound;
    let tasks = Tasks::new();
    let disk = Disk::new(life.store);
    let (driver, inbox) = DriverHandle::new();
    let (status_sender, status) = watch::channel(Status::new());
    let (memory_sender, memory) = watch::channel(None);
    let key = life.identity.key();
    let chunks = ChunkPeers::new(key, endpoint.clone(), disk.clone());
    let upkeep = Arc::new(UpkeepMeter::new(&key));
    let carrier = Carrier::new(
        endpoint.clone(),
        disk.clone(),
        chunks.clone(),
        driver.clone(),
        tasks.clone(),
        memory_sender,
        upkeep.clone(),
    );
    let core_config = Arc::new(config.core.clone());
    let orders = Orders::new();
    let latency = Arc::new(Latency::new());
    let budget = Arc::new(HopBudget::new(config.hop_budget));
    let noted = Noted { latency: latency.clone(), budget: budget.clone() };
    let driving = Driver::new(inbox, carrier, core_config, status_sender, noted).run();
    tasks.spawn(orders.clone().guard(driving));
    let shared = Arc::new(Shared {
        key,
        presence,
        endpoint,
        disk,
        driver: driver.clone(),
        status: status.clone(),
        orders: orders.clone(),
        chunks,
        gateway: Gateway::new(),
        latency,
        upkeep,
        budget,
        tasks: tasks.clone(),
        clients: Tasks::new(),
        closing: AtomicBool::new(false),
        started: Instant::now(),
        config,
    });
    tasks.spawn(orders.clone().guard(serve::accept(shared.clone(), requests)));
    tasks.spawn(orders.clone().guard(follow(shared.clone())));
    let bootstrap = Bootstrap::new(shared.clone(), life.ring, life.memory, life.holds);
    tasks.spawn(orders.clone().guard(bootstrap.run()));
    let (stopped_sender, stopped) = watch::channel(None);
    let keeper = Tasks::new();
    let node = Node {
        listen: shared.endpoint.local_addr(),
        took_other_port,
        ring_name: shared.config.ring_name.clone(),
        contact: shared.presence.watch(),
        status,
        driver,
        orders,
        stopped,
        keeper: keeper.clone(),
    };
    keeper.spawn(Keeper { shared, memory, stopped: stopped_sender }.run());
    node
}

async fn follow(shared: Arc<Shared>) {
    shared.presence.follow(shared.status.clone(), &shared.endpoint).await;
}

/// Most copies of a chunk that a ring may be founded with (`docs/cli.md`, `--replicas`).
const MAX_REPLICAS: u8 = 8;
