//! `leave`: asks a node to go for good.

use std::time::Instant;

use dht_core::PeerKey;
use dht_core::message::Refusal;

use super::{millis, with_client};
use crate::cli::args::Globals;
use crate::cli::exit::{Exit, Failure, Kind};
use crate::cli::json::LeaveJson;
use crate::cli::output::Output;
use crate::client::ClientError;

/// Whoever is not listed has to know what to list.
fn explain(error: ClientError, globals: &Globals, key: PeerKey) -> Failure {
    let is_denied = matches!(error, ClientError::Refused { refusal: Refusal::NotAdmin, .. });
    match &globals.key_file {
        _ if !is_denied => error.into(),
        Some(path) => {
            let path = path.display();
            Failure::new(Kind::Denied, format!("{error}; the key in {path} is {key}"))
        }
        None => {
            let next = "call it there, or with --key-file F and list that key";
            Failure::new(Kind::Denied, format!("{error}; {next}"))
        }
    }
}

pub(super) fn run(globals: &Globals, output: Output) -> Result<Exit, Failure> {
    with_client(globals, async |client| {
        let began = Instant::now();
        let member = client.member();
        let progress = output.progress();
        progress.message("leaving: counting");
        // Never repeated with another member: that one would leave as well.
        member
            .leave(|missing| match missing {
                Some(missing) => {
                    progress.message(&format!("leaving: {missing} copies to hand over"))
                }
                None => progress.message("leaving: counting"),
            })
            .await
            .map_err(|error| explain(error, globals, client.key()))?;
        drop(progress);
        let json = LeaveJson { id: member.id(), left: true, elapsed_ms: millis(began.elapsed()) };
        output.summary(&json, || format!("{} left its ring\n", json.id))?;
        Ok(Exit::Done)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn who_is_denied_learns_what_to_list() {
        let denied = || ClientError::Refused {
            addr: ([192, 0, 2, 1], 4433).into(),
            refusal: Refusal::NotAdmin,
        };
        let text = |words: &[&str]| {
            let cli = Cli::try_parse_from(words).expect("it parses");
            match explain(denied(), &cli.globals, PeerKey([7; 32])) {
                Failure::Told { kind: Kind::Denied, message } => message,
                other => panic!("{other:?}"),
            }
        };
        let with_key = text(&["dht-node", "leave", "--key-file", "mine"]);
        assert!(
            with_key.ends_with(&format!("the key in mine is {}", "07".repeat(32))),
            "{with_key}"
        );
        assert!(text(&["dht-node", "leave"]).contains("--key-file F"));
    }
}
