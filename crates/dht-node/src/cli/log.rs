//! The log of a running node.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::SubscriberBuilder;

use super::args::ColorArg;
use super::exit::{Failure, Kind};
use super::settings::{LogForm, LogPlan};

/// Starts logging. To be called once in a process. What is returned is to be kept until its end.
pub(crate) fn start(plan: LogPlan, color: ColorArg) -> Result<Log, Failure> {
    let LogPlan { filter, form, file } = plan;
    let (log, ansi) = match file {
        Some(path) => {
            let opened = File::options().create(true).append(true).open(&path);
            let file = opened.map_err(|error| {
                let text = format!("cannot open the log file {}: {error}", path.display());
                Failure::new(Kind::Io, text)
            })?;
            (Log::into(file), false)
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
            (Log::into(io::stderr()), colored)
        }
    };
    let lines = log.lines.clone();
    // What tracing would say of a log that cannot be written goes to stderr by `eprintln!`, which
    // panics where stderr is gone.
    let base = SubscriberBuilder::default()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(move || Line(lines.clone()))
        .with_ansi(ansi);
    let begun = match form {
        LogForm::Text => base.try_init(),
        LogForm::Json => base.json().try_init(),
    };
    begun.map_err(|error| Failure::new(Kind::Failed, format!("cannot start logging: {error}")))?;
    Ok(log)
}

/// The log of this process: a thread writes it, so that nobody else ever waits for a terminal that is
/// held, a pipe that is full, or a disk. Lines that come faster than they can be written are dropped.
#[derive(Debug)]
pub(crate) struct Log {
    lines: SyncSender<Order>,
}

#[derive(Debug)]
enum Order {
    Write(Vec<u8>),
    /// To be told when all before it is written.
    Tell(SyncSender<()>),
}

impl Log {
    fn into(mut out: impl Write + Send + 'static) -> Log {
        let (lines, orders) = sync_channel(MAX_LINES);
        std::thread::spawn(move || {
            for order in orders {
                // A log that lost its reader or its disk must not end the node: what cannot be
                // written is dropped.
                match order {
                    Order::Write(line) => _ = out.write_all(&line).and_then(|()| out.flush()),
                    Order::Tell(done) => _ = done.try_send(()),
                }
            }
        });
        Log { lines }
    }

    /// Says something to people, on its way like any other line.
    pub(crate) fn say(&self, text: &str) {
        let _ = self.lines.try_send(Order::Write(format!("{text}\n").into_bytes()));
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        if self.lines.try_send(Order::Tell(done)).is_ok() {
            let _ = written.recv_timeout(LAST_WORDS);
        }
    }
}

/// One line on its way; tracing writes each at once.
struct Line(SyncSender<Order>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(Order::Write(bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines that wait to be written; more are dropped (guess: a burst of some hundred KiB).
const MAX_LINES: usize = 1024;
/// How long the end of the process waits for the last lines (guess: longer than any disk takes, and
/// within the 2 s of a stop).
const LAST_WORDS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

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
        let log = Log::into(Broken);
        let mut line = Line(log.lines.clone());
        assert!(line.write_all(b"a line").is_ok() && line.flush().is_ok());
        log.say("another");
    }

    /// Writes nothing until it is let go.
    struct Stuck(Receiver<()>, SyncSender<Vec<u8>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            let _ = self.1.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_log_that_is_stuck() {
        let (go, gate) = sync_channel(1);
        let (sender, written) = sync_channel(20 * MAX_LINES);
        let log = Log::into(Stuck(gate, sender));
        for n in 0..10 * MAX_LINES {
            log.say(&n.to_string());
        }
        drop(go);
        drop(log);
        let lines: Vec<Vec<u8>> = written.iter().collect();
        assert_eq!(lines[0], b"0\n");
        assert!((MAX_LINES..=MAX_LINES + 1).contains(&lines.len()), "{}", lines.len());
    }
}
