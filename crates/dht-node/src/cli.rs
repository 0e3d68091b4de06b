//! The command line. `docs/cli.md` is its contract, `docs/json.md` that of its JSON.

mod address;
mod args;
mod bounds;
mod circle;
mod commands;
mod complaint;
mod deadline;
mod exit;
mod holder;
mod hop_report;
mod json;
mod keys;
mod log;
mod output;
mod plot;
mod progress;
mod settings;
mod signals;
mod target;
mod units;
mod version;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::Cli;
use complaint::complaint;
use exit::{Exit, Failure, Kind};
use output::Output;

/// Runs the program with the arguments and the environment of this process.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(explain(&arguments, &error) as u8),
    };
    cli.globals.json = cli.wants_json();
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
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        return match printed {
            // A reader that went away has read enough.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                let text = format!("cannot write to stdout: {error}");
                report(Output::bare(false), &Failure::new(Kind::Io, text))
            }
            _ => Exit::Done,
        };
    }
    let output = Output::bare(wants_json(arguments));
    output.failure(Kind::Usage, &complaint(arguments, error));
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
