//! One running node.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::wait::{WATCHDOG, poll};
use crate::{binary, guard};

/// A `dht-node` process that serves. Killed when dropped.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    stdout: Receiver<String>,
    log: PathBuf,
    ready: Option<Ready>,
}

/// What a node says when it has its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The id of its place: 40 hexadecimal digits.
    pub id: String,
    /// The bound socket.
    pub listen: String,
    /// Name of the ring.
    pub ring: String,
}

impl Ready {
    /// Reads `ready id=<40 hex> listen=<addr> ring=<name>`.
    pub fn parse(line: &str) -> Option<Ready> {
        let fields = line.strip_prefix("ready ")?;
        let field = |name: &str| {
            let value = fields.split(' ').find_map(|field| field.strip_prefix(name))?;
            Some(value.to_owned())
        };
        Some(Ready { id: field("id=")?, listen: field("listen=")?, ring: field("ring=")? })
    }
}

/// A signal that a test sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Ctrl-C.
    Int,
    /// Asks it to stop.
    Term,
    /// Ends it at once.
    Kill,
}

/// A command that runs the binary under test, without this shell's settings, bound to this process.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(binary::dht_node());
    command.args(args);
    isolate(&mut command);
    command
}

/// Takes away what the developer's own shell might set, and binds the process to this one.
pub fn isolate(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DHT_NODE") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.env("NO_COLOR", "1").env("RUST_BACKTRACE", "1");
    guard::bind_to_this_process(command);
}

impl NodeProcess {
    /// Starts a node whose log goes to the end of a file.
    pub fn start(mut command: Command, log: &Path) -> NodeProcess {
        let log_file = File::options().create(true).append(true).open(log).expect("a log file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file);
        let mut child = command.spawn().expect("the binary can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let (lines, received) = mpsc::channel();
        // Ends with the process: its side of the pipe closes then.
        thread::spawn(move || {
            let mut all = BufReader::new(stdout).lines().map_while(Result::ok);
            all.try_for_each(|line| lines.send(line))
        });
        NodeProcess { child, stdout: received, log: log.to_owned(), ready: None }
    }

    /// Waits for the ready line; panics with the log if it does not come.
    pub fn ready(&mut self) -> &Ready {
        if self.ready.is_none() {
            let line = self.next_line();
            let parsed = line.as_deref().and_then(Ready::parse);
            self.ready = Some(parsed.unwrap_or_else(|| {
                panic!("no ready line but {line:?}; the log:\n{}", self.log_text())
            }));
        }
        self.ready.as_ref().expect("just set")
    }

    /// The next line on stdout; `None` if it ended, or nothing came for too long.
    pub fn next_line(&mut self) -> Option<String> {
        self.stdout.recv_timeout(WATCHDOG).ok()
    }

    /// The lines on stdout that came and were not asked for yet.
    pub fn waiting_lines(&mut self) -> Vec<String> {
        self.stdout.try_iter().collect()
    }

    /// Everything the node has logged.
    pub fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) {
        let name = match signal {
            Signal::Kill => return self.kill(),
            Signal::Int => "INT",
            Signal::Term => "TERM",
        };
        signal_process(self.child.id(), name);
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        self.child.wait().expect("it was started by us");
    }

    /// Waits until the process ends by itself; panics with the log if it does not.
    pub fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let ended = poll(WATCHDOG, || child.try_wait().expect("it was started by us"));
        ended.unwrap_or_else(|| panic!("it did not end; the log:\n{}", self.log_text()))
    }

    /// The most memory the process ever had, in bytes, as Linux counts it.
    pub fn peak_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|text| text.trim().strip_suffix(" kB")).expect("in every status");
        kib.trim().parse::<u64>().expect("a number") << 10
    }

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it was started by us").is_none()
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal by name. The shell's own `kill` needs no further program and no unsafe call.
pub fn signal_process(pid: u32, name: &str) {
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", &format!("kill -s {name} {pid}")]).status();
    assert!(status.expect("there is a shell").success(), "process {pid} is gone already");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_lines_are_read() {
        let line = "ready id=00ff listen=127.0.0.1:4433 ring=default";
        let ready = Ready::parse(line).expect("it is one");
        assert_eq!((ready.id.as_str(), ready.listen.as_str()), ("00ff", "127.0.0.1:4433"));
        assert_eq!(ready.ring, "default");
        for bad in ["", "ready", "ready id=1 listen=2", "id=1 listen=2 ring=3"] {
            assert_eq!(Ready::parse(bad), None, "{bad:?}");
        }
    }
}
