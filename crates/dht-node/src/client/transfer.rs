//! Files in and out: streamed, in bounded memory, every byte hashed on this side too.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use dht_core::manifest::ContentHash;
use dht_core::message::Frame;
use dht_core::message::client::{ClientRequest, ClientResponse, FileReport, PutReport, PutRequest};
use dht_core::register::{Key, OperationId};
use dht_net::{BodyWriter, Reply, RequestError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::error::{ClientError, Doing};
use super::member::Member;

/// How a file is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutOptions {
    /// Names this write: the same one on every retry makes the retry safe.
    pub operation: OperationId,
    /// Length of the chunks in bytes; the ring's default if none.
    pub chunk_size: Option<u32>,
    /// MIME type.
    pub content_type: Option<String>,
    /// What the writer wants to note.
    pub meta: BTreeMap<String, String>,
}

impl PutOptions {
    /// Nothing special, with an operation id of its own.
    pub fn new() -> PutOptions {
        let meta = BTreeMap::new();
        PutOptions { operation: new_operation(), chunk_size: None, content_type: None, meta }
    }
}

impl Default for PutOptions {
    fn default() -> PutOptions {
        PutOptions::new()
    }
}

/// A name for a write that nobody else uses.
pub fn new_operation() -> OperationId {
    OperationId(rand::random())
}

impl Member {
    /// Stores what `input` gives until its end. `progress` is told the bytes sent so far.
    ///
    /// Dropped half-way, or after an error of `input`, it leaves no file behind: the stream is reset.
    pub async fn put<R: AsyncRead + Unpin>(
        &self,
        key: &Key,
        options: &PutOptions,
        input: &mut R,
        progress: impl FnMut(u64),
    ) -> Result<PutReport, ClientError> {
        let PutOptions { operation, chunk_size, content_type, meta } = options.clone();
        let request = PutRequest { key: key.clone(), operation, chunk_size, content_type, meta };
        let opened = self.peer.request_body(Frame::Client(ClientRequest::Put(request)));
        let (writer, reply) =
            self.pace.step(Doing::Sending, opened).await?.map_err(|error| self.lost(error))?;
        let mut reply = pin!(reply.into_future());
        let mut sent = Sent { size: 0, hasher: blake3::Hasher::new() };
        let early = self.send_all(input, writer, &mut sent, reply.as_mut(), progress).await?;
        let reply = match early {
            Some(reply) => reply,
            None => self.pace.step(Doing::Answering, reply).await?,
        };
        let answer = reply.map_err(|error| self.lost(error))?.answer;
        match self.client_answer(answer)? {
            ClientResponse::Stored(report) => {
                sent.check(report.size, report.hash)?;
                Ok(report)
            }
            _ => Err(self.bad_answer()),
        }
    }

    /// Sends `input` to its end, unless the member answers before: it took the request for
    /// impossible, and that answer counts.
    async fn send_all<R: AsyncRead + Unpin>(
        &self,
        input: &mut R,
        mut writer: BodyWriter,
        sent: &mut Sent,
        mut reply: std::pin::Pin<&mut impl Future<Output = Result<Reply, RequestError>>>,
        mut progress: impl FnMut(u64),
    ) -> Result<Option<Result<Reply, RequestError>>, ClientError> {
        loop {
            // However slow the input is, it is no lack of progress of the ring.
            let bytes = tokio::select! {
                biased;
                early = &mut reply => return Ok(Some(early)),
                bytes = self.pace.patiently(read_some(input)) => {
                    bytes?.map_err(ClientError::Input)?
                }
            };
            if bytes.is_empty() {
                writer.finish().map_err(|error| self.broken(error))?;
                return Ok(None);
            }
            sent.add(&bytes);
            tokio::select! {
                biased;
                early = &mut reply => return Ok(Some(early)),
                written = self.pace.step(Doing::Sending, writer.write(bytes)) => {
                    if let Err(error) = written? {
                        // Why the member takes no more stands in its answer, if there is one.
                        let answer = self.pace.step(Doing::Answering, reply.as_mut()).await;
                        return match answer {
                            Ok(Ok(answer)) => Ok(Some(Ok(answer))),
                            _ => Err(self.broken(error)),
                        };
                    }
                }
            }
            progress(sent.size);
        }
    }

