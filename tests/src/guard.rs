//! No process outlives its test.

use std::io::PipeWriter;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Makes a command's process a member of the group that dies with this test process, whether that
/// ends well, panics, or is killed.
///
/// The group is led by a shell that waits for the end of a pipe whose other side only this process
/// holds, and then kills the whole group, itself included. A group whose leader lives cannot be
/// confused with another one.
pub fn bind_to_this_process(command: &mut Command) {
    static GUARD: OnceLock<Guard> = OnceLock::new();
    let guard = GUARD.get_or_init(Guard::start);
    command.process_group(guard.group);
}

struct Guard {
    group: i32,
    /// Held, never read: they end with this process.
    _held: (Child, PipeWriter),
}

impl Guard {
    fn start() -> Guard {
        let (watched, alive) = std::io::pipe().expect("a pipe can be made");
        let shell = Command::new("sh")
            .args(["-c", "cat >/dev/null 2>&1; kill -s KILL 0"])
            .stdin(watched)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("there is a shell");
        let group = i32::try_from(shell.id()).expect("process ids are small");
        Guard { group, _held: (shell, alive) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_group_dies_when_the_pipe_closes() {
        let Guard { group, _held: (mut shell, alive) } = Guard::start();
        let mut bound = Command::new("sh");
        bound.args(["-c", "while :; do read -r line || exec tail -f /dev/null; done"]);
        bound.stdin(Stdio::null()).process_group(group);
        let mut bound = bound.spawn().expect("there is a shell");
        drop(alive);
        assert_eq!(bound.wait().expect("it is ours").signal(), Some(9));
        assert_eq!(shell.wait().expect("it is ours").signal(), Some(9));
    }
}
