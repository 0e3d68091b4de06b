//! Rings of real processes.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{self, Outcome};
use crate::process::{self, NodeProcess, Ready, Signal};
use crate::wait::wait_for;
use crate::{binary, data};

/// A ring of processes on loopback, each with a directory of its own. One cluster runs at a time,
/// over all tests: two rings of a dozen processes on two cores would take each other for dead.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Member>,
    settings: Settings,
    dir: TempDir,
    _turn: File,
}

/// How the nodes of a cluster are started.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Flags of every node.
    pub flags: Vec<String>,
}

impl Settings {
    /// Upkeep four times as fast as by default, so that tests of mending take less time.
    pub fn quick() -> Settings {
        Settings::default().flag("--stabilize-every").flag("250ms")
    }

    /// One more word on every node's command line.
    pub fn flag(mut self, word: &str) -> Settings {
        self.flags.push(word.to_owned());
        self
    }
}

#[derive(Debug)]
struct Member {
    process: Option<NodeProcess>,
    ready: Option<Ready>,
    dir: PathBuf,
}

impl Cluster {
    /// No node yet. Waits for its turn.
    pub fn empty(settings: Settings) -> Cluster {
        let lock = binary::profile_dir().join("dht-node-clusters.lock");
        let turn = File::create(&lock).expect("the target directory can be written");
        turn.lock().expect("the target directory can be locked");
        let dir = tempfile::tempdir().expect("there is a directory for temporary files");
        Cluster { nodes: Vec::new(), settings, dir, _turn: turn }
    }

    /// So many nodes, joined one by one through the first, in one complete ring.
    pub fn ring(size: usize, settings: Settings) -> Cluster {
        let mut cluster = Cluster::empty(settings);
        for _ in 0..size {
            cluster.add();
        }
        cluster.wait_complete();
        cluster
    }

    /// Starts one more node that joins through the first one that runs, and waits until it is ready.
    /// Its number.
    pub fn add(&mut self) -> usize {
        let number = self.begin();
        self.ready(number);
        number
    }

    /// Starts one more node that joins through the first one that runs, and does not wait.
    pub fn begin(&mut self) -> usize {
        let join = self.live().first().map(|first| self.addr(*first));
        let flags: Vec<&str> = join.iter().flat_map(|addr| ["--join", addr.as_str()]).collect();
        self.begin_with(&flags)
    }

    /// Starts one more node with just these flags besides those of the cluster, and does not wait.
    pub fn begin_with(&mut self, flags: &[&str]) -> usize {
        let dir = self.dir.path().join(format!("node-{}", self.nodes.len()));
        self.nodes.push(Member { process: None, ready: None, dir });
        self.start(self.nodes.len() - 1, flags);
        self.nodes.len() - 1
    }

    /// Starts a node again that is not running, with these flags besides those of the cluster.
    pub fn start(&mut self, number: usize, flags: &[&str]) {
        let member = &mut self.nodes[number];
        assert!(member.process.is_none(), "node {number} runs");
        let dir = member.dir.to_str().expect("temporary names are UTF-8");
        let mut args = vec!["--data-dir", dir];
        if !flags.contains(&"--listen") {
            args.extend(["--listen", "127.0.0.1:0"]);
        }
        args.extend(self.settings.flags.iter().map(String::as_str));
        args.extend(flags);
        let log = log_of(&member.dir);
        member.process = Some(NodeProcess::start(process::command(&args), &log));
    }

    /// Waits until a node has said that it is ready.
    pub fn ready(&mut self, number: usize) -> Ready {
        let ready = self.process(number).ready().clone();
        self.nodes[number].ready = Some(ready.clone());
        ready
    }

    /// SIGKILL.
    pub fn kill(&mut self, number: usize) {
        self.process(number).kill();
        self.nodes[number].process = None;
    }

    /// SIGTERM, and waits for exit code 0.
    pub fn stop(&mut self, number: usize) {
        let process = self.process(number);
        process.signal(Signal::Term);
        assert_eq!(process.wait().code(), Some(0), "{}", process.log_text());
        self.nodes[number].process = None;
    }

