//! The command line. `docs/cli.md` is its contract, `docs/json.md` that of its JSON.

mod address;
mod args;
mod commands;
mod deadline;
mod exit;
mod holder;
mod json;
mod keys;
mod log;
mod output;
mod progress;
mod settings;
mod signals;
mod units;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::Cli;
use exit::{Exit, Failure, Kind, one_line};
use output::Output;

/// Runs the program with the arguments and the environment of this process.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(explain(&arguments, &error) as u8),
    };
    let output = Output::new(&cli.globals);
    let exit = match commands::run(cli, output) {
        Ok(exit) => exit,
        Err(failure) => report(output, &failure),
    };
    ExitCode::from(exit as u8)
}

fn report(output: Output, failure: &Failure) -> Exit {
    match failure {
        Failure::Told { kind, message } => {
            output.failure(*kind, message);
            kind.exit()
        }
        // Whoever read has got what it wanted: `ls | head -1` is no failure.
        Failure::ReaderGone => Exit::Done,
    }
}

/// Help and versions go to stdout; what cannot be read is a usage error.
fn explain(arguments: &[OsString], error: &clap::Error) -> Exit {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked {
        // A reader that went away has read enough.
        let _ = error.print();
        return Exit::Done;
    }
    if wants_json(arguments) {
        let text = error.render().to_string();
        let message = text.trim_start_matches("error:").split("\n\n").next().unwrap_or_default();
        Output::bare(true).failure(Kind::Usage, &one_line(message));
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

/// Whether `--json` was among the arguments, when clap could not make sense of them.
fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_wanted_only_where_it_is_a_flag() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&words("dht-node get --json --bad")));
        assert!(!wants_json(&words("dht-node get --bad -- --json")));
        assert!(!wants_json(&words("--json get --bad")), "the program's name is no argument");
    }
}
