//! Files through the gateway: every size, replicas lost, uploads dropped, bytes rotten.

use super::*;

#[tokio::test]
async fn sizes_at_every_border_come_back_from_a_ring_of_one() {
    let nodes = ring(1).await;
    sizes(&nodes, 1).await;
}

#[tokio::test]
async fn sizes_at_every_border_come_back_from_every_node_of_three() {
    let nodes = ring(3).await;
    sizes(&nodes, 2).await;
}

async fn sizes(nodes: &[Node], acks: u32) {
    let client = Client::new();
    let mib = 1 << 20;
    for (at, len) in [0, 1, 4096, 4097, 64 << 10, mib, mib + 1, 10 * mib].into_iter().enumerate() {
        let name = format!("file of {len}");
        let content = content(len, at as u8);
        let report = client.put(&nodes[at % nodes.len()], &name, &content).await;
        assert_eq!(report.size, len as u64);
        assert_eq!(report.hash, *blake3::hash(&content).as_bytes());
        assert!(report.acks >= acks, "{report:?}");
        assert_eq!(report.wanted, nodes.len() as u32);
        let chunks = if len <= 4096 { 0 } else { len.div_ceil(mib) };
        assert_eq!(report.chunks, chunks as u64);
        for node in nodes {
            assert!(client.get(node, &name).await.expect("it is there") == content, "{name}");
        }
    }
}

#[tokio::test]
async fn an_upload_that_is_dropped_leaves_no_file() {
    let nodes = ring(3).await;
    let client = Client::new();
    let peer = client.peer(&nodes[0]).await;
    let frame = Frame::Client(ClientRequest::Put(put_request("half")));
    let (mut body, pending) = peer.request_body(frame).await.expect("a stream");
    within(body.write(content(3 << 20, 1))).await.expect("taken");
    body.reset(0);
    assert!(within(pending.into_future()).await.is_err(), "nothing is acknowledged");
    assert_eq!(client.get(&nodes[1], "half").await, Err(ClientErrorCode::NotFound));
}

/// Case 75: that a file is gone is an answer, not a failure.
#[tokio::test]
async fn deleted_is_not_found_and_absent_too() {
    let nodes = ring(3).await;
    let client = Client::new();
    let remove = |name: &str| ClientRequest::Remove {
        key: key(name),
        operation: OperationId(rand::random()),
    };
    let absent = client.ask(&nodes[0], remove("x")).await;
    assert!(
        matches!(absent, ClientResponse::Failed { code: ClientErrorCode::NotFound, .. }),
        "{absent:?}"
    );
    client.put(&nodes[0], "x", &content(10, 0)).await;
    let once = remove("x");
    for _ in 0..2 {
        let removed = client.ask(&nodes[1], once.clone()).await;
        assert!(matches!(removed, ClientResponse::Removed { .. }), "a retry is safe: {removed:?}");
    }
    for node in &nodes {
        assert_eq!(client.get(node, "x").await, Err(ClientErrorCode::NotFound));
    }
    let again = client.ask(&nodes[2], remove("x")).await;
    assert!(matches!(again, ClientResponse::Failed { code: ClientErrorCode::NotFound, .. }));
}

#[tokio::test]
async fn a_list_too_long_for_the_manifest_is_chunked() {
    let nodes = ring(1).await;
    let client = Client::new();
    let content = content(1025 * (64 << 10) + 1, 3);
    let mut request = put_request("long");
    request.chunk_size = Some(64 << 10);
    let peer = client.peer(&nodes[0]).await;
    let frame = Frame::Client(ClientRequest::Put(request));
    let (mut body, pending) = peer.request_body(frame).await.expect("a stream");
    within(body.write(content.clone())).await.expect("taken");
    body.finish().expect("ended");
    let reply = within(pending.into_future()).await.expect("an answer");
    let Answer::Client(ClientResponse::Stored(report)) = reply.answer else { panic!() };
    assert_eq!(report.chunks, 1026, "the one that holds the list is not the file's");
    assert!(client.get(&nodes[0], "long").await.expect("it is there") == content);
    let info = client.ask(&nodes[0], ClientRequest::Info { key: key("long"), first: 0 }).await;
    let ClientResponse::Info(info) = info else { panic!("{info:?}") };
    assert_eq!(info.chunk_count, 1026);
}

#[tokio::test]
async fn a_chunk_size_out_of_bounds_is_refused() {
    let nodes = ring(1).await;
    let client = Client::new();
    let mut request = put_request("x");
    request.chunk_size = Some(1000);
    let answer = client.ask(&nodes[0], ClientRequest::Put(request)).await;
    let ClientResponse::Failed { code, message } = answer else { panic!("{answer:?}") };
    assert_eq!(code, ClientErrorCode::Usage);
    assert!(message.contains("1000") && message.contains("65536"), "{message}");
}

#[tokio::test]
async fn rotten_bytes_are_never_returned() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let nodes = ring_in(&dirs).await;
    let client = Client::new();
    let content = content(3 << 20, 5);
    client.put(&nodes[0], "file", &content).await;
    until("every copy is written", async || {
        let mut copies = 0;
        for dir in &dirs {
            copies += chunk_files(dir.path()).len();
        }
        copies == 9
    })
    .await;
    for path in chunk_files(dirs[1].path()) {
        let mut bytes = std::fs::read(&path).expect("a chunk");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("written");
    }
    for node in &nodes {
        assert!(client.get(node, "file").await.expect("two good copies") == content);
    }
}

#[tokio::test]
async fn a_lost_chunk_is_no_short_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let nodes = ring_in(std::slice::from_ref(&dir)).await;
    let client = Client::new();
    client.put(&nodes[0], "file", &content(3 << 20, 6)).await;
    let name = blake3::hash(&content(3 << 20, 6)[2 << 20..]).to_hex().to_string();
    let files = chunk_files(dir.path());
    let last = files.iter().find(|path| path.to_string_lossy().contains(&name));
    std::fs::remove_file(last.expect("named by its hash")).expect("removed");
    assert_eq!(client.get(&nodes[0], "file").await, Err(ClientErrorCode::Incomplete));
}

/// The files below the store's chunk directory.
fn chunk_files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.join("store").join("chunks")];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}