    /// Takes note that a node ended by itself, as after `leave`; panics if it does not.
    pub fn ended(&mut self, number: usize) -> i32 {
        let status = self.process(number).wait();
        self.nodes[number].process = None;
        status.code().unwrap_or(-1)
    }

    /// The process of a node that runs.
    pub fn process(&mut self, number: usize) -> &mut NodeProcess {
        let process = self.nodes[number].process.as_mut();
        process.unwrap_or_else(|| panic!("node {number} does not run"))
    }

    /// The numbers of the nodes that run.
    pub fn live(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].process.is_some()).collect()
    }

    /// Where a node listens: from its last ready line.
    pub fn addr(&self, number: usize) -> String {
        self.said(number).listen.clone()
    }

    /// The id of a node: from its last ready line.
    pub fn id(&self, number: usize) -> String {
        self.said(number).id.clone()
    }

    /// The number of the node with that id.
    pub fn number_of(&self, id: &str) -> usize {
        let has_id = |node: &Member| node.ready.as_ref().is_some_and(|ready| ready.id == id);
        self.nodes.iter().position(has_id).unwrap_or_else(|| panic!("no node has the id {id}"))
    }

    /// The data directory of a node.
    pub fn data_dir(&self, number: usize) -> &Path {
        &self.nodes[number].dir
    }

    /// What a node logged, over all its lives.
    pub fn log(&self, number: usize) -> String {
        std::fs::read_to_string(log_of(&self.nodes[number].dir)).unwrap_or_default()
    }

    /// A path for a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file with this content; its path.
    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("the directory is ours");
        path.to_str().expect("temporary names are UTF-8").to_owned()
    }

    /// Runs a client command against a node.
    pub fn client(&self, number: usize, args: &[&str]) -> Outcome {
        self.client_with(number, args, b"")
    }

    /// Runs a client command against a node, with bytes on stdin.
    pub fn client_with(&self, number: usize, args: &[&str], stdin: &[u8]) -> Outcome {
        let addr = self.addr(number);
        let mut all = args.to_vec();
        all.extend(["--node", &addr]);
        client::run_with(&all, stdin)
    }

    /// Runs a client command that must succeed, and reads its JSON.
    pub fn json(&self, number: usize, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        self.client(number, &all).expect(0).json()
    }

    /// Stores bytes under a key through a node; what `put` says.
    pub fn put(&self, number: usize, key: &str, content: &[u8]) -> Value {
        let args = ["put", "--json", key, "-"];
        let said = self.client_with(number, &args, content).expect(0).json();
        assert_eq!(said["size"], content.len(), "{said}");
        assert_eq!(said["hash"], data::hash(content), "{said}");
        said
    }

    /// Fetches a key through a node and compares the bytes.
    pub fn check(&self, number: usize, key: &str, content: &[u8]) {
        let got = self.client(number, &["get", key]);
        assert_eq!(got.code, 0, "{got}\nlog of node {number}:\n{}", tail(&self.log(number)));
        assert!(got.stdout == content, "node {number}: other bytes for {key:?}: {}", got.stderr);
    }

    /// Waits until the ring, as every node that runs sees it, has exactly the nodes that run, is
    /// complete and shows no problems.
    pub fn wait_complete(&self) {
        let live = self.live();
        for number in &live {
            wait_for(&format!("a complete ring of {} at node {number}", live.len()), || {
                self.is_complete(*number, live.len())
            });
        }
    }

    fn is_complete(&self, number: usize, size: usize) -> Result<(), String> {
        let said = self.client(number, &["ring", "--json"]);
        if said.code != 0 {
            return Err(format!("{said}\nlog:\n{}", tail(&self.log(number))));
        }
        let ring = said.json();
        let none = ring["problems"].as_array().is_some_and(Vec::is_empty);
        if ring["nodes"] == size && ring["complete"] == true && none {
            Ok(())
        } else {
            Err(ring.to_string())
        }
    }

    fn said(&self, number: usize) -> &Ready {
        let ready = self.nodes[number].ready.as_ref();
        ready.unwrap_or_else(|| panic!("node {number} has never been ready"))
    }
}

fn log_of(dir: &Path) -> PathBuf {
    dir.with_extension("log")
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
