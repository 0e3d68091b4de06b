//! Who has a UDP port: for the complaint that it is taken.

/// The processes that have a UDP socket at this port, as far as the system tells, as text such as
/// `process 4711 (dht-node)`; none where it does not.
#[cfg(target_os = "linux")]
pub(crate) fn of_udp_port(port: u16) -> Option<String> {
    let inodes: Vec<String> = ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .flat_map(|table| sockets_at(&table, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let processes = std::fs::read_dir("/proc").ok()?;
    let holder = processes.flatten().find(|entry| {
        // Beside the processes there are links to oneself, and more.
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        is_process && has_socket(&entry.path(), &inodes)
    })?;
    let pid = holder.file_name().into_string().ok()?;
    let name = std::fs::read_to_string(holder.path().join("comm")).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}

/// The same where nobody can be asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of_udp_port(_port: u16) -> Option<String> {
    None
}

/// The inodes of the sockets bound to a port, from the text of `/proc/net/udp` (proc_net(5)): the
/// second column is the local address with the port in hex, the tenth is the inode.
#[cfg(target_os = "linux")]
fn sockets_at(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    table
        .lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let is_bound = columns.get(1)?.ends_with(&suffix);
            is_bound.then(|| columns.get(9).map(|inode| format!("socket:[{inode}]")))?
        })
        .collect()
}

#[cfg(target_os = "linux")]
fn has_socket(process: &std::path::Path, inodes: &[String]) -> bool {
    let Ok(open) = std::fs::read_dir(process.join("fd")) else { return false };
    open.flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .any(|target| target.to_str().is_some_and(|text| inodes.iter().any(|inode| inode == text)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_very_process_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = socket.local_addr().expect("it is bound").port();
        let holder = of_udp_port(port).expect("the system tells");
        assert!(holder.starts_with(&format!("process {} ", std::process::id())), "{holder}");
    }

    #[test]
    fn the_table_is_read_by_its_columns() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            \x20 7: 0100007F:1151 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12345 2 0000000000000000 0\n";
        assert_eq!(sockets_at(table, 0x1151), ["socket:[12345]"]);
        assert_eq!(sockets_at(table, 0x0151), Vec::<String>::new());
    }
}
