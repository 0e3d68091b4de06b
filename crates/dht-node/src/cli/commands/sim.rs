//! `sim`: rings under a virtual clock.

mod hops;
mod script;

use crate::cli::args::{SimArgs, SimCommand};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;

pub(super) fn run(args: SimArgs, output: Output) -> Result<Exit, Failure> {
    match args.command {
        SimCommand::Hops(args) => hops::run(args, output),
        SimCommand::Script(args) => script::run(&args, output),
        SimCommand::Churn(_) => {
            Err(Failure::not_built("`sim churn`", "`dht-node sim script` plays single scenarios"))
        }
        SimCommand::Check(_) => {
            Err(Failure::not_built("`sim check`", "`dht-node sim script` plays single scenarios"))
        }
    }
}
