//! `id`: who a node is.

use std::net::SocketAddr;

use super::{ring_id, with_client};
use crate::cli::address::ticket;
use crate::cli::args::Globals;
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{HexJson, IdJson, PeerJson};
use crate::cli::output::{Output, table_text};
use crate::client::{IdentityReport, hex};

pub(super) fn run(globals: &Globals, output: Output) -> Result<Exit, Failure> {
    with_client(globals, async |client| {
        let identity = client.identify().await?;
        let own = globals.key_file.as_ref().map(|_| HexJson(client.key().0));
        let json = IdJson { client_key: own, ..shape(identity, client.member().remote()) };
        output.result(&json, || for_people(&json, output))?;
        Ok(Exit::Done)
    })
}

/// `answers_at` is where it was reached: a node that does not know its own address yet has that one.
fn shape(identity: IdentityReport, answers_at: SocketAddr) -> IdJson {
    let contact = &identity.contact;
    let addrs = &contact.record.addrs;
    let best = addrs.first().copied().unwrap_or(answers_at);
    let ticket = ticket(&identity.ring_name, contact.id, best);
    IdJson {
        peer: PeerJson::of(contact),
        key: HexJson(contact.key().0),
        addrs: addrs.iter().map(ToString::to_string).collect(),
        ring: identity.ring_name,
        ring_id: identity.ring.map(ring_id),
        state: identity.state.as_str(),
        version: identity.version,
        ticket,
        client_key: None,
    }
}

fn for_people(json: &IdJson, output: Output) -> String {
    let mut table = output.table(&["node", &json.peer.id.to_string()]);
    table.add_row(["key", &hex(&json.key.0)]);
    table.add_row(["addresses", &json.addrs.join(" ")]);
    table.add_row(["ring", &json.ring]);
    table.add_row(["ring id", json.ring_id.as_deref().unwrap_or("none yet")]);
    table.add_row(["state", json.state]);
    table.add_row(["version", &json.version]);
    table.add_row(["ticket", &json.ticket]);
    if let Some(own) = &json.client_key {
        table.add_row(["your own key", &hex(&own.0)]);
    }
    table_text(&table)
}
