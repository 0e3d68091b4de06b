//! Commands run to their end.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::process;
use crate::wait::{WATCHDOG, poll};

/// What a command came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was run, for messages.
    pub command: String,
    /// The exit code; -1 if a signal ended it.
    pub code: i32,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Outcome {
    /// This outcome if the exit code is that; else a panic that shows everything.
    pub fn expect(self, code: i32) -> Outcome {
        assert_eq!(self.code, code, "{self}");
        self
    }

    /// Stdout as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {self}"))
    }

    /// The code of a JSON error, `not_found` say; its exit code must be the process's.
    pub fn error_code(&self) -> String {
        let json = self.json();
        assert_eq!(json["error"]["exit"], self.code, "{self}");
        assert!(json["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{self}");
        json["error"]["code"].as_str().unwrap_or_else(|| panic!("no code: {self}")).to_owned()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.stdout[..self.stdout.len().min(2000)];
        write!(
            f,
            "`{}` ended with {}\nstdout: {}\nstderr: {}",
            self.command,
            self.code,
            String::from_utf8_lossy(shown),
            self.stderr
        )
    }
}

/// Runs `dht-node` with these arguments and nothing on stdin.
pub fn run(args: &[&str]) -> Outcome {
    run_with(args, b"")
}

/// Runs `dht-node` with these arguments and bytes on stdin.
pub fn run_with(args: &[&str], stdin: &[u8]) -> Outcome {
    finish(process::command(args), stdin)
}

/// Runs a command to its end, under the watchdog.
pub fn finish(mut command: Command, stdin: &[u8]) -> Outcome {
    let shown = describe(&command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("`{shown}`: {error}"));
    let mut to = child.stdin.take().expect("it is piped");
    let from = child.stdout.take().expect("it is piped");
    let errors = child.stderr.take().expect("it is piped");
    let (stdout, stderr, status) = thread::scope(|scope| {
        // The other side may end before it has read everything; then its outcome counts.
        scope.spawn(move || to.write_all(stdin));
        let stdout = scope.spawn(|| read_all(from));
        let stderr = scope.spawn(|| read_all(errors));
        let status = poll(WATCHDOG, || child.try_wait().expect("it was started by us"));
        if status.is_none() {
            end(&mut child);
        }
        let join = |reader: thread::ScopedJoinHandle<'_, Vec<u8>>| {
            reader.join().expect("reading does not panic")
        };
        (join(stdout), join(stderr), status)
    });
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let status = status.unwrap_or_else(|| panic!("`{shown}` did not end; stderr: {stderr}"));
    Outcome { command: shown, code: status.code().unwrap_or(-1), stdout, stderr }
}

/// Ends a process of ours.
fn end(child: &mut Child) {
    let _ = child.kill();
    child.wait().expect("it was started by us");
}

fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What came before an error counts.
    let _ = from.read_to_end(&mut bytes);
    bytes
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
