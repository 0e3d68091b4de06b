//! `completions`: a script for a shell.

use clap::CommandFactory;

use crate::cli::args::{Cli, CompletionsArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::CompletionsJson;
use crate::cli::output::Output;

pub(super) fn run(args: &CompletionsArgs, output: Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "dht-node", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = CompletionsJson { shell: args.shell.to_string(), script };
    output.result(&json, || json.script.clone())?;
    Ok(Exit::Done)
}
