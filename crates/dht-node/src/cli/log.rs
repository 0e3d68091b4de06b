//! The log of a running node.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use tracing_subscriber::fmt::SubscriberBuilder;

use super::args::ColorArg;
use super::exit::{Failure, Kind};
use super::settings::{LogForm, LogPlan};

/// Starts logging. To be called once in a process.
pub(crate) fn start(plan: LogPlan, color: ColorArg) -> Result<(), Failure> {
    let LogPlan { filter, form, file } = plan;
    // What tracing would say of a log that cannot be written goes to stderr by `eprintln!`, which
    // panics where stderr is gone too.
    let base = SubscriberBuilder::default().with_env_filter(filter).log_internal_errors(false);
    let begun = match file {
        Some(path) => {
            let opened = File::options().create(true).append(true).open(&path);
            let file = Arc::new(opened.map_err(|error| {
                let text = format!("cannot open the log file {}: {error}", path.display());
                Failure::new(Kind::Io, text)
            })?);
            let base = base.with_writer(move || Undisturbed(file.clone())).with_ansi(false);
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
            let base = base.with_writer(|| Undisturbed(io::stderr())).with_ansi(colored);
            match form {
                LogForm::Text => base.try_init(),
                LogForm::Json => base.json().try_init(),
            }
        }
    };
    begun.map_err(|error| Failure::new(Kind::Failed, format!("cannot start logging: {error}")))
}

/// A log that lost its reader or its disk must not end the node: what cannot be written is dropped.
#[derive(Debug)]
struct Undisturbed<W>(W);

impl<W: Write> Write for Undisturbed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            // Zero would make the caller give up with an error of its own.
            Ok(written) if written > 0 => Ok(written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Ok(_) | Err(_) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_is_no_error() {
        let mut log = Undisturbed(Broken);
        assert!(log.write_all(b"a line").is_ok() && log.flush().is_ok());
        let mut log = Undisturbed(Vec::new());
        log.write_all(b"a line").expect("memory is writable");
        assert_eq!(log.0, b"a line");
    }
}