    /// Fetches a file into `output` and checks length and hash. `progress` is told the bytes written
    /// and the bytes in all. After an error, what was written so far is not to be trusted.
    pub async fn get<W: AsyncWrite + Unpin>(
        &self,
        key: &Key,
        output: &mut W,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<FileReport, ClientError> {
        let asked = self.peer.request(Frame::Client(ClientRequest::Get { key: key.clone() }));
        let Reply { answer, mut body, .. } =
            self.pace.step(Doing::Answering, asked).await?.map_err(|error| self.lost(error))?;
        let report = match self.client_answer(answer)? {
            ClientResponse::Found(report) => report,
            _ => return Err(self.bad_answer()),
        };
        let mut received = Sent { size: 0, hasher: blake3::Hasher::new() };
        loop {
            let next = self.pace.step(Doing::Receiving, body.read_gathered(PIECE)).await?;
            let Some(bytes) = next.map_err(|error| self.broken(error))? else { break };
            received.add(&bytes);
            // More than was announced is refused before it is written.
            if received.size > report.size {
                break;
            }
            // However slow the output is, it is no lack of progress of the ring.
            let written = self.pace.patiently(output.write_all(&bytes)).await?;
            written.map_err(ClientError::Output)?;
            progress(received.size, report.size);
        }
        received.check(report.size, report.hash)?;
        self.pace.patiently(output.flush()).await?.map_err(ClientError::Output)?;
        Ok(report)
    }
}

/// Bytes that went by.
struct Sent {
    size: u64,
    hasher: blake3::Hasher,
}

impl Sent {
    fn add(&mut self, bytes: &[u8]) {
        self.size = self.size.saturating_add(bytes.len() as u64);
        self.hasher.update(bytes);
    }

    fn check(&self, expected_size: u64, expected_hash: ContentHash) -> Result<(), ClientError> {
        let hash = ContentHash::from(self.hasher.finalize());
        if self.size == expected_size && hash == expected_hash {
            return Ok(());
        }
        Err(ClientError::Mismatch { size: self.size, expected_size, hash, expected_hash })
    }
}

/// The next bytes of an input; none at its end. What a slow pipe gives goes on at once.
async fn read_some<R: AsyncRead + Unpin>(input: &mut R) -> std::io::Result<Bytes> {
    let mut buffer = BytesMut::with_capacity(PIECE);
    input.read_buf(&mut buffer).await?;
    Ok(buffer.freeze())
}

/// Bytes moved at a time. 256 KiB (guess: small beside the stream window of 4 MiB).
const PIECE: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_length_or_hash_is_refused() {
        let mut sent = Sent { size: 0, hasher: blake3::Hasher::new() };
        sent.add(b"abc");
        let hash = ContentHash::from(blake3::hash(b"abc"));
        assert!(sent.check(3, hash).is_ok());
        assert!(matches!(sent.check(4, hash), Err(ClientError::Mismatch { .. })));
        assert!(matches!(sent.check(3, [0; 32]), Err(ClientError::Mismatch { .. })));
    }

    #[tokio::test]
    async fn an_input_is_read_to_its_end_in_pieces() {
        let file = vec![7u8; 3 * PIECE + 1];
        let mut input = file.as_slice();
        let mut total = 0;
        loop {
            let bytes = read_some(&mut input).await.expect("memory is readable");
            assert!(bytes.len() <= PIECE);
            if bytes.is_empty() {
                break;
            }
            total += bytes.len();
        }
        assert_eq!(total, file.len());
        assert!(read_some(&mut tokio::io::empty()).await.expect("readable").is_empty());
    }
}
