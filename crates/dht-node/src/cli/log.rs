//! The log of a running node.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use tracing_subscriber::fmt::SubscriberBuilder;

use super::args::ColorArg;
use super::exit::{Failure, Kind};
use super::settings::{LogForm, LogPlan};

/// Starts logging. To be called once in a process.
pub(crate) fn start(plan: LogPlan, color: ColorArg) -> Result<(), Failure> {
    let LogPlan { filter, form, file } = plan;
    let base = SubscriberBuilder::default().with_env_filter(filter);
    let begun = match file {
        Some(path) => {
            let opened = File::options().create(true).append(true).open(&path);
            let file = Arc::new(opened.map_err(|error| {
                let text = format!("cannot open the log file {}: {error}", path.display());
                Failure::new(Kind::Io, text)
            })?);
            let base = base.with_writer(file).with_ansi(false);
            match form {
                LogForm::Text => base.try_init(),
                LogForm::Json => base.json().try_init(),
            }
        }
        None => {
            let colored = match color {
                ColorArg::Always => true,
                ColorArg::Never => false,
                ColorArg::Auto => {
                    io::stderr().is_terminal()
                        && anstream::AutoStream::choice(&io::stderr())
                            != anstream::ColorChoice::Never
                }
            };
            let base = base.with_writer(io::stderr).with_ansi(colored);
            match form {
                LogForm::Text => base.try_init(),
                LogForm::Json => base.json().try_init(),
            }
        }
    };
    begun.map_err(|error| Failure::new(Kind::Failed, format!("cannot start logging: {error}")))
}
