//! `leave`: asks a node to go for good.

use std::time::Instant;

use super::{millis, with_client};
use crate::cli::args::Globals;
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::LeaveJson;
use crate::cli::output::Output;

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
            .await?;
        drop(progress);
        let json = LeaveJson { id: member.id(), left: true, elapsed_ms: millis(began.elapsed()) };
        output.summary(&json, || format!("{} left its ring\n", json.id))?;
        Ok(Exit::Done)
    })
}
