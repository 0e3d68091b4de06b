//! `sim`: rings under a virtual clock.

mod check;
mod churn;
mod hops;
mod script;

use crate::cli::args::{Globals, SimArgs, SimCommand};
use crate::cli::deadline::Deadline;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;

pub(super) fn run(globals: &Globals, args: SimArgs, output: Output) -> Result<Exit, Failure> {
    let deadline = Deadline::new(globals.deadline);
    match args.command {
        SimCommand::Hops(args) => hops::run(args, deadline, output),
        SimCommand::Script(args) => script::run(&args, deadline, output),
        SimCommand::Churn(args) => churn::run(&args, deadline, output),
        SimCommand::Check(args) => check::run(&args, deadline, output),
    }
}
